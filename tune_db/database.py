"""The store of measurements: one row per problem, config, device, target, toolchain and source digest."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Select,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import aliased

from qconv.errors import DatabaseError
from qconv.op import Problem
from qconv.tune_db.engine import DRIVER_ERRORS, explained, open_engine, where_of
from qconv.tune_db.layered import Source
from qconv.tune_db.measurement import NOISE, Measurement, best_of, best_of_each, read_problem
from qconv.tune_db.models import KEY, MeasurementRow, from_row, to_row

_COLUMNS = MeasurementRow.__table__.columns
_CORRECT = MeasurementRow.outcome == "correct"
_IS_KEY = [_COLUMNS[name] == bindparam(f"key_{name}") for name in KEY]
_ROWS = select(*_COLUMNS)
_INSERT = insert(MeasurementRow)
_REPLACE = update(MeasurementRow).where(*_IS_KEY)
_REPLACE_OLDER = _REPLACE.where(_COLUMNS["created_at"] < bindparam("key_created_at"))
# What a lookup in a fresh process waits for is rendered once, at import: an engine would compile it anew.
_BEST = text(
    str(
        _ROWS.where(
            _COLUMNS["problem"] == bindparam("problem"),
            _COLUMNS["device"] == bindparam("device"),
            _COLUMNS["target"] == bindparam("target"),
            _COLUMNS["outcome"] == literal_column("'correct'"),
        ).order_by(_COLUMNS["median_us"])
    )
)
# A row that was not there to be replaced can still come before ours, from another process: then it is there now.
_ATTEMPTS = 2


class Merged(NamedTuple):
    added: int
    replaced: int
    unchanged: int


class Database:
    """Any number of threads may share one; every process opens its own (a fork does not inherit it).

    What is stored survives: each row is one short transaction, and SQLite files are in WAL mode.
    """

    def __init__(self, engine: Engine) -> None:
        """Takes an engine of `open_engine`; use `Database.open`."""
        self._engine = engine
        self._lock = threading.Lock()
        self._closed = False
        self.where = where_of(engine.url)

    @classmethod
    def open(cls, url_or_path: str | os.PathLike[str], *, create: bool = True) -> Self:
        """A plain path is an SQLite file; `sqlite://` is one in memory; `postgresql+psycopg://...` for many hosts."""
        return cls(open_engine(url_or_path, create=create))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database({self.where!r})"

    # Writing.

    def add(self, measurement: Measurement) -> None:
        """Stores it; a row with the same key is replaced."""
        self._put(measurement, newer_only=False)

    def merge(self, other: Source) -> Merged:
        """Takes over the rows of another database or file; where both have a key, the newer row stays. Doing it again,
        or after an interruption, is harmless."""
        changes = [self._put(m, newer_only=True) for m in other.measurements()]
        return Merged(changes.count("added"), changes.count("replaced"), changes.count("unchanged"))

    def prune(
        self,
        *,
        failed: bool = False,
        digests_except: AbstractSet[str] | None = None,
        slower_than: float | None = None,
        device: str | None = None,
        dry_run: bool = False,
    ) -> int:
        """Removes the rows that meet any of: failed; of a source other than these digests; slower than this many times
        the best of their problem, device and target. `device` restricts all of them. Returns how many rows."""
        conditions: list[ColumnElement[bool]] = []
        if failed:
            conditions.append(MeasurementRow.outcome != "correct")
        if digests_except is not None:
            conditions.append(MeasurementRow.digest.not_in(digests_except))
        if slower_than is not None:
            conditions.append(_slower_than(slower_than))
        if not conditions:
            raise ValueError("prune of nothing: give failed=True, digests_except=... or slower_than=...")
        doomed = [or_(*conditions)]
        if device is not None:
            doomed.append(MeasurementRow.device == device)
        with self._transaction() as connection:
            if dry_run:
                return connection.execute(select(func.count(MeasurementRow.id)).where(*doomed)).scalar_one()
            return connection.execute(delete(MeasurementRow).where(*doomed)).rowcount

    def _put(self, measurement: Measurement, newer_only: bool) -> str:
        row = to_row(measurement)
        keys = {f"key_{name}": row[name] for name in KEY}
        statement = _REPLACE
        if newer_only:
            statement, keys = _REPLACE_OLDER, keys | {"key_created_at": row["created_at"]}
        for attempt in range(_ATTEMPTS):
            try:
                # Writing comes first: a transaction that reads and then writes can be refused by SQLite at once,
                # however long it would be willing to wait.
                with self._transaction() as connection:
                    if connection.execute(statement.values(row), keys).rowcount:
                        return "replaced"
                    connection.execute(_INSERT, row)
                    return "added"
            except DatabaseError as error:
                if not isinstance(error.__cause__, IntegrityError):
                    raise
                if attempt == _ATTEMPTS - 1 and not newer_only:
                    raise
        return "unchanged"

    # Reading. Every row is checked; a bad one is refused by its number.

    def measurements(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        """The rows, failures too, in the order in which they were first stored."""
        return self._read(_ROWS.where(*_among(problem, device, target)).order_by(MeasurementRow.id))

    def best(self, problem: Problem, device: str, target: str) -> Measurement | None:
        """The fastest correct row, of those measured in full if any; ties within noise go to the simpler config."""
        names = {"problem": str(problem), "device": device, "target": target}
        near: list[Measurement] = []
        limit = math.inf
        with self._transaction() as connection, connection.execute(_BEST, names) as rows:
            for row in rows.mappings():
                m = self._checked(row, problem)
                if m.median_us is None or (m.problem, m.device, m.target) != (problem, device, target):
                    raise self._refused(row["id"], "the index finds it where it does not belong")
                # Sorted by their medians: past the noise, nothing can be the best. What was only screened sets no
                # limit, for it is the best only where nothing else is.
                if m.median_us > limit:
                    break
                near.append(m)
                if not m.screened:
                    limit = min(limit, m.median_us * (1 + NOISE))
        return best_of(near)

    def best_per_problem(self, device: str | None = None) -> list[Measurement]:
        """The best row of every problem, device and target."""
        return best_of_each(self._read(_ROWS.where(_CORRECT, *_among(device=device))))

    def problems(self, device: str, target: str) -> list[Problem]:
        """The problems that have a correct row, in the order of their keys."""
        first = select(func.min(MeasurementRow.id), MeasurementRow.problem).group_by(MeasurementRow.problem)
        with self._transaction() as connection:
            rows = connection.execute(first.where(_CORRECT, *_among(device=device, target=target))).all()
        found = []
        for number, key in rows:
            try:
                found.append(read_problem(key))
            except ValueError as error:
                raise self._refused(number, error) from error
        return sorted(found, key=str)

    def devices(self) -> list[str]:
        """The names of those with a row, failures too."""
        with self._transaction() as connection:
            return sorted(map(str, connection.execute(select(_COLUMNS["device"]).distinct()).scalars()))

    def _read(self, statement: Select[Any]) -> list[Measurement]:
        with self._transaction() as connection:
            rows = connection.execute(statement).mappings().all()
        return [self._checked(row) for row in rows]

    def _checked(self, row: Any, problem: Problem | None = None) -> Measurement:
        try:
            return from_row(row, problem)
        except ValueError as error:
            raise self._refused(row["id"], error) from error

    def _refused(self, number: int, error: ValueError | str) -> DatabaseError:
        return DatabaseError(
            f"{self.where}: row {number} of {MeasurementRow.__tablename__}: {error}; delete this row, or bring back a "
            "copy of the database"
        )

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._lock:
            if self._closed:
                raise DatabaseError(f"{self.where}: this Database is closed; open it again with Database.open")
            try:
                with self._engine.begin() as connection:
                    yield connection
            except DRIVER_ERRORS as error:
                raise explained(self.where, error) from error


def _among(
    problem: Problem | None = None, device: str | None = None, target: str | None = None
) -> list[ColumnElement[bool]]:
    wanted = {"problem": None if problem is None else str(problem), "device": device, "target": target}
    return [_COLUMNS[name] == value for name, value in wanted.items() if value is not None]


def _slower_than(factor: float) -> ColumnElement[bool]:
    if not math.isfinite(factor) or factor < 1:
        raise ValueError(f"slower_than={factor} must be a finite factor of at least 1: 1 keeps the fastest only")
    other = aliased(MeasurementRow)
    fastest = (
        select(func.min(other.median_us))
        .where(
            other.problem == MeasurementRow.problem,
            other.device == MeasurementRow.device,
            other.target == MeasurementRow.target,
            other.outcome == "correct",
        )
        .scalar_subquery()
    )
    return MeasurementRow.median_us > factor * fastest
