"""The two tables, and how a measurement becomes a row and a row a measurement.

Values that SQL does not compute with are stored as JSON text, the time as ISO 8601 text of one width: every database
gives back exactly what was stored, and a row can be read without this program. Nothing read is ever executed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Double, Index, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from qconv.op import Problem
from qconv.tune_db.measurement import Measurement, read_config, read_problem, read_time, time_text

# Raise it with every change of the tables: a database of another version is refused.
SCHEMA_VERSION = 1


class Base(DeclarativeBase):
    # Doubles, for a float column of some databases is single; text without a limit, for keys have none.
    type_annotation_map = {float: Double(), str: Text()}  # noqa: RUF012 (declared so by SQLAlchemy)


class SchemaRow(Base):
    """Has one row: which version of these tables this database holds."""

    __tablename__ = "qconv_schema"

    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class MeasurementRow(Base):
    __tablename__ = "qconv_measurement"

    id: Mapped[int] = mapped_column(primary_key=True)
    problem: Mapped[str]
    config: Mapped[str]  # JSON
    device: Mapped[str]
    target: Mapped[str]
    toolchain: Mapped[str]
    digest: Mapped[str]
    outcome: Mapped[str]
    reason: Mapped[str | None]
    times_us: Mapped[str]  # JSON
    median_us: Mapped[float | None]
    registers: Mapped[int | None]
    spill_bytes: Mapped[int | None]
    smem_bytes: Mapped[int | None]
    compile_ms: Mapped[float | None]
    protocol: Mapped[str | None]  # JSON
    created_at: Mapped[str]  # ISO 8601, UTC

    __table_args__ = (
        UniqueConstraint("problem", "config", "device", "target", "toolchain", "digest"),
        # The one query that a lookup waits for: the fastest correct row of a problem on a device.
        Index("qconv_measurement_best", "problem", "device", "target", "outcome", "median_us"),
    )


# The columns whose values together name one row, in the order of Measurement.key.
KEY = ("problem", "config", "device", "target", "toolchain", "digest")


def to_row(m: Measurement) -> dict[str, Any]:
    return {
        **dict(zip(KEY, m.key, strict=True)),
        "outcome": m.outcome,
        "reason": m.reason,
        "times_us": json.dumps(m.times_us),
        "median_us": m.median_us,
        "registers": m.registers,
        "spill_bytes": m.spill_bytes,
        "smem_bytes": m.smem_bytes,
        "compile_ms": m.compile_ms,
        "protocol": None if m.protocol is None else json.dumps(m.protocol),
        "created_at": time_text(m.created_at),
    }


def from_row(row: Mapping[str, Any], problem: Problem | None = None) -> Measurement:
    """Raises ValueError for anything but what `to_row` writes. A row of `problem` needs no parsing of its key."""
    if problem is None or row["problem"] != problem.key:
        problem = read_problem(row["problem"])
    return Measurement(
        problem=problem,
        config=read_config(row["config"]),
        device=row["device"],
        target=row["target"],
        toolchain=row["toolchain"],
        digest=row["digest"],
        outcome=row["outcome"],
        reason=row["reason"],
        times_us=_json("times_us", row["times_us"]),
        median_us=row["median_us"],
        registers=row["registers"],
        spill_bytes=row["spill_bytes"],
        smem_bytes=row["smem_bytes"],
        compile_ms=row["compile_ms"],
        protocol=None if row["protocol"] is None else _json("protocol", row["protocol"]),
        created_at=read_time(row["created_at"]),
    )


def _json(name: str, text: object) -> Any:
    if isinstance(text, str):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if value is not None:
            return value
    raise ValueError(f"{name} is {repr(text)[:160]}, which is not JSON text with a value")
