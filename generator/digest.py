"""The identity of a source: its code and its launches, without comments and layout.

A measurement is of a program. A better comment, a wrapped line or another width of indentation leaves the program as it
was, and must not make a measurement stale. Where it is doubtful whether two texts are the same program they get two
digests: a measurement that is taken anew costs seconds, and one that belongs to another program is wrong.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from qconv.generator.plan import Launch

# The first character is a set, so that the search for it is fast. An apostrophe between digits opens no character, and
# a comment goes on behind a backslash at its line's end.
_MARKS = re.compile(
    r"""["'/](?:
    (?P<raw>(?<=R")(?P<delimiter>[^\s()\\"]{0,16})\(.*?\)(?P=delimiter)")
    | (?P<quoted>(?<=")(?:\\.|[^"\\\n])*" | (?<=')(?<!(?<!u8)(?<=[0-9a-fA-F])')(?:\\.|[^'\\\n])+')
    | (?<=/)(?:/(?:\\\n|[^\n])*|\*.*?\*/)
    )""",
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(r"^[ \t]*\#((?:\\\n|[^\n])*)", re.MULTILINE)
# A blank beside one of these separates nothing. Others could become one operator.
_ALONE = "(){}[];,"
_LITERAL, _CONTINUED = "\x01", "\\\x02"


def source_digest(text: str, launches: Iterable[Launch]) -> str:
    """A digest of the code and of how its kernels are launched: the same kernel on another grid takes another time."""
    shapes = [(one.kernel, one.grid, one.threads, one.smem_bytes, one.cluster) for one in launches]
    return text_digest("\n".join([code_of(text), *map(repr, shapes)]))


def text_digest(text: str) -> str:
    """A digest of every byte: it names files, and what was compiled of them."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def code_of(text: str) -> str:
    """The program's code in one form, for comparing: without comments, white space as single blanks. Its literals,
    texts of `asm` among them, stay as they are and stand behind it. A directive of the preprocessor is a line, and
    keeps its blanks: one decides whether a macro has arguments."""
    literals: list[str] = []

    def without(found: re.Match[str]) -> str:
        if found["raw"] is None and found["quoted"] is None:
            return " "
        literals.append(found[0])
        return _LITERAL

    # Ordinary code and directives in turn.
    parts = _DIRECTIVE.split(_MARKS.sub(without, text))
    lines = [f"#{_one_line(part)}" if at % 2 else _close(_one_line(part)) for at, part in enumerate(parts)]
    return "\n".join([*filter(None, lines), *literals])


def _one_line(code: str) -> str:
    # A word that goes on in the next line gets no blank within it.
    return " ".join(code.replace("\\\n", _CONTINUED).split())


def _close(code: str) -> str:
    for mark in _ALONE:
        code = code.replace(f" {mark}", mark).replace(f"{mark} ", mark)
    return code
