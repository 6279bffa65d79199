"""Insertion and replacement of measurements within a transaction, one or many at a time. Values that many rows share
are stored once and referred to by number."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, insert, select, update

from qconv.tune_db.measurement import Measurement
from qconv.tune_db.models import (
    KEY,
    Base,
    ConfigRow,
    MeasurementRow,
    PlaceRow,
    ProblemRow,
    ProtocolRow,
    SequenceRow,
    ToolchainRow,
    table_of,
    to_row,
)
from qconv.tune_db.nearness import COARSE, shape_of

Names = tuple[str, ...]
# Names per statement: databases limit its parameters.
NUMBERS_PER_QUERY = 400


class Part(NamedTuple):
    """A table of shared values: its columns, and a measurement's values for them."""

    table: type[Base]
    columns: Names
    names: Callable[[Measurement], Names | None]


PARTS: dict[str, Part] = {
    "problem_id": Part(ProblemRow, ("key",), lambda m: (m.problem.key,)),
    "config_id": Part(ConfigRow, ("json",), lambda m: (m.config.as_json(),)),
    "place_id": Part(PlaceRow, ("device", "target"), lambda m: (m.device, m.target)),
    "toolchain_id": Part(ToolchainRow, ("name",), lambda m: (m.toolchain,)),
    "protocol_id": Part(ProtocolRow, ("json",), lambda m: None if m.protocol is None else (json.dumps(m.protocol),)),
}


