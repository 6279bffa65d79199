"""Rows as a table: in a terminal no wider than it is, elsewhere with every letter."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

BETWEEN = 2
# Narrower, a column says nothing.
LEAST = 6
CUT = "\N{HORIZONTAL ELLIPSIS}"


def table(names: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None) -> str:
    """Names above, columns aligned: what looks like a number to the right. With `columns`, what is too long for them is
    cut, the widest first. A column in which no row says anything is left out."""
    said = [at for at in range(len(names)) if not rows or any(row[at] for row in rows)]
    names, rows = [names[at] for at in said], [[row[at] for at in said] for row in rows]
    every = [names, *rows]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    if columns is not None:
        widths = fitted(widths, columns)
    numbers = [bool(rows) and all(row[at][:1].isdigit() or not row[at] for row in rows) for at in range(len(names))]
    lines = []
    for row in every:
        cells = (_cell(text, width, right) for text, width, right in zip(row, widths, numbers, strict=True))
        lines.append((" " * BETWEEN).join(cells).rstrip())
    return "\n".join(lines)


def fitted(widths: Sequence[int], columns: int) -> list[int]:
    """The widest are made as wide as each other until all fit, none narrower than LEAST."""
    found = list(widths)
    while sum(found) + BETWEEN * (len(found) - 1) > columns and max(found) > LEAST:
        found[found.index(max(found))] -= 1
    return found


def of_terminal() -> int | None:
    """The columns of the terminal that stdout is; None where it is a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _cell(text: str, width: int, right: bool) -> str:
    shown = text if len(text) <= width else text[: width - 1] + CUT
    return shown.rjust(width) if right else shown.ljust(width)
