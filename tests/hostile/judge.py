"""The verdict on an input: it is accepted and right, or refused by a sentence of this project.

A refusal counts only if it is one of qconv's documented errors, of exactly that type, raised by a line of qconv: a
message of Python, NumPy or a parser about an unchecked value is merely a short traceback.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from qconv.errors import CacheError, DatabaseCut, DatabaseError, DeviceError, Infeasible, KernelMissing

REFUSALS: tuple[type[Exception], ...] = (
    ValueError,
    Infeasible,
    DatabaseError,
    DatabaseCut,
    CacheError,
    DeviceError,
    KernelMissing,
)
# Phrases that mean nothing to a reader: the interpreter's words about itself.
INTERNAL = re.compile(
    r"Traceback|object at 0x|NoneType|has no attribute|unhashable|list index|invalid literal|could not convert"
    r"|unexpected keyword|positional argument|not subscriptable|not iterable|out of range\b(?!:)|KeyError|<class"
)
LONGEST = 1200


class Wrong(AssertionError):
    """The input was neither properly refused nor correctly accepted."""


class Refused(Exception):
    """Raised by a surface that has seen the refusal itself, and checked its text."""


@dataclass(frozen=True)
class Surface:
    """A place where input arrives. `draw` makes an input from a seed, mostly a damaged valid one; `take` uses it as
    qconv would, and raises `Wrong` if the result is not right. An input is bytes, so that a vector can store it."""

    name: str
    draw: Callable[[Random], bytes]
    take: Callable[[bytes], None]
    cases: int  # cases in the slow suite
    refusals: tuple[type[Exception], ...] = REFUSALS


def judge(surface: Surface, given: bytes) -> str:
    """Return 'taken' or 'refused'; raise Wrong with the details otherwise."""
    try:
        surface.take(given)
    except Wrong:
        raise
    except Refused:
        return "refused"
    except BaseException as error:
        _check(error, surface.refusals)
        return "refused"
    return "taken"


def _check(error: BaseException, refusals: tuple[type[Exception], ...]) -> None:
    last = traceback.extract_tb(error.__traceback__)[-1]
    said = f"{type(error).__module__}.{type(error).__name__} at {last.filename}:{last.lineno}: {str(error)[:400]}"
    if type(error) not in refusals:
        raise Wrong(f"no refusal, but {said}") from error
    module = _module_of(error)
    if module.partition(".")[0] != "qconv":
        raise Wrong(f"refused by {module}, not by qconv: {said}") from error
    check_sentence(str(error))


def check_sentence(message: str) -> None:
    """Check that a message is readable: several words, not too long, and about the input rather than the
    interpreter."""
    if len(message.split()) < 4 or len(message) > LONGEST:
        raise Wrong(f"no sentence of 4 words to {LONGEST} letters: {message[: LONGEST + 1]!r}")
    if (internal := INTERNAL.search(message)) is not None:
        raise Wrong(f"{internal.group()!r} says nothing to a reader: {message!r}")
    if any(0xD800 <= ord(letter) <= 0xDFFF or (ord(letter) < 32 and letter not in "\n\t") for letter in message):
        raise Wrong(f"a terminal cannot show {message!r}")


def _module_of(error: BaseException) -> str:
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return str(trace.tb_frame.f_globals.get("__name__"))
