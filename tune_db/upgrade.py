"""Databases of the schema versions before this one: upgraded where they are, or copied.

The rows of version 1 held their texts themselves, so that a problem's key stood in three places for each of its rows.
Version 2 has no table of what was measured in sequence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Column, Connection, Double, Engine, Integer, MetaData, Table, Text, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from qconv.errors import DatabaseError
from qconv.tune_db import statements
from qconv.tune_db.measurement import Measurement, read_config, read_problem, read_time
from qconv.tune_db.models import SCHEMA_VERSION, Base, MeasurementRow, SchemaRow, SequenceRow, from_row, read_json
from qconv.tune_db.writing import BATCH, StoredOnce, insert_all, start_writing

log = logging.getLogger("qconv")

OLDEST, WITHOUT_SEQUENCE = 1, 2
OLDER = (OLDEST, WITHOUT_SEQUENCE)
NAME = MeasurementRow.__tablename__
# Where its rows are until the new table has them.
ASIDE = f"{NAME}_1"
TEXTS = ("problem", "config", "device", "target", "toolchain", "digest", "outcome", "reason", "times_us", "protocol")
NUMBERS = ("registers", "spill_bytes", "smem_bytes")


def _table(name: str) -> Table:
    return Table(
        name,
        MetaData(),
        Column("id", Integer, primary_key=True),
        *(Column(each, Text) for each in (*TEXTS, "created_at")),
        *(Column(each, Integer) for each in NUMBERS),
        *(Column(each, Double) for each in ("median_us", "compile_ms")),
    )


def in_place(engine: Engine, where: str) -> None:
    """In one transaction: an interrupted upgrade leaves the database as it was. Of two processes the second finds
    nothing left to do."""
    with engine.begin() as connection:
        start_writing(connection)
        if _claimed(connection, WITHOUT_SEQUENCE):
            Base.metadata.tables[SequenceRow.__tablename__].create(connection)
            return
        if not _claimed(connection, OLDEST):
            return
        connection.execute(text(f"DROP INDEX {NAME}_best"))
        connection.execute(text(f"ALTER TABLE {NAME} RENAME TO {ASIDE}"))
        Base.metadata.create_all(connection)
        _insert(connection, connection, _table(ASIDE), where)
        connection.execute(text(f"DROP TABLE {ASIDE}"))
    if engine.dialect.name == "sqlite":
        _shrink(engine)


def copy(engine: Engine, into: Engine, where: str) -> None:
    """All rows of one that stays as it is, into an empty one of this version."""
    with engine.connect() as older, into.begin() as connection:
        start_writing(connection)
        if older.execute(select(SchemaRow.version)).scalar_one() == OLDEST:
            _insert(older, connection, _table(NAME), where)
            return
        stored = StoredOnce()
        for batch in older.execute(statements.rows().order_by(MeasurementRow.id)).mappings().partitions(BATCH):
            insert_all(connection, stored, [_checked(row, where, from_row) for row in batch])


def _claimed(connection: Connection, version: int) -> bool:
    """Whether it was of that version; from now on it is of today's."""
    renamed = update(SchemaRow).where(SchemaRow.version == version).values(version=SCHEMA_VERSION)
    return bool(connection.execute(renamed).rowcount)


def _insert(older: Connection, into: Connection, table: Table, where: str) -> None:
    stored = StoredOnce()
    for batch in _batches(older, table, where):
        insert_all(into, stored, batch)


def _batches(connection: Connection, table: Table, where: str) -> Iterator[list[Measurement]]:
    last = 0
    while True:
        asked = select(table).where(table.c.id > last).order_by(table.c.id).limit(BATCH)
        rows = connection.execute(asked).mappings().all()
        if not rows:
            return
        yield [_checked(row, where, _from_row) for row in rows]
        last = rows[-1]["id"]


def _checked(row: Any, where: str, read: Callable[[Any], Measurement]) -> Measurement:
    try:
        return read(row)
    except ValueError as error:
        raise DatabaseError(
            f"{where}: row {row['id']} of {NAME}: {error}; delete this row, so that the others can be upgraded, or "
            "bring back a copy of the database"
        ) from error


def _from_row(row: Any) -> Measurement:
    same = {name: row[name] for name in (*TEXTS, *NUMBERS, "median_us", "compile_ms")}
    read = {
        "problem": read_problem(row["problem"]),
        "config": read_config(row["config"]),
        "times_us": read_json("times_us", row["times_us"]),
        "protocol": None if row["protocol"] is None else read_json("protocol", row["protocol"]),
        "created_at": read_time(row["created_at"]),
    }
    return Measurement(**same | read)


def _shrink(engine: Engine) -> None:
    """Gives back the room of the older tables. Where that fails, the file is merely larger than it need be."""
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM"))
    except SQLAlchemyError as error:
        log.info("the file keeps the room of its older tables: %s", error)
