"""What many rows have in common, by the numbers under which the database stores it once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select

from qconv.tune_db.measurement import Measurement
from qconv.tune_db.models import Base, ConfigRow, PlaceRow, ProblemRow, ProtocolRow, ToolchainRow
from qconv.tune_db.nearness import COARSE, shape_of

Names = tuple[str, ...]
# How many are asked for by one statement: databases limit its parameters.
CHUNK = 400


class Part(NamedTuple):
    """A table: the names of what it stores, and of a measurement the names that it has there."""

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
    """Remembers the numbers that it has found, which never change. Not those that it has just stored: a transaction may
    still be undone."""

    def __init__(self) -> None:
        self._found: dict[str, dict[Names, int]] = {column: {} for column in PARTS}

    def numbers(self, connection: Connection, measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
        """What stands in each measurement's columns; stores what is missing."""
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
    while chunk := list(islice(rest, CHUNK)):
        # By the first name; where there are two, few have the same.
        asked = select(columns["id"], *own).where(own[0].in_({names[0] for names in chunk}))
        rows = {tuple(row[1:]): row[0] for row in connection.execute(asked)}
        found |= {names: rows[names] for names in chunk if names in rows}
    return found


def _values(part: Part, names: Names, m: Measurement) -> dict[str, Any]:
    values: dict[str, Any] = dict(zip(part.columns, names, strict=True))
    return values | problem_columns(m) if part.table is ProblemRow else values


def problem_columns(m: Measurement) -> dict[str, Any]:
    """What the database compares of its problem."""
    shape = shape_of(m.problem)
    coarse = dict.fromkeys((f"coarse_{at + 1}" for at in range(COARSE)), None)
    coarse |= {f"coarse_{at + 1}": value for at, value in enumerate(shape.coarse)}
    return {"shape_group": shape.group, "extents": json.dumps(shape.extents), "kinds": shape.kinds, **coarse}
