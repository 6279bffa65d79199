"""Ctrl-C and SIGTERM at any time: one line, an exit code, and no traceback.

While modules are imported and after the work is done, there is nothing to clean up, and the process ends at once: an
exception there may be swallowed by a library or shown as a traceback. In between, an exception ends child processes and
transactions. This module needs only Python, so that it is active before slow imports.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# The exit codes that a shell reports for processes ended by a signal.
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM


class Terminated(KeyboardInterrupt):
    """SIGTERM was received. It ends whatever Ctrl-C ends."""


def end_at_once() -> None:
    """Make Ctrl-C end the process directly. Where it is ignored, as after a script's `&`, it stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


@contextmanager
def raised() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into exceptions within the context, unless the caller ignores or handles them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGINT] is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if before[signal.SIGTERM] is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(_: int, __: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _terminate(_: int, __: FrameType | None) -> None:
    raise Terminated
