"""Running compiler programs, with clear errors where the program itself fails."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from qconv.errors import CompileError, CompilerKilled, CompileTimeout

# The time limit for a compiler to report its version.
PROBE_S = 30.0
# Messages of GCC and clang when a child process of theirs was killed.
KILLED = ("Killed signal terminated program", "unable to execute command: Killed")


# The process groups of programs that run now.
_running: set[int] = set()


def end_all() -> None:
    """Kill all programs that run now, whichever thread waits for them: Ctrl-C reaches the main thread alone."""
    for group in tuple(_running):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def is_forbidden() -> bool:
    """True where this process must not compile."""
    return os.environ.get("QCONV_NO_COMPILE", "0") not in ("", "0")


def run(
    command: Sequence[str], folder: Path | None = None, limit_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program. Raise CompileError where it does not exist, CompileTimeout where it exceeds the limit,
    CompilerKilled where it was killed from outside. The caller checks its exit status."""
    with _group_that_ends_with_us() as group:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                process_group=group,
            )
        except OSError as error:
            raise CompileError(f"cannot run {command[0]}: {error}; name a compiler that is installed") from None
        with process:
            try:
                out, log = process.communicate(timeout=limit_s)
            except BaseException as error:
                os.killpg(group, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    name = Path(command[0]).name
                    raise CompileTimeout(f"{name} did not end within {limit_s:g} s, and was ended") from None
                raise
    if -process.returncode in (signal.SIGKILL, signal.SIGTERM) or any(words in log for words in KILLED):
        raise CompilerKilled(f"{Path(command[0]).name} was killed: memory may be short; try again when there is more")
    return subprocess.CompletedProcess(command, process.returncode, out, log)


@contextmanager
def _group_that_ends_with_us() -> Iterator[int]:
    """Create a process group for a compiler and its children, all of which are killed when this process ends, however
    it ends: a shell in the group waits for the end of a pipe whose only writer is this process."""
    reading, writing = os.pipe()
    try:
        watch = subprocess.Popen(
            ("/bin/sh", "-c", "read -r _; kill -KILL 0"),
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
    except OSError as error:
        os.close(writing)
        raise CompileError(f"cannot run /bin/sh: {error}; a compiler is ended by it when this process ends") from None
    finally:
        os.close(reading)
    _running.add(watch.pid)
    try:
        yield watch.pid
    finally:
        _running.discard(watch.pid)
        os.killpg(watch.pid, signal.SIGKILL)
        watch.wait()
        os.close(writing)


def wrote_nothing(path: str) -> str:
    return f"{path} ended without an error, but wrote nothing: it is no compiler; check CXX and QCONV_CLANG"
