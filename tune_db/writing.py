"""Measurements stored within a transaction that has begun: one, or many at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from qconv.tune_db.measurement import Measurement
from qconv.tune_db.models import KEY, MeasurementRow, SequenceRow, table_of, to_row
from qconv.tune_db.stored_once import StoredOnce

# Rows of one transaction: few enough that another writer is not kept waiting.
BATCH = 2_000
# How many problems one statement asks for.
CHUNK = 200

Row = dict[str, Any]


class _Statements:
    """The statements for one table, each made once."""

    def __init__(self, table: type[MeasurementRow] | type[SequenceRow]) -> None:
        self.columns = columns = table.__table__.columns
        self.insert = insert(table)
        named = (columns[name] == bindparam(name) for name in KEY)
        self.find = select(columns["id"], columns["created_at"]).where(*named)
        self.replace = update(table).where(columns["id"] == bindparam("row"))
        # A newer row that another process has stored meanwhile stays.
        self.replace_older = self.replace.where(columns["created_at"] < bindparam("row_created_at"))


_OF = {table: _Statements(table) for table in (MeasurementRow, SequenceRow)}


def start_writing(connection: Connection) -> None:
    """In SQLite, a transaction that reads and then writes can be refused at once, however long it would be willing to
    wait: it takes the lock first. Python's driver begins none before it reads, nor before DDL."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def put(connection: Connection, stored: StoredOnce, measurement: Measurement) -> None:
    """A row with the same key is replaced."""
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


def insert_all(connection: Connection, stored: StoredOnce, measurements: Sequence[Measurement]) -> None:
    """Into a table that has none of them; all are of one."""
    connection.execute(_OF[table_of(measurements[0])].insert, rows_of(connection, stored, measurements))


def rows_of(connection: Connection, stored: StoredOnce, measurements: Sequence[Measurement]) -> list[Row]:
    numbers = stored.numbers(connection, measurements)
    return [row | to_row(m) for row, m in zip(numbers, measurements, strict=True)]


def batched(measurements: Iterable[Measurement]) -> Iterator[list[Measurement]]:
    """As many as are stored at a time; where a key comes again, in another batch."""
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
    """Number and time of the rows of the same problems, by key. Databases find a list of problems by an index; for a
    list of whole keys SQLite reads the table, and PostgreSQL plans for longer than it takes to read these."""
    columns = statements.columns
    key, problems = [columns[name] for name in KEY], sorted({row["problem_id"] for row in rows})
    known: dict[tuple[Any, ...], tuple[int, int]] = {}
    for begin in range(0, len(problems), CHUNK):
        of_problems = columns["problem_id"].in_(problems[begin : begin + CHUNK])
        asked = select(*key, columns["id"], columns["created_at"]).where(of_problems)
        known |= {tuple(found[: len(KEY)]): (found[-2], found[-1]) for found in connection.execute(asked)}
    return known


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)
