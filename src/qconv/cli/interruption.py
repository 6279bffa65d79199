"""Ctrl-C and SIGTERM at any time: one line that says what was found and how to go on, an exit code, and no traceback.

While modules are imported and after the work is done, there is nothing to clean up, and the process ends at once: an
exception there may be swallowed by a library or shown as a traceback. In between, an exception ends child processes and
transactions. This module needs only Python, so that it is active before slow imports.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

# The exit codes that a shell reports for processes ended by a signal.
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
# Said by a command that has nothing else to say.
GOES_ON = "what was compiled by then is in the cache, nothing else was changed: the same command goes on"


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
        signal.signal(signal.SIGINT, _interrupt)
    if before[signal.SIGTERM] is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def telling(said: Callable[[], str]) -> Iterator[None]:
    """Add what was found and how to go on to the line that `line_of` makes, if the context is interrupted."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        stopped.add_note(said())
        raise


def again(out: Path, last: str) -> str:
    """Return how to go on with a command that refuses a folder which lacks the file that it writes last."""
    if not out.is_dir() or not any(out.iterdir()) or (out / last).exists():
        return "the same command goes on"
    return f"remove {out}, which is incomplete, and the same command goes on"


def line_of(stopped: BaseException) -> tuple[str, int]:
    """Return the line and the exit code of an interrupted command. Click's Abort has the interruption as its cause."""
    own = stopped.__cause__ or stopped
    said = "; ".join(getattr(own, "__notes__", (GOES_ON,)))
    if isinstance(own, Terminated):
        return f"terminated: {said}", TERMINATED
    return f"interrupted: {said}", INTERRUPTED


def _end(_: int, __: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _interrupt(_: int, __: FrameType | None) -> None:
    if (programs := sys.modules.get("qconv.device.program")) is not None:
        programs.end_all()  # pools of threads wait for theirs
    raise KeyboardInterrupt


def _terminate(_: int, __: FrameType | None) -> None:
    raise Terminated
