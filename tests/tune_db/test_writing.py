"""Storing many rows at once is equivalent to storing them one by one, and a rollback leaves nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from qconv.tune_db import writing
from qconv.tune_db.database import Database
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import Measurement
from qconv.tune_db.models import to_row
from qconv.tune_db.writing import batched

Make = Callable[..., Measurement]


class Given(Layered):
    """A source with any given rows, including several with one key."""

    def __init__(self, rows: list[Measurement]) -> None:
        super().__init__([])
        self.rows = rows

    def measurements(self, **_: object) -> list[Measurement]:
        return self.rows


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "BATCH", 7)
    monkeypatch.setattr(writing, "PROBLEMS_PER_QUERY", 3)


@pytest.mark.usefixtures("small_batches")
def test_a_merge_in_batches_is_a_merge_row_by_row(make: Make) -> None:
    rng, first = random.Random(0), make().created_at
    rows = [
        make(rng.randrange(25), created_at=first + timedelta(seconds=rng.randrange(4)), median_us=float(number + 1))
        for number in range(80)
    ]
    newest: dict[tuple[str, ...], Measurement] = {}
    counts = [0, 0, 0]
    for row in rows:
        old = newest.get(row.key)
        counts[0 if old is None else 1 if old.created_at < row.created_at else 2] += 1
        if old is None or old.created_at < row.created_at:
            newest[row.key] = row
    with Database.open("sqlite://") as database:
        assert list(database.merge(Given(rows))) == counts
        assert min(counts) >= 10
        assert database.measurements() == list(newest.values())


@pytest.mark.usefixtures("small_batches")
def test_no_batch_has_a_key_twice(make: Make) -> None:
    rows = [make(number % 5, median_us=float(number + 1)) for number in range(40)]
    cut = list(batched(rows))
    assert [row for batch in cut for row in batch] == rows
    assert all(len({row.key for row in batch}) == len(batch) == 5 for batch in cut)
    assert [len(batch) for batch in batched([make(number) for number in range(10)])] == [7, 3]
    assert list(batched([])) == []


def test_what_was_undone_is_not_remembered(tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(m: Measurement) -> dict[str, object]:
        if stop:
            raise KeyboardInterrupt
        return to_row(m)

    monkeypatch.setattr(writing, "to_row", stops)
    with Database.open(tmp_path / "tune.sqlite") as database:
        stop = True
        with pytest.raises(KeyboardInterrupt):
            database.add(make(3, toolchain="another"))
        stop = False
        database.add(make(1))
        database.add(make(3, toolchain="another"))
        assert database.measurements() == [make(1), make(3, toolchain="another")]
