"""A truncated file is reported, wherever it was cut: SQLite itself does not notice a missing part of the last page."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from measurement_samples import Make

from qconv.cli import main
from qconv.errors import DatabaseCut, DatabaseError
from qconv.tune_db.database import Database
from qconv.tune_db.engine import cut_of

PAGE = 4096


@pytest.fixture
def file(tmp_path: Path, make: Make) -> Path:
    path = tmp_path / "tune.sqlite"
    with Database.open(path) as database:
        for number in range(40):
            database.add(make(number, digest=f"{number:064x}"))
    assert path.stat().st_size >= 8 * PAGE
    return path


def test_a_database_of_any_length_is_right_or_said_to_be_cut(file: Path, tmp_path: Path) -> None:
    whole, copy = file.read_bytes(), tmp_path / "copy.sqlite"
    with Database.open(file) as database:
        rows = database.measurements()
    size = len(whole)
    # To SQLite, a file of one byte is an empty one.
    ends = {end + by for end in range(PAGE, size, PAGE) for by in (-1, 0, 1)}
    kept = ends | {2, 99, 100, size - 1, size - 100, *random.Random().sample(range(2, size), 40)}
    for length in sorted(kept):
        copy.write_bytes(whole[:length])
        # Without a whole header, SQLite itself reports that it is not a database, or malformed.
        said = "it was cut short" if length >= 100 else "file is not a database|malformed"
        for how in ({"create": True}, {"create": False}, {"create": False, "read_only": True}):
            with pytest.raises(DatabaseError, match=f"copy.sqlite: .*({said})"):
                Database.open(copy, **how)
        assert copy.read_bytes() == whole[:length]
    copy.write_bytes(whole)
    with Database.open(copy) as database:
        assert database.measurements() == rows


def test_how_much_is_missing_is_said_with_the_remedy(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.truncate(size - 100)
    says = f"{file}: it was cut short, {size - 100} of {size} bytes are there: bring back a copy, or move it away"
    key = "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3:x_type=int8:w_type=int8:out_type=int8"
    for command in (["db", "list"], ["db", "prune", "--failed"], ["tune", key, "--device", "cpu", "--trials", "1"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--db", str(file)])
        assert ended.value.code == 4
        assert capsys.readouterr().err == f"Error: {says} and tune again\n"


def test_a_file_whose_end_is_still_in_its_log_is_whole(file: Path, tmp_path: Path, make: Make) -> None:
    """As when a file is copied, or its writer killed, while the log is written into it: the header comes first."""
    copy = tmp_path / "copy.sqlite"
    with closing(sqlite3.connect(file)) as held, Database.open(file) as database:
        held.execute("SELECT * FROM qconv_schema").fetchall()
        before = file.read_bytes()
        for number in range(40, 80):
            database.add(make(number, digest=f"{number:064x}"))
        shutil.copy(f"{file}-wal", f"{copy}-wal")
        rows = database.measurements()
    after = file.read_bytes()
    assert len(after) > len(before)
    copy.write_bytes(after[:PAGE] + before[PAGE:])
    assert cut_of(copy) is None
    with Database.open(copy) as database:
        assert database.measurements() == rows
    Path(f"{copy}-wal").unlink(missing_ok=True)
    copy.write_bytes(after[:PAGE] + before[PAGE:])
    with pytest.raises(DatabaseCut):
        Database.open(copy)
