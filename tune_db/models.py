"""Values that are stored in fewer bytes than their text has: digests, times and dates. Each reads back exactly what was
stored, and refuses with ValueError what was not stored so.

The tables, and how a measurement becomes a row and a row a measurement.

What many rows have in common is stored once, in a table of its own, and never removed: a number that was read once
names the same text for ever. What is long is stored as `encoding` says. Every database gives back exactly what was
stored, and nothing read is ever executed.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Double, Index, LargeBinary, SmallInteger, Text, UniqueConstraint, literal_column
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from qconv.op import Problem
from qconv.tune_db.measurement import Measurement, read_config, read_problem

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DIGITS = re.compile(r"[0-9a-f]{32}")
# What a hexadecimal digest takes. No other word is stored in so many: it has a zero more.
_DIGEST_BYTES = 16


def digest_to_bytes(digest: str) -> bytes:
    """A generated source's digest is 32 digits; any other word is its text."""
    if _DIGITS.fullmatch(digest):
        return bytes.fromhex(digest)
    word = digest.encode()
    return word + b"\0" if len(word) == _DIGEST_BYTES else word


def digest_from_bytes(stored: object) -> str:
    if not isinstance(stored, bytes):
        raise ValueError(f"digest is {repr(stored)[:160]}, which is not bytes")
    if len(stored) == _DIGEST_BYTES:
        return stored.hex()
    try:
        return stored.removesuffix(b"\0").decode()
    except UnicodeDecodeError:
        raise ValueError(f"digest is {repr(stored)[:160]}, which is neither 16 bytes nor text") from None


def times_to_bytes(times_us: tuple[float, ...]) -> bytes:
    return struct.pack(f"<{len(times_us)}d", *times_us)


def times_from_bytes(stored: object) -> tuple[float, ...]:
    if not isinstance(stored, bytes) or len(stored) % 8:
        raise ValueError(f"times_us is {repr(stored)[:160]}, which is not the bytes of doubles")
    return struct.unpack(f"<{len(stored) // 8}d", stored)


def time_to_number(time: datetime) -> int:
    """Microseconds since 1970: the order of the numbers is the order of the times."""
    return (time - _EPOCH) // _MICROSECOND


def time_from_number(stored: object) -> datetime:
    if isinstance(stored, int) and not isinstance(stored, bool):
        try:
            return _EPOCH + timedelta(microseconds=stored)
        except OverflowError:
            pass
    raise ValueError(f"created_at is {repr(stored)[:160]}, which is no number of microseconds since 1970")


# Raise it with every change of the tables, or of what `nearness.shape_of` says of a problem: a database of another
# version is refused.
SCHEMA_VERSION = 3


class Bytes(LargeBinary):
    """As the driver gives them: what is no bytes is refused with its row, and not converted."""

    def result_processor(self, dialect: object, coltype: object) -> None:
        return None


class Base(DeclarativeBase):
    # Doubles, for a float column of some databases is single; text without a limit, for keys have none.
    type_annotation_map = {float: Double(), str: Text(), bytes: Bytes()}  # noqa: RUF012 (declared so by SQLAlchemy)


class SchemaRow(Base):
    """Has one row: which version of these tables this database holds."""

    __tablename__ = "qconv_schema"

    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class ProblemRow(Base):
    """Beside its key, what `nearness` compares: extents and kinds of problems that are never parsed."""

    __tablename__ = "qconv_problem"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    shape_group: Mapped[str]  # the op and the shape class, as JSON
    extents: Mapped[str]  # a list as JSON
    kinds: Mapped[str]  # a list as JSON
    # The logarithms of the first extents; an op with fewer has none of the last.
    coarse_1: Mapped[float | None]
    coarse_2: Mapped[float | None]
    coarse_3: Mapped[float | None]
    coarse_4: Mapped[float | None]

    __table_args__ = (Index("qconv_problem_near", "shape_group", "coarse_1"),)


class ConfigRow(Base):
    __tablename__ = "qconv_config"

    id: Mapped[int] = mapped_column(primary_key=True)
    json: Mapped[str] = mapped_column(unique=True)


class PlaceRow(Base):
    """Where kernels ran: a device, and the target that they were compiled for."""

    __tablename__ = "qconv_place"

    id: Mapped[int] = mapped_column(primary_key=True)
    device: Mapped[str]
    target: Mapped[str]

    __table_args__ = (UniqueConstraint("device", "target"),)


