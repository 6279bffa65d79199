"""Files of SQLite that were cut short: SQLite reads zeros for what is missing of the last page, and says nothing."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

_MAGIC = b"SQLite format 3\0"
# Page size, change counter, pages, and the change counter with which the number of pages was written.
_HEADER = struct.Struct(">16s H 6x I I 60x I 4x")


class Cut(NamedTuple):
    there: int  # bytes
    written: int


def cut_of(file: Path) -> Cut | None:
    """None for a file that is whole, or of which the header does not tell. Costs a read of the header."""
    # A writer that ends meanwhile writes the header before the last pages. It has a log until both are there: a file
    # that is short twice, and had no log in between, is cut.
    for _ in range(2):
        if (cut := _short(file)) is None or _has_log(file):
            return None
    return cut


def _short(file: Path) -> Cut | None:
    if not os.access(file, os.R_OK) or not file.is_file():
        return None  # what SQLite makes of it is said elsewhere
    with file.open("rb") as opened:
        header = opened.read(_HEADER.size)
        there = os.fstat(opened.fileno()).st_size
    if len(header) < _HEADER.size:
        return None
    magic, size, counter, pages, counted_at = _HEADER.unpack(header)
    if magic != _MAGIC or counter != counted_at:
        return None
    written = pages * (65536 if size == 1 else size)
    return Cut(there, written) if there < written else None


def _has_log(file: Path) -> bool:
    logs = (file.with_name(f"{file.name}{end}") for end in ("-wal", "-journal"))
    return any(log.exists() and log.stat().st_size for log in logs)
