"""A process that is stopped at its n-th change of the files below a folder: killed there, or given an error.

It is traced with ptrace, as by a debugger, which any process may do with its own child. It sees every system call that
would change a file, including those of SQLite's C code. Linux x86-64 only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AVAILABLE = sys.platform == "linux" and platform.machine() == "x86_64"
WHY = "ptrace is known here for Linux on x86-64 only"

TRACE_ME, GET_REGISTERS, SET_REGISTERS, CONTINUE_TO_CALL, SET_OPTIONS = 0, 12, 13, 24, 0x4200
MARK_CALLS, KILL_WITH_US = 1, 0x100000
STOPPED_AT_CALL = signal.SIGTRAP | 0x80

# Calls that change stored data: by a descriptor in the first argument, or by a path in that argument.
BY_DESCRIPTOR = {
    1: "write",
    18: "pwrite64",
    20: "writev",
    74: "fsync",
    75: "fdatasync",
    77: "ftruncate",
    285: "fallocate",
}
BY_PATH = {82: 0, 83: 0, 84: 0, 87: 0, 264: 1, 263: 1, 258: 1, 316: 1, 90: 0, 268: 1}
OPENING = {2: (0, 1), 257: (1, 2)}  # open, openat: positions of the path and the flags
CREATES = os.O_CREAT | os.O_TRUNC


class _Registers(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_ulonglong)
        for name in (
            *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
            *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
        )
    ]

    @property
    def arguments(self) -> tuple[int, int, int, int]:
        return self.rdi, self.rsi, self.rdx, self.r10


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def _ptrace(request: int, pid: int, data: Any = None) -> None:
    if _libc.ptrace(request, pid, None, data) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request}")


@dataclass(frozen=True)
class Ended:
    """The end of the process. `changes` are those that it made, and the one at which it was stopped."""

    code: int | None  # None: it was killed
    changes: int
    said: str  # its output to the pipe


def run(work: Callable[[Callable[[str], None]], None], folder: Path, at: int | None, fails: int | None = None) -> Ended:
    """Do the work in a forked process, which reports finished steps to the parent by `say`. It is killed at change
    number `at`; with `fails`, that change and all later ones fail with this error number instead."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _child(work, writing)
    os.close(writing)
    try:
        code, changes = _follow(pid, folder, at, fails)
        with os.fdopen(reading, closefd=False) as said:
            return Ended(code, changes, said.read())
    finally:
        os.close(reading)


def _child(work: Callable[[Callable[[str], None]], None], writing: int) -> None:
    code = 70
    try:
        _ptrace(TRACE_ME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        work(lambda line: void(os.write(writing, f"{line}\n".encode())))
        code = 0
    except Exception as error:
        os.write(writing, f"{type(error).__name__}: {' '.join(str(error).split())}\n".encode())
        if type(error).__module__ == "builtins" and not isinstance(error, OSError):
            os.write(writing, traceback.format_exc().encode())
    finally:
        os._exit(code)


def void(_: object) -> None:
    return None


def _follow(pid: int, folder: Path, at: int | None, fails: int | None) -> tuple[int | None, int]:
    os.waitpid(pid, 0)
    _ptrace(SET_OPTIONS, pid, MARK_CALLS | KILL_WITH_US)
    changes, entering, failing = 0, True, False
    registers = _Registers()
    pending = 0
    while True:
        _ptrace(CONTINUE_TO_CALL, pid, pending)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            return os.WEXITSTATUS(status), changes
        if os.WIFSIGNALED(status):
            return None, changes
        stopped = os.WSTOPSIG(status)
        pending = 0 if stopped == STOPPED_AT_CALL else stopped
        if stopped != STOPPED_AT_CALL:
            continue
        _ptrace(GET_REGISTERS, pid, ctypes.byref(registers))
        if entering and _changes(pid, registers, folder):
            changes += 1
            if at is not None and changes >= at and fails is None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return None, changes
            if at is not None and changes >= at:
                registers.orig_rax, failing = 2**64 - 1, True
                _ptrace(SET_REGISTERS, pid, ctypes.byref(registers))
        elif not entering and failing:
            registers.rax, failing = 2**64 - (fails or errno.EIO), False
            _ptrace(SET_REGISTERS, pid, ctypes.byref(registers))
        entering = not entering


def _changes(pid: int, registers: _Registers, folder: Path) -> bool:
    call, arguments = registers.orig_rax, registers.arguments
    if call in BY_DESCRIPTOR:
        try:
            path = os.readlink(f"/proc/{pid}/fd/{ctypes.c_int(arguments[0]).value}")
        except OSError:
            return False
        return path.startswith(str(folder))
    if call in OPENING:
        name, flags = OPENING[call]
        return bool(arguments[flags] & CREATES) and _path(pid, arguments[name]).startswith(str(folder))
    return call in BY_PATH and _path(pid, arguments[BY_PATH[call]]).startswith(str(folder))


def _path(pid: int, address: int) -> str:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        found = bytearray()
        while b"\0" not in found and len(found) < 4096:
            try:
                more = memory.read(64)
            except OSError:
                break
            found += more
            if not more:
                break
    return os.fsdecode(bytes(found).split(b"\0")[0])
