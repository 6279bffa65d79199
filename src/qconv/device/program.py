"""Running a compiler: what goes wrong with the program itself is said in words."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from qconv.errors import CompileError, CompilerKilled, CompileTimeout

# How long a compiler may take to say its name.
PROBE_S = 30.0
# What GCC and clang say where the program that does their work is killed.
KILLED = ("Killed signal terminated program", "unable to execute command: Killed")


def is_forbidden() -> bool:
    """Whether this process is to compile nothing."""
    return os.environ.get("QCONV_NO_COMPILE", "0") not in ("", "0")


def run(
    command: Sequence[str], folder: Path | None = None, limit_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Raises CompileError where there is no such program, CompileTimeout where it does not end in time, CompilerKilled
    where others end it. Whether it ends well is for the caller to see."""
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # A compiler has children, which do its work: in a session of their own they can be ended together.
            start_new_session=limit_s is not None,
        )
    except OSError as error:
        raise CompileError(f"cannot run {command[0]}: {error}; name a compiler that is installed") from None
    with process:
        try:
            out, log = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise CompileTimeout(f"{Path(command[0]).name} did not end within {limit_s:g} s, and was ended") from None
        except BaseException:
            process.kill()
            raise
    if -process.returncode in (signal.SIGKILL, signal.SIGTERM) or any(words in log for words in KILLED):
        raise CompilerKilled(f"{Path(command[0]).name} was killed: memory may be short; try again when there is more")
    return subprocess.CompletedProcess(command, process.returncode, out, log)


def wrote_nothing(path: str) -> str:
    return f"{path} ended without an error, but wrote nothing: it is no compiler; check CXX and QCONV_CLANG"