class StoredOnce:
    """The numbers of shared values. Numbers that were read are cached, because they never change. Numbers just inserted
    are not: the transaction may be rolled back."""

    def __init__(self) -> None:
        self._found: dict[str, dict[Names, int]] = {column: {} for column in PARTS}

    def numbers(self, connection: Connection, measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
        """Return the numbers that refer to each measurement's shared values, by column. Inserts values that are
        missing."""
        rows: list[dict[str, Any]] = [{} for _ in measurements]
        for column, part in PARTS.items():
            named = [part.names(m) for m in measurements]
            wanted = {names: m for names, m in zip(named, measurements, strict=True) if names is not None}
            known = self._numbers(connection, column, wanted)
            for row, names in zip(rows, named, strict=True):
                row[column] = None if names is None else known[names]
        return rows

    def _numbers(self, connection: Connection, column: str, wanted: dict[Names, Measurement]) -> dict[Names, int]:
        found, part = self._found[column], PARTS[column]
        if missing := {names: m for names, m in wanted.items() if names not in found}:
            found |= _find(connection, part, list(missing))
        if new := [(names, m) for names, m in missing.items() if names not in found]:
            connection.execute(insert(part.table), [_values(part, names, m) for names, m in new])
            return found | _find(connection, part, [names for names, _ in new])
        return found


def _find(connection: Connection, part: Part, wanted: list[Names]) -> dict[Names, int]:
    columns = part.table.__table__.columns
    own = [columns[name] for name in part.columns]
    found: dict[Names, int] = {}
    rest = iter(wanted)
    while chunk := list(islice(rest, NUMBERS_PER_QUERY)):
        # Select by the first column only: in a table with two, few rows share it.
        query = select(columns["id"], *own).where(own[0].in_({names[0] for names in chunk}))
        rows = {tuple(row[1:]): row[0] for row in connection.execute(query)}
        found |= {names: rows[names] for names in chunk if names in rows}
    return found


def _values(part: Part, names: Names, m: Measurement) -> dict[str, Any]:
    values: dict[str, Any] = dict(zip(part.columns, names, strict=True))
    return values | problem_columns(m) if part.table is ProblemRow else values


def problem_columns(m: Measurement) -> dict[str, Any]:
    """Return the columns by which the database compares problems."""
    shape = shape_of(m.problem)
    coarse = dict.fromkeys((f"coarse_{at + 1}" for at in range(COARSE)), None)
    coarse |= {f"coarse_{at + 1}": value for at, value in enumerate(shape.coarse)}
    return {"shape_group": shape.group, "extents": json.dumps(shape.extents), "kinds": shape.kinds, **coarse}


# Rows per transaction, few enough not to keep other writers waiting.
BATCH = 2_000
# Problems per statement.
PROBLEMS_PER_QUERY = 200

Row = dict[str, Any]


class _Statements:
    """The statements for one table, each built once."""

    def __init__(self, table: type[MeasurementRow] | type[SequenceRow]) -> None:
        self.columns = columns = table.__table__.columns
        self.insert = insert(table)
        named = (columns[name] == bindparam(name) for name in KEY)
        self.find = select(columns["id"], columns["created_at"]).where(*named)
        self.replace = update(table).where(columns["id"] == bindparam("row"))
        # Keep a newer row that another process has stored meanwhile.
        self.replace_older = self.replace.where(columns["created_at"] < bindparam("row_created_at"))


_OF = {table: _Statements(table) for table in (MeasurementRow, SequenceRow)}


def start_writing(connection: Connection) -> None:
    """Take SQLite's write lock at the start. A transaction that reads before it writes can be refused at once, whatever
    its timeout, and Python's driver begins none before a read or before DDL."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def put(connection: Connection, stored: StoredOnce, measurement: Measurement) -> None:
    """Store a row. A row with the same key is replaced."""
    row = stored.numbers(connection, [measurement])[0] | to_row(measurement)
    statements = _OF[table_of(measurement)]
    found = connection.execute(statements.find, {name: row[name] for name in KEY}).first()
    if found is None:
        connection.execute(statements.insert, row)
    else:
        connection.execute(statements.replace.values(row), {"row": found[0]})


def put_newer(connection: Connection, stored: StoredOnce, measurements: Sequence[Measurement]) -> Counter[str]:
    """Merge measurements into one table: of two rows with one key the newer stays. No two measurements share a key, and
    all are of one table."""
    rows = rows_of(connection, stored, measurements)
    statements = _OF[table_of(measurements[0])]
    known = _known(connection, statements, rows)
    new = [row for row in rows if _key(row) not in known]
    newer = []
    for row in rows:
        number, created_at = known.get(_key(row), (None, row["created_at"]))
        if created_at < row["created_at"]:
            newer.append(row | {"row": number, "row_created_at": row["created_at"]})
    if new:
        connection.execute(statements.insert, new)
    if newer:
        own: dict[str, Any] = {name: bindparam(name) for name in rows[0] if name not in KEY}
        connection.execute(statements.replace_older.values(own), newer)
    return Counter(added=len(new), replaced=len(newer), unchanged=len(rows) - len(new) - len(newer))


def rows_of(connection: Connection, stored: StoredOnce, measurements: Sequence[Measurement]) -> list[Row]:
    numbers = stored.numbers(connection, measurements)
    return [row | to_row(m) for row, m in zip(numbers, measurements, strict=True)]


def batched(measurements: Iterable[Measurement]) -> Iterator[list[Measurement]]:
    """Split measurements into batches of at most BATCH. Measurements with the same key go to different batches."""
    batch: dict[tuple[str, ...], Measurement] = {}
    for m in measurements:
        key = m.key
        if len(batch) == BATCH or key in batch:
            yield list(batch.values())
            batch = {}
        batch[key] = m
    if batch:
        yield list(batch.values())


def _known(connection: Connection, statements: _Statements, rows: list[Row]) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Return number and time of the rows of the same problems, by key. Databases find a list of problems by an index.
    For a list of whole keys SQLite reads the whole table, and PostgreSQL spends more time on planning than on reading
    these rows."""
    columns = statements.columns
    key, problems = [columns[name] for name in KEY], sorted({row["problem_id"] for row in rows})
    known: dict[tuple[Any, ...], tuple[int, int]] = {}
    for begin in range(0, len(problems), PROBLEMS_PER_QUERY):
        of_problems = columns["problem_id"].in_(problems[begin : begin + PROBLEMS_PER_QUERY])
        query = select(*key, columns["id"], columns["created_at"]).where(of_problems)
        known |= {tuple(found[: len(KEY)]): (found[-2], found[-1]) for found in connection.execute(query)}
    return known


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)
