"""What a command fails with: one sentence with a remedy, an exit code, and under --json one document."""

from __future__ import annotations

import errno
import json
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

import click

from qconv.errors import (
    CacheError,
    CompileError,
    DatabaseError,
    DeviceError,
    Infeasible,
    KernelMissing,
    LaunchError,
)

# The format of an error under --json: fields are added without a new one, and none is changed or taken away.
SCHEMA = "qconv-error-1"
REQUEST, MACHINE = 2, 3
# What is quoted of a command line may be as long as that is.
LONGEST = 800

EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (ValueError, REQUEST),
    (Infeasible, REQUEST),
    (DeviceError, MACHINE),
    (CompileError, MACHINE),
    (CacheError, MACHINE),
    (KernelMissing, MACHINE),
    (LaunchError, 1),
    (DatabaseError, 4),
)
# Where a package comes from that is imported when a command needs it.
PACKAGES = {
    "cupy": "pip install 'qconv-tune[cuda]' for NVIDIA, 'qconv-tune[rocm]' for AMD",
    "onnx": "pip install 'qconv-tune[onnx]'",
    "psycopg": "pip install 'psycopg[binary]'",
}
_REMEDIES = {
    errno.EACCES: "give a place that you may use, or change its permissions",
    errno.EPERM: "give a place that you may use, or change its permissions",
    errno.EROFS: "give a place that can be written; QCONV_CACHE moves the cache, --db the database",
    errno.ENOSPC: "make room on the disk, or give another place",
    errno.ENOENT: "check the path",
    errno.ENAMETOOLONG: "give a shorter one",
}


@dataclass(frozen=True)
class Failure:
    kind: str  # the name of the exception
    message: str
    exit_code: int

    def show(self, as_json: bool) -> None:
        """The sentence on stderr; with --json the document on stdout, where its reader expects one."""
        click.echo(f"Error: {_readable(self.message)}", err=True)
        if as_json:
            document = {"kind": self.kind, "message": self.message, "exit_code": self.exit_code}
            click.echo(json.dumps({"schema": SCHEMA, "error": document}, indent=1))


def failure_of(error: Exception) -> Failure | None:
    """None for what is a bug of ours, which shows its traceback."""
    kind = type(error).__name__
    if isinstance(error, click.MissingParameter) and error.param is not None:
        missing = error.param.get_error_hint(error.ctx)
        return Failure(kind, f"{missing} is missing, and the command needs it: --help says what it is", REQUEST)
    if isinstance(error, click.UsageError) and error.message == "Missing command.":
        return Failure(kind, "no command was given, and there is nothing to do without one: --help lists them", REQUEST)
    if isinstance(error, click.ClickException):
        return Failure(kind, _clipped(error.format_message()), error.exit_code)
    for expected, code in EXIT_CODES:
        if isinstance(error, expected):
            # A compiler's words stay as they are.
            return Failure(kind, str(error) if expected is CompileError else _clipped(str(error)), code)
    if isinstance(error, MemoryError):
        return Failure(kind, f"this machine has too little memory for the problem: {error}; make n smaller", MACHINE)
    if isinstance(error, ModuleNotFoundError):
        missing = (error.name or "").partition(".")[0]
        if missing in core_packages():
            again = f"run {shlex.quote(sys.executable or 'python')} -m pip install qconv-tune again"
            return Failure(
                kind, f"{error}, which qconv-tune itself depends on: its installation is incomplete, {again}", MACHINE
            )
        remedy = PACKAGES.get(missing, f"pip install {missing}" if missing else "install what is missing")
        return Failure(kind, f"{error}, which this command needs: {remedy}", MACHINE)
    if isinstance(error, OSError):
        remedy = _REMEDIES.get(error.errno or 0, "qconv-tune doctor says what works here")
        return Failure(kind, f"{_clipped(str(error))}: {remedy}", MACHINE)
    if is_of_the_gpu(error):
        return Failure(kind, f"the GPU failed: {error}; qconv-tune doctor says what works here", MACHINE)
    return None


def core_packages() -> set[str]:
    """What is installed with qconv-tune, without any extra, as its metadata says; by the names of their modules."""
    try:
        required = metadata.requires("qconv-tune") or []
    except metadata.PackageNotFoundError:  # run from its sources
        return set()
    names = (re.match(r"[\w.-]+", one) for one in required if "extra ==" not in one)
    return {name[0].lower().replace("-", "_") for name in names if name is not None}


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _readable(message: str) -> str:
    """A terminal does nothing but show it: a path or an argument that is quoted may hold any character."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else repr(letter)[1:-1] for letter in message)


def is_of_the_gpu(error: Exception) -> bool:
    """Raised by CuPy, of the driver, the runtime or NVRTC: it is not imported to be asked."""
    return type(error).__module__.partition(".")[0] in ("cupy", "cupy_backends")


def asks_for_json(arguments: Sequence[str]) -> bool:
    return "--json" in arguments
