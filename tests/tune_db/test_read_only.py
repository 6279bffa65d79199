"""A read-only database, as in a container image or on mounted media, can be read, and says why it is not written."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from measurement_samples import make_measurement
from read_only import read_only

from qconv.errors import DatabaseError
from qconv.tune_db.database import Database


@pytest.fixture
def path() -> Iterator[Path]:
    """Yield a path outside pytest's folder, which other users cannot enter."""
    folder = Path(tempfile.mkdtemp(prefix="qconv read-only %20 ?"))
    yield folder / "tune.sqlite"
    shutil.rmtree(folder)


def test_it_is_read_and_not_written(path: Path) -> None:
    rows = [make_measurement(number) for number in range(3)]
    with Database.open(path) as database:
        for row in rows:
            database.add(row)
    before = sorted(path.parent.iterdir())
    with read_only(path):
        with Database.open(path, create=False) as database:
            assert database.measurements() == rows
            assert database.where == str(path)
            with pytest.raises(DatabaseError, match="make the file and its folder writable, or work on a copy"):
                database.add(make_measurement(4))
        with pytest.raises(DatabaseError, match=r"tune\.sqlite: .*writ"):
            Database.open(path)
    assert sorted(path.parent.iterdir()) == before


def test_rows_in_the_log_of_a_writer_are_not_missed(path: Path) -> None:
    with Database.open(path) as database:
        database.add(make_measurement(0))
        assert path.with_name("tune.sqlite-wal").stat().st_size > 0
        with read_only(path), Database.open(path, create=False) as reader:
            assert reader.measurements() == [make_measurement(0)]


def test_one_that_is_only_to_be_read_is_not_written_to_where_it_could_be(path: Path) -> None:
    with Database.open(path) as database:
        database.add(make_measurement(0))
    with Database.open(path, create=False, read_only=True) as reader:
        assert reader.measurements() == [make_measurement(0)]
        assert [each.name for each in path.parent.iterdir()] == [path.name]
        with pytest.raises(DatabaseError, match="readonly"):
            reader.add(make_measurement(1))
