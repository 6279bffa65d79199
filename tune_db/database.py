"""The store of measurements: one row per problem, config, device, target, toolchain and source digest."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Executable, delete, func, or_, select
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from qconv.errors import DatabaseError
from qconv.op import Problem
from qconv.tune_db import statements
from qconv.tune_db.engine import DRIVER_ERRORS, explained, open_engine
from qconv.tune_db.layered import Source
from qconv.tune_db.measurement import NOISE, Measurement, best_of, best_of_each, read_problem
from qconv.tune_db.models import MeasurementRow, PlaceRow, ProblemRow, SequenceRow, digest_to_bytes, from_row
from qconv.tune_db.nearness import COARSE, Neighbour, Shape, distance, read_extents, shape_of
from qconv.tune_db.writing import StoredOnce, batched, put, put_newer, start_writing

# Another process may insert a row between our select and our insert, after which the retry finds it. That can happen
# once in each of the tables.
_ATTEMPTS = 8
# How long to retry a server that cannot be reached, for example while it restarts.
AWAY_S = 30.0
# Rows that `ranked` reads first: most callers need only the first.
_FEW = 4

Answer = TypeVar("Answer")


class Merged(NamedTuple):
    added: int
    replaced: int
    unchanged: int


class Database:
    """A database of measurements. Threads may share one; every process opens its own, because a fork does not inherit
    it.

    Stored rows survive a crash: each row is one short transaction, and SQLite files are in WAL mode.
    """

    def __init__(self, engine: Engine, where: str) -> None:
        """Take the result of `open_engine`. Use `Database.open` instead."""
        self._engine = engine
        self._lock = threading.Lock()
        self._closed = False
        self._stored = StoredOnce()
        self.where = where

    @classmethod
    def open(cls, url_or_path: str | os.PathLike[str], *, create: bool = True, read_only: bool = False) -> Self:
        """Open a database. A plain path is an SQLite file, `sqlite://` is one in memory, and `postgresql+psycopg://...`
        serves many hosts. With `read_only` neither the database nor any file beside it is written."""
        return cls(*open_engine(url_or_path, create=create, read_only=read_only))

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
        """Store a row. A row with the same key is replaced."""
        self._write(lambda connection: put(connection, self._stored, measurement))

    def merge(self, other: Source) -> Merged:
        """Add the rows of another database or file. Of two rows with one key the newer stays. Repeating a merge, or
        resuming an interrupted one, is harmless."""
        counts = Counter[str]()
        for rows in (other.measurements(), other.in_sequence()):
            for batch in batched(rows):
                counts += self._put_newer(batch)
        return Merged(counts["added"], counts["replaced"], counts["unchanged"])

    def prune(
        self,
        *,
        failed: bool = False,
        digests_except: AbstractSet[str] | None = None,
        slower_than: float | None = None,
        device: str | None = None,
        dry_run: bool = False,
    ) -> int:
        """Remove the rows that meet any of these conditions: failed; of a source that is not among `digests_except`;
        slower than `slower_than` times the best of their problem, device and target. The best row and all within NOISE
        (1 %) of it stay whatever the factor, because lookup chooses among them. `device` restricts all conditions.
        Return the number of removed rows."""
        conditions: list[ColumnElement[bool]] = []
        if failed:
            conditions.append(MeasurementRow.outcome != "correct")
        if digests_except is not None:
            conditions.append(MeasurementRow.digest.not_in(list(map(digest_to_bytes, digests_except))))
        if slower_than is not None:
            if not math.isfinite(slower_than) or slower_than < 1:
                raise ValueError(
                    f"slower_than={slower_than} must be a finite factor of at least 1: 1 keeps the best and its ties"
                )
            conditions.append(statements.slower_than(slower_than))
        if not conditions:
            raise ValueError("prune of nothing: give failed=True, digests_except=... or slower_than=...")
        doomed = [or_(*conditions), *statements.among(device=device)]
        if dry_run:
            with self._transaction() as connection:
                return connection.execute(select(func.count(MeasurementRow.id)).where(*doomed)).scalar_one()
        return self._write(lambda connection: connection.execute(delete(MeasurementRow).where(*doomed)).rowcount)

    def _put_newer(self, batch: Sequence[Measurement]) -> Counter[str]:
        return self._write(lambda connection: put_newer(connection, self._stored, batch))

    def _write(self, work: Callable[[Connection], Answer], attempts: int = _ATTEMPTS) -> Answer:
        """Run `work` in one transaction. Repeat it where another process stored the same row meanwhile, or where the
        server ended the transaction: storing a row twice is harmless."""
        try:
            with self._transaction() as connection:
                start_writing(connection)
                return work(connection)
        except DatabaseError as error:
            cause = error.__cause__
            was_cut = isinstance(cause, DBAPIError) and cause.connection_invalidated
            if not (was_cut or isinstance(cause, IntegrityError)) or attempts == 1:
                raise
        return self._write(work, attempts - 1)

    # Reading. Every row is checked; a bad one is reported by its number.

    def measurements(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        """Return the rows of configs timed by themselves, failures included, in the order in which they were first
        stored."""
        conditions = statements.among(None if problem is None else problem.key, device, target)
        return self._read(statements.rows().where(*conditions).order_by(MeasurementRow.id))

    def in_sequence(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        """Return the rows measured among the launches of a network, in the order in which they were first stored."""
        conditions = statements.among(None if problem is None else problem.key, device, target, SequenceRow)
        return self._read(statements.rows(SequenceRow).where(*conditions).order_by(SequenceRow.id))

    def best(self, problem: Problem, device: str, target: str) -> Measurement | None:
        """Return the fastest correct row, from those timed in full if there are any. Ties within noise go to the
        simpler config."""
        near: list[Measurement] = []
        limit = math.inf
        with self._transaction() as connection, connection.execute(*_leading(problem, device, target)) as rows:
            for row in rows.mappings():
                m = self._leader(row, problem, device, target)
                # The rows are sorted, so none past the noise can be the best.
                if (m.median_us or 0.0) > limit:
                    break
                near.append(m)
                limit = min(limit, (m.median_us or 0.0) * (1 + NOISE))
        return best_of(near)

    def ranked(self, problem: Problem, device: str, target: str) -> Iterator[Measurement]:
        """Generate the correct rows in the order of `measurement.ranked`, reading them on demand."""
        statement, names = _leading(problem, device, target)
        seen = set()
        for query, values in ((statements.FEW_LEADING, names | {"few": _FEW}), (statement, names)):
            with self._transaction() as connection:
                rows = [row for row in connection.execute(query, values).mappings() if row["id"] not in seen]
            seen |= {row["id"] for row in rows}
            for row in rows:
                yield self._leader(row, problem, device, target)
            if len(seen) < _FEW:
                return

    def best_per_problem(self, device: str | None = None) -> list[Measurement]:
        """Return the best row of every problem, device and target."""
        return best_of_each(self._read(statements.best_candidates(device)))

    def near(self, problem: Problem, device: str, target: str, within: float) -> Iterator[tuple[float, Problem]]:
        """Generate the problems with a correct row at most `within` away, nearest first, with their distances. A
        problem is parsed only when it is yielded."""
        own = shape_of(problem)
        found: list[tuple[Neighbour, int, Shape]] = []
        with self._transaction() as connection:
            rows = connection.execute(*_near(own, device, target, within)).all()
        for number, key, extents, kinds in rows:
            try:
                shape = Shape(own.group, read_extents(extents), kinds)
                far = distance(own, shape)
            except ValueError as error:
                raise self._bad_problem(number, error) from error
            if far <= within:
                found.append((Neighbour(far, key), number, shape))
        for neighbour, number, shape in sorted(found):
            try:
                other = read_problem(neighbour.key)
            except ValueError as error:
                raise self._bad_problem(number, error) from error
            if shape_of(other) != shape:
                raise self._bad_problem(number, "its extents and kinds are not those of its key")
            yield neighbour.distance, other

    def problems(self, device: str, target: str) -> list[Problem]:
        """Return the problems with a correct row, in the order of their keys."""
        known = select(MeasurementRow.problem_id).where(statements.CORRECT, *statements.among(None, device, target))
        query = select(ProblemRow.id, ProblemRow.key).where(ProblemRow.id.in_(known))
        with self._transaction() as connection:
            rows = connection.execute(query).all()
        found = []
        for number, key in rows:
            try:
                found.append(read_problem(key))
            except ValueError as error:
                raise self._bad_problem(number, error) from error
        return sorted(found, key=str)

    def devices(self) -> list[str]:
        """Return the names of the devices with a row, failures included."""
        has_row = select(MeasurementRow.id).where(MeasurementRow.place_id == PlaceRow.id).exists()
        with self._transaction() as connection:
            return sorted(set(map(str, connection.execute(select(PlaceRow.device).where(has_row)).scalars())))

    def _read(self, statement: Executable) -> list[Measurement]:
        with self._transaction() as connection:
            rows = connection.execute(statement).mappings().all()
        return [self._checked(row) for row in rows]

    def _checked(self, row: Any, problem: Problem | None = None) -> Measurement:
        try:
            return from_row(row, problem)
        except ValueError as error:
            raise self._refused(row["id"], error) from error

    def _leader(self, row: Any, problem: Problem, device: str, target: str) -> Measurement:
        m = self._checked(row, problem)
        if not m.correct or (m.problem, m.device, m.target) != (problem, device, target):
            raise self._refused(row["id"], "the index finds it where it does not belong")
        return m

    def _refused(self, number: int, error: ValueError | str) -> DatabaseError:
        return DatabaseError(
            f"{self.where}: row {number} of {MeasurementRow.__tablename__}: {error}; delete this row, or bring back a "
            "copy of the database"
        )

    def _bad_problem(self, number: int, error: Exception | str) -> DatabaseError:
        return DatabaseError(
            f"{self.where}: row {number} of {ProblemRow.__tablename__}: {error}; delete this row and those of "
            f"{MeasurementRow.__tablename__} with this problem_id, or bring back a copy of the database"
        )

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._lock:
            if self._closed:
                raise DatabaseError(f"{self.where}: this Database is closed; open it again with Database.open")
            try:
                with self._connect() as connection, connection.begin():
                    yield connection
            except DRIVER_ERRORS as error:
                raise explained(self.where, error) from error

    def _connect(self) -> Connection:
        end = time.monotonic() + AWAY_S
        while True:
            try:
                return self._engine.connect()
            except OperationalError:
                if self._engine.dialect.name == "sqlite" or time.monotonic() > end:
                    raise
            time.sleep(0.25)


def _leading(problem: Problem, device: str, target: str) -> tuple[Executable, dict[str, Any]]:
    return statements.LEADING, {"problem": problem.key, "device": device, "target": target}


def _near(own: Shape, device: str, target: str, within: float) -> tuple[Executable, dict[str, Any]]:
    coarse = {f"coarse_{at + 1}": value for at, value in enumerate(own.coarse)}
    within += statements.SLACK
    first = own.coarse[0]
    names = {"shape_group": own.group, "least": first - within, "most": first + within, "within": within}
    return statements.NEAR[min(COARSE, len(own.extents)) - 1], names | coarse | {"device": device, "target": target}
