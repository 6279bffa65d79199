"""Tables of rows: they fit a terminal's width, are complete elsewhere, and can be csv."""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from qconv.cli.options import print_json

BETWEEN = 2
# Narrower columns are unreadable.
LEAST = 6
CUT = "\N{HORIZONTAL ELLIPSIS}"


def table(names: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None, whole: Sequence[str] = ()) -> str:
    """Format rows with their names above, in aligned columns; numbers are right-aligned. Columns that are empty in
    every row are omitted. With `columns`, text is cut to fit, the widest columns first, and `whole` ones last."""
    said = [at for at in range(len(names)) if not rows or any(row[at] for row in rows)]
    names, rows = [names[at] for at in said], [[row[at] for at in said] for row in rows]
    every = [names, *rows]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    if columns is not None:
        widths = fitted(widths, columns, [name not in whole for name in names])
    numbers = [bool(rows) and all(row[at][:1].isdigit() or not row[at] for row in rows) for at in range(len(names))]
    lines = []
    for row in every:
        cells = (_cell(text, width, right) for text, width, right in zip(row, widths, numbers, strict=True))
        lines.append((" " * BETWEEN).join(cells).rstrip())
    return "\n".join(lines)


def fitted(widths: Sequence[int], columns: int, gives_way: Sequence[bool]) -> list[int]:
    """Reduce the widest columns equally until all fit, none below LEAST: first those that give way, then all."""
    found = list(widths)
    for may_shrink in (gives_way, [True] * len(found)):
        while sum(found) + BETWEEN * (len(found) - 1) > columns:
            left = [width if may else 0 for width, may in zip(found, may_shrink, strict=True)]
            if max(left) <= LEAST:
                break
            found[left.index(max(left))] -= 1
    return found


def of_terminal() -> int | None:
    """Return the width of the terminal that stdout is, or None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _cell(text: str, width: int, right: bool) -> str:
    shown = text if len(text) <= width else text[: width - 1] + CUT
    return shown.rjust(width) if right else shown.ljust(width)


csv_option = click.option("--csv", "as_csv", is_flag=True, help="The table as csv, complete, with its names first.")


def check_one_format(as_json: bool, as_csv: bool) -> None:
    if as_json and as_csv:
        raise click.UsageError("--json and --csv both say how to print: give one")


def printed_as_data(
    document: Any, names: Sequence[str], rows: Sequence[Mapping[str, Any]], as_json: bool, as_csv: bool
) -> bool:
    """Print the document as JSON, or its rows as csv with columns of these names. Return False if neither is asked
    for."""
    if as_json:
        print_json(document)
    elif as_csv:
        print_documents_csv(names, rows)
    return as_json or as_csv


def print_documents_csv(names: Sequence[str], documents: Sequence[Mapping[str, Any]]) -> None:
    """Print a row per document. A list is one cell, with spaces between."""
    rows = [[document[name] for name in names] for document in documents]
    print_csv(names, [[" ".join(map(str, one)) if isinstance(one, list) else one for one in row] for row in rows])


def print_csv(names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print all columns and rows at once. None is an empty cell."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([names, *rows])
    click.echo(written.getvalue(), nl=False)
