"""The message and exit code of every error that is not a bug. Click's errors get the form of all others: value, rule,
remedy.
"""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Sequence
from functools import partial
from itertools import takewhile

import click

from qconv.cli.incomplete import MACHINE, REQUEST, Failure, failure_of_import
from qconv.errors import (
    CacheError,
    CompileError,
    DatabaseError,
    DeviceError,
    Infeasible,
    KernelMissing,
    LaunchError,
    PluginError,
)

# The most characters of a value that a message repeats.
LONGEST_VALUE = 160


def message_of(error: click.ClickException) -> str:
    if isinstance(error, click.MissingParameter) and error.param is not None:
        missing = error.param.get_error_hint(error.ctx)
        return f"{missing} is missing, and the command needs it: --help says what it is"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return _of_value(error, error.param)
    if isinstance(error, click.UsageError):
        if error.message == "Missing command.":
            return "no command was given, and there is nothing to do without one: --help lists them"
        if (unknown := re.fullmatch(r"No such command '(.*)'\.?", error.message)) and error.ctx is not None:
            return _of_command(unknown[1], error.ctx)
    return error.format_message()


def _of_value(error: click.BadParameter, param: click.Parameter) -> str:
    """Rewrite a click message, which begins with the value and does not say what is accepted."""
    name = param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
    value = re.match(r"(.*?) is not (?:a valid|in the range|one of)", error.message, re.DOTALL)
    if value is None:
        return f"{name} {error.message}"
    given = value[1] if len(value[1]) <= LONGEST_VALUE else f"{value[1][: LONGEST_VALUE - 3]}..."
    kind = param.type
    if isinstance(kind, click.Choice):
        near = difflib.get_close_matches(given.strip("'\""), kind.choices, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{name} {given} is not one of {', '.join(kind.choices)}{hint}: give one of them"
    what = "an integer" if isinstance(kind, type(click.INT) | click.IntRange) else "a number"
    least = getattr(kind, "min", None)
    rule = what if least is None else f"{what} of at least {least}"
    return f"{name} {given} is not {rule}: give one, as in {name} {1 if least is None else least}"


def _of_command(given: str, ctx: click.Context) -> str:
    known = ctx.command.list_commands(ctx) if isinstance(ctx.command, click.Group) else []
    near = difflib.get_close_matches(given, known, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    # Click has already escaped it.
    given = given if len(given) <= LONGEST_VALUE else f"{given[: LONGEST_VALUE - 3]}..."
    return f"'{given}' is no command of {ctx.command_path}{hint}: give one of {', '.join(known)}"


# The length limit of a message: arguments quoted in it may be arbitrarily long.
LONGEST = 800
_URL = re.compile(r"[\w+.-]+://.*", re.DOTALL)

EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (ValueError, REQUEST),
    (Infeasible, REQUEST),
    (DeviceError, MACHINE),
    (CompileError, MACHINE),
    (CacheError, MACHINE),
    (KernelMissing, MACHINE),
    (PluginError, MACHINE),
    (LaunchError, 1),
    (DatabaseError, 4),
)
_REMEDIES = {
    errno.EACCES: "give a place that you may use, or change its permissions",
    errno.EPERM: "give a place that you may use, or change its permissions",
    errno.EROFS: "give a place that can be written; QCONV_CACHE moves the cache, --db the database",
    errno.ENOSPC: "make room on the disk, or give another place",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "a part of this path is a file: check it",
    errno.EISDIR: "this is a folder: give the name of a file",
    errno.ENAMETOOLONG: "give a shorter one",
}


def failure_of(error: Exception) -> Failure | None:
    """Return the failure for an error, or None for a bug, which shows its traceback."""
    kind = type(error).__name__
    if isinstance(error, click.ClickException):
        return Failure(kind, _clipped(message_of(error)), error.exit_code)
    for expected, code in EXIT_CODES:
        if isinstance(error, expected):
            # A compiler's message is not clipped.
            return Failure(kind, str(error) if expected is CompileError else _clipped(str(error)), code)
    if isinstance(error, MemoryError):
        return Failure(kind, f"this machine has too little memory for the problem: {error}; make n smaller", MACHINE)
    if isinstance(error, ModuleNotFoundError):
        return failure_of_import(error)
    if isinstance(error, OSError):
        remedy = _REMEDIES.get(error.errno or 0, "qconv-tune doctor says what works here")
        return Failure(kind, f"{_clipped(_without_number(error))}: {remedy}", MACHINE)
    if is_of_the_gpu(error):
        return Failure(kind, f"the GPU failed: {error}; qconv-tune doctor says what works here", MACHINE)
    return None


def without_passwords(message: str, arguments: Sequence[str]) -> str:
    """Return the message with passwords removed from every URL of the command line, whole or clipped: click and other
    libraries quote unexpected arguments."""
    for url in (found[0] for one in arguments if (found := _URL.search(one))):
        from qconv.tune_db.url import shown

        before, *quotes = re.split(f"(?={re.escape(url[: url.index('://') + 3])})", message)
        message = before + "".join(map(partial(_with_url_as, shown(url), url), quotes))
    return message


def _with_url_as(shown: str, url: str, quote: str) -> str:
    """Replace the URL at the beginning of a text, which may be escaped or clipped."""
    given = max(_equal_letters(quote, spelled) for spelled in (url, repr(url)[1:-1]))
    if quote.startswith(shown) and given <= len(shown):
        return quote
    return shown + quote[given:]


def _equal_letters(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _without_number(error: OSError) -> str:
    return str(error).removeprefix(f"[Errno {error.errno}] ")


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def is_of_the_gpu(error: Exception) -> bool:
    """True for an error of the driver, the runtime or NVRTC from CuPy, without importing that."""
    return type(error).__module__.partition(".")[0] in ("cupy", "cupy_backends")
