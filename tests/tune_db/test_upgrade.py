"""Databases that an older qconv wrote: `schema_1/dump.sql` is one of version 1, and `schema_1/export.json` what that
qconv exported of it."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from measurement_samples import make_measurement
from read_only import read_only

from qconv.errors import DatabaseError
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import KEPT
from qconv.tune_db.text import dump, read

OLDER = Path(__file__).parent / "schema_1"
EXPORTED = (OLDER / "export.json").read_text()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return older(tmp_path)


def older(folder: Path) -> Path:
    path = folder / "tune.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript((OLDER / "dump.sql").read_text())
    return path


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


@pytest.mark.parametrize("create", [True, False])
def test_it_is_upgraded_where_it_is(path: Path, create: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "qconv"), Database.open(path, create=create) as database:
        assert dump(database.measurements()) == EXPORTED
        assert "upgraded to schema version 3" in caplog.text
        database.add(make_measurement(20))
    caplog.clear()
    with Database.open(path, create=False) as database:
        assert len(database.measurements()) == EXPORTED.count("\n{") + 1
    assert not caplog.records
    assert "qconv_measurement_1" not in tables(path)


@pytest.fixture
def version_2(tmp_path: Path) -> Path:
    """Version 2 has no table of measurements in sequence."""
    path = tmp_path / "version_2.sqlite"
    with Database.open(path) as database:
        database.add(make_measurement(1))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript("DROP TABLE qconv_sequence; UPDATE qconv_schema SET version = 2")
    return path


def test_version_2_takes_what_is_measured_in_sequence(version_2: Path) -> None:
    in_sequence = make_measurement(2, protocol={"phase": KEPT})
    with Database.open(version_2) as database:
        assert database.measurements() == [make_measurement(1)]
        database.add(in_sequence)
    with Database.open(version_2, create=False) as database:
        assert database.in_sequence() == [in_sequence]


def test_version_2_is_read_where_it_cannot_be_written(version_2: Path) -> None:
    before = version_2.read_bytes()
    with Database.open(version_2, create=False, read_only=True) as database:
        assert database.measurements() == [make_measurement(1)]
        assert database.in_sequence() == []
    assert version_2.read_bytes() == before


def test_version_2_without_its_rows_is_damaged(version_2: Path) -> None:
    with closing(sqlite3.connect(version_2)) as connection, connection:
        connection.execute("DROP TABLE qconv_measurement")
    with pytest.raises(DatabaseError, match="no such table: qconv_measurement; a table is missing"):
        Database.open(version_2)


def test_the_order_of_rows_stays(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        digests = [row[0] for row in connection.execute("SELECT digest FROM qconv_measurement ORDER BY id")]
    assert len(set(digests)) > 1
    with Database.open(path) as database:
        assert [row.digest for row in database.measurements()] == digests


def test_its_best_are_as_they_were(path: Path) -> None:
    with Database.open(path) as database:
        best = {(m.problem.key, m.device): m.median_us for m in database.best_per_problem()}
    assert sorted(best.values()) == [0.30000000000000004, 2.0, 10.3]


def test_an_export_of_an_older_version_merges(tmp_path: Path) -> None:
    with Database.open(tmp_path / "new.sqlite") as database:
        assert database.merge(read(str(OLDER / "export.json"))) == (8, 0, 0)
        assert dump(database.measurements()) == EXPORTED


def test_an_older_database_is_merged(path: Path, tmp_path: Path) -> None:
    with Database.open(tmp_path / "new.sqlite") as database, Database.open(path, create=False) as other:
        assert database.merge(other) == (8, 0, 0)


def test_what_cannot_be_written_is_read(caplog: pytest.LogCaptureFixture) -> None:
    """Not in pytest's folder, which nobody else may enter."""
    folder = Path(tempfile.mkdtemp(prefix="qconv-older"))
    path = older(folder)
    before = path.read_bytes()
    with read_only(path), Database.open(path, create=False) as database:
        assert dump(database.measurements()) == EXPORTED
        assert "read into memory" in caplog.text
        assert database.where == str(path)
        with pytest.raises(DatabaseError, match="make the file and its folder writable, or work on a copy"):
            database.add(make_measurement(20))
    assert path.read_bytes() == before
    shutil.rmtree(folder)


def test_a_bad_row_is_named_and_nothing_is_changed(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE qconv_measurement SET times_us = '[' WHERE id = 5")
    with pytest.raises(DatabaseError, match=r"row 5 of qconv_measurement: times_us .*others can be upgraded"):
        Database.open(path)
    assert tables(path) == {"qconv_schema", "qconv_measurement"}
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM qconv_measurement WHERE id = 5")
    with Database.open(path) as database:
        assert len(database.measurements()) == 7


def test_two_upgrade_it_at_once(path: Path) -> None:
    found: list[int] = []

    def work() -> None:
        with Database.open(path) as database:
            found.append(len(database.measurements()))

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [8] * 4