class ToolchainRow(Base):
    __tablename__ = "qconv_toolchain"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)


class ProtocolRow(Base):
    __tablename__ = "qconv_protocol"

    id: Mapped[int] = mapped_column(primary_key=True)
    json: Mapped[str] = mapped_column(unique=True)


# The columns whose values together name one row.
KEY = ("problem_id", "config_id", "place_id", "toolchain_id", "digest")


class MeasuredColumns:
    """No foreign keys: a server would look up five for each row that is stored, and what they point at stays."""

    id: Mapped[int] = mapped_column(primary_key=True)
    problem_id: Mapped[int]
    config_id: Mapped[int]
    place_id: Mapped[int] = mapped_column(SmallInteger())
    toolchain_id: Mapped[int] = mapped_column(SmallInteger())
    protocol_id: Mapped[int | None] = mapped_column(SmallInteger())
    screened: Mapped[int] = mapped_column(SmallInteger())  # 1 where the protocol says so: the best are sorted by it
    registers: Mapped[int | None]
    spill_bytes: Mapped[int | None]
    smem_bytes: Mapped[int | None]
    median_us: Mapped[float | None]
    compile_ms: Mapped[float | None]
    created_at: Mapped[int] = mapped_column(BigInteger())  # microseconds since 1970
    digest: Mapped[bytes]
    times_us: Mapped[bytes]  # doubles
    outcome: Mapped[str]
    reason: Mapped[str | None]


class MeasurementRow(MeasuredColumns, Base):
    """A config by itself."""

    __tablename__ = "qconv_measurement"

    __table_args__ = (
        UniqueConstraint(*KEY),
        # Correct rows in the order in which the best is looked for: a lookup reads its first ones, and a list of the
        # best of all problems reads nothing else.
        Index(
            "qconv_measurement_best",
            "problem_id",
            "place_id",
            "screened",
            "median_us",
            sqlite_where=literal_column("outcome = 'correct'"),
            postgresql_where=literal_column("outcome = 'correct'"),
        ),
    )


class SequenceRow(MeasuredColumns, Base):
    """A config in sequence, among the launches of a network. A table of its own, for no question that is asked of the
    rows above means these."""

    __tablename__ = "qconv_sequence"

    __table_args__ = (UniqueConstraint(*KEY),)


def table_of(m: Measurement) -> type[MeasurementRow] | type[SequenceRow]:
    return SequenceRow if m.in_sequence else MeasurementRow


def to_row(m: Measurement) -> dict[str, Any]:
    """The columns of its own."""
    return {
        "screened": int(m.screened),
        "registers": m.registers,
        "spill_bytes": m.spill_bytes,
        "smem_bytes": m.smem_bytes,
        "median_us": m.median_us,
        "compile_ms": m.compile_ms,
        "created_at": time_to_number(m.created_at),
        "digest": digest_to_bytes(m.digest),
        "times_us": times_to_bytes(m.times_us),
        "outcome": m.outcome,
        "reason": m.reason,
    }


def from_row(row: Mapping[str, Any], problem: Problem | None = None) -> Measurement:
    """From its own columns, and the texts that its numbers name. Raises ValueError for anything but what was stored.
    A row of `problem` needs no parsing of its key."""
    if problem is None or row["problem"] != problem.key:
        problem = read_problem(row["problem"])
    m = Measurement(
        problem=problem,
        config=read_config(row["config"]),
        device=row["device"],
        target=row["target"],
        toolchain=row["toolchain"],
        digest=digest_from_bytes(row["digest"]),
        outcome=row["outcome"],
        reason=row["reason"],
        times_us=times_from_bytes(row["times_us"]),
        median_us=row["median_us"],
        registers=row["registers"],
        spill_bytes=row["spill_bytes"],
        smem_bytes=row["smem_bytes"],
        compile_ms=row["compile_ms"],
        protocol=_protocol(row["protocol_id"], row["protocol"]),
        created_at=time_from_number(row["created_at"]),
    )
    if row["screened"] != m.screened:
        raise ValueError(f"screened is {row['screened']!r}, and its protocol says {int(m.screened)}")
    return m


def _protocol(number: object, text: object) -> dict[str, Any] | None:
    if number is None:
        return None
    protocol: dict[str, Any] | None = read_json("protocol", text)
    return protocol


def read_json(name: str, text: object) -> Any:
    if isinstance(text, str):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if value is not None:
            return value
    raise ValueError(f"{name} is {repr(text)[:160]}, which is not JSON text with a value")
