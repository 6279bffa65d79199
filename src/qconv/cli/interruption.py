"""Ctrl-C and SIGTERM, at any moment: one line, an exit code, and no traceback.

While modules are imported, and once the work is done, there is nothing to tidy up: the process ends at once, for an
exception there may be lost in a library or shown as a traceback. In between, an exception ends children and
transactions on its way. It needs nothing but Python, so that it comes before everything that takes time to import.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# As a shell counts a process that a signal has ended.
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM


class Terminated(KeyboardInterrupt):
    """Raised by SIGTERM: whatever an interruption ends, this ends."""


def end_at_once() -> None:
    """From here on, Ctrl-C ends the process by itself. It stays ignored where it is, as behind a script's `&`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


@contextmanager
def raised() -> Iterator[None]:
    """Within, Ctrl-C and SIGTERM are exceptions, unless the caller ignores them or has handlers of its own."""
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
