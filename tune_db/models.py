"""The tables, and the conversion of a measurement to a row and back.

Values that many rows share are stored once, in tables of their own, and never removed, so a number that was read stays
valid. Digests and times are stored in fewer bytes than their text has. Every value is read back exactly as it was
stored; a value that was not stored by qconv raises ValueError, and nothing read is ever executed.
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
# Size of a hexadecimal digest. Any other word of this size is stored with an additional zero byte.
_DIGEST_BYTES = 16


def digest_to_bytes(digest: str) -> bytes:
    """Encode a digest of 32 hexadecimal digits as 16 bytes, and any other word as its text."""
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
    """Encode a time as microseconds since 1970, which sort as times do."""
    return (time - _EPOCH) // _MICROSECOND


def time_from_number(stored: object) -> datetime:
    if isinstance(stored, int) and not isinstance(stored, bool):
        try:
            return _EPOCH + timedelta(microseconds=stored)
        except OverflowError:
            pass
    raise ValueError(f"created_at is {repr(stored)[:160]}, which is no number of microseconds since 1970")


# Increase it with every change of the tables or of the result of `nearness.shape_of`: a database of another version is
# refused.
SCHEMA_VERSION = 3


class Bytes(LargeBinary):
    """Bytes as the driver returns them. Any other type is rejected with its row instead of converted."""

    def result_processor(self, dialect: object, coltype: object) -> None:
        return None


class Base(DeclarativeBase):
    # Double, because a float column is single precision in some databases; Text, because keys have no maximum length.
    type_annotation_map = {float: Double(), str: Text(), bytes: Bytes()}  # noqa: RUF012 (declared so by SQLAlchemy)


class SchemaRow(Base):
    """The schema version of the database, in a single row."""

    __tablename__ = "qconv_schema"

    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class ProblemRow(Base):
    """A problem: its key, and the values by which `nearness` compares it without parsing the key."""

    __tablename__ = "qconv_problem"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    shape_group: Mapped[str]  # op and shape class, as JSON
    extents: Mapped[str]  # a list, as JSON
    kinds: Mapped[str]  # a list, as JSON
    # Logarithms of the first extents. The last ones are null for an op with fewer extents.
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
    """A device, and the target that kernels were compiled for."""

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


# The columns that together identify a row.
KEY = ("problem_id", "config_id", "place_id", "toolchain_id", "digest")


class MeasuredColumns:
    """The columns of a measurement. There are no foreign keys: a server would check five per stored row, and the
    referenced rows are never removed."""

    id: Mapped[int] = mapped_column(primary_key=True)
    problem_id: Mapped[int]
    config_id: Mapped[int]
    place_id: Mapped[int] = mapped_column(SmallInteger())
    toolchain_id: Mapped[int] = mapped_column(SmallInteger())
    protocol_id: Mapped[int | None] = mapped_column(SmallInteger())
    screened: Mapped[int] = mapped_column(SmallInteger())  # 1 where the protocol says so; the index sorts by it
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
    """A measurement of a config by itself."""

    __tablename__ = "qconv_measurement"

    __table_args__ = (
        UniqueConstraint(*KEY),
        # Correct rows in the order of `ranked`: a lookup reads the first few, and the list of all problems' best rows
        # needs no other data.
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
    """A measurement of a config among the launches of a network. It has a table of its own, because queries of
    MeasurementRow never mean these rows."""

    __tablename__ = "qconv_sequence"

    __table_args__ = (UniqueConstraint(*KEY),)


def table_of(m: Measurement) -> type[MeasurementRow] | type[SequenceRow]:
    return SequenceRow if m.in_sequence else MeasurementRow


def to_row(m: Measurement) -> dict[str, Any]:
    """Return the columns of the row that are not numbers of shared values."""
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
    """Build a measurement from a row joined with its shared values. Raises ValueError for anything that qconv did not
    store. With `problem`, a row of that problem needs no parsing of its key."""
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
