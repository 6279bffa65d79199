"""The identity of a source: a digest of its code and its launches, without comments and layout.

A measurement belongs to a program. A better comment, a wrapped line or another indentation leaves the program as it was
and must not make the measurement stale. When in doubt whether two texts are the same program, they get two digests:
measuring again costs seconds, and a measurement of another program is wrong.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from qconv.generator.plan import Launch

# The first character is a set, which makes the search fast. An apostrophe between digits opens no character literal,
# and a comment continues after a backslash at the end of its line.
_MARKS = re.compile(
    r"""["'/](?:
    (?P<raw>(?<=R")(?P<delimiter>[^\s()\\"]{0,16})\(.*?\)(?P=delimiter)")
    | (?P<quoted>(?<=")(?:\\.|[^"\\\n])*" | (?<=')(?<!(?<!u8)(?<=[0-9a-fA-F])')(?:\\.|[^'\\\n])+')
    | (?<=/)(?:/(?:\\\n|[^\n])*|\*.*?\*/)
    )""",
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(r"^[ \t]*\#((?:\\\n|[^\n])*)", re.MULTILINE)
# A space beside one of these separates nothing. Beside other marks it could keep two operators apart.
_ALONE = "(){}[];,"
_LITERAL, _CONTINUED = "\x01", "\\\x02"


def source_digest(text: str, launches: Iterable[Launch]) -> str:
    """Return a digest of the code and of its launches: the same kernel takes another time on another grid."""
    shapes = [(one.kernel, one.grid, one.threads, one.smem_bytes, one.cluster) for one in launches]
    return text_digest("\n".join([code_of(text), *map(repr, shapes)]))


def text_digest(text: str) -> str:
    """Return a digest of every byte. It names files, and identifies the text that was compiled."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def code_of(text: str) -> str:
    """Normalize the code for comparison: no comments, runs of white space as single spaces. Literals, the texts of
    `asm` among them, are unchanged and follow the code. A preprocessor directive stays on a line of its own and keeps
    its spaces, because a space decides whether a macro has arguments."""
    literals: list[str] = []

    def without(found: re.Match[str]) -> str:
        if found["raw"] is None and found["quoted"] is None:
            return " "
        literals.append(found[0])
        return _LITERAL

    # Code and directives alternate.
    parts = _DIRECTIVE.split(_MARKS.sub(without, text))
    lines = [f"#{_one_line(part)}" if at % 2 else _close(_one_line(part)) for at, part in enumerate(parts)]
    return "\n".join([*filter(None, lines), *literals])


def _one_line(code: str) -> str:
    # A word that a backslash continues on the next line gets no space inside.
    return " ".join(code.replace("\\\n", _CONTINUED).split())


def _close(code: str) -> str:
    for mark in _ALONE:
        code = code.replace(f" {mark}", mark).replace(f"{mark} ", mark)
    return code
