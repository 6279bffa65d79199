"""A file or a row that cannot be trusted is refused with DatabaseError, which names the file, the row, and the
remedy."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from qconv.errors import DatabaseError
from qconv.problem.convolution import Conv2d
from qconv.tune_db.database import Database
from qconv.tune_db.engine import explained
from qconv.tune_db.measurement import Measurement

Make = Callable[..., Measurement]
WHERE = ("NVIDIA H200", "sm_90a")


@pytest.fixture
def file(tmp_path: Path, make: Make) -> Path:
    """Create a file; row 2 is bad if `store` was given one."""
    path = tmp_path / "tune.sqlite"
    with Database.open(path) as database:
        for number in range(3):
            database.add(make(number))
        database.add(make(3, outcome="runtime"))
    return path


# The table of a shared value, by the column that refers to it.
ONCE = {
    "problem": ("problem_id", "qconv_problem", "key"),
    "config": ("config_id", "qconv_config", "json"),
    "device": ("place_id", "qconv_place", "device"),
    "target": ("place_id", "qconv_place", "target"),
    "toolchain": ("toolchain_id", "qconv_toolchain", "name"),
    "protocol": ("protocol_id", "qconv_protocol", "json"),
}


def give_row_2(path: Path, column: str, value: object) -> None:
    """Change a value of row 2 alone: other rows keep a text that they share with it."""
    if column not in ONCE:
        sql(path, f"UPDATE qconv_measurement SET {column} = ? WHERE id = 2", value)
        return
    number, table, name = ONCE[column]
    with closing(sqlite3.connect(path)) as connection, connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        old = connection.execute(f"SELECT * FROM {table} WHERE id = 1").fetchone()
        new = dict(zip(columns, old, strict=True)) | {"id": 99, name: value}
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", [*new.values()])
        connection.execute(f"UPDATE qconv_measurement SET {number} = 99 WHERE id = 2")


def sql(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


# Files.


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    "content",
    [b"not a database, but long enough to look at\n" * 100, random.Random(0).randbytes(8192)],
    ids=["text", "random bytes"],
)
def test_a_file_of_another_kind(tmp_path: Path, content: bytes, create: bool) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(DatabaseError, match=r"notes\.txt: file is not a database; give the path"):
        Database.open(path, create=create)
    assert path.read_bytes() == content


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"no\.sqlite: there is no such file; tune first"):
        Database.open(tmp_path / "no.sqlite", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_made_for_a_new_file(tmp_path: Path) -> None:
    with Database.open(tmp_path / "a" / "tune.sqlite") as database:
        assert database.measurements() == []


def test_no_folders_are_made_of_a_path_that_is_misspelled(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"tune.sqlite: there is no folder .*/a, and only b in it would be made"):
        Database.open(tmp_path / "a" / "b" / "tune.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="unable to open database file; check that"):
        Database.open(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseError, match="its folder cannot be made"):
        Database.open(tmp_path / "file" / "tune.sqlite")


def test_an_empty_file_becomes_a_database_only_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(DatabaseError, match="no tuning tables yet"):
        Database.open(path, create=False)
    assert path.read_bytes() == b""
    Database.open(path).close()
    Database.open(path, create=False).close()


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mail.sqlite"
    sql(path, "CREATE TABLE letters (id)")
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match=r"it holds other tables \(letters\)"):
        Database.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE qconv_schema SET version = 4", "its schema version is 4, and this qconv reads 3; use the qconv that"),
        ("DELETE FROM qconv_schema", "its schema version is missing"),
        ("INSERT INTO qconv_schema VALUES (7)", "its schema version is 3, 7"),
        ("DROP TABLE qconv_schema", "no such table: qconv_schema; a table is missing"),
        ("DROP TABLE qconv_measurement", "no such table: qconv_measurement; a table is missing"),
        ("ALTER TABLE qconv_measurement DROP COLUMN protocol_id", "no such column: .*protocol_id; a column is missing"),
        ("ALTER TABLE qconv_measurement RENAME COLUMN median_us TO median", "no such column: .*median_us; a column"),
    ],
)
def test_another_schema(file: Path, change: str, says: str) -> None:
    sql(file, change)
    with pytest.raises(DatabaseError, match=rf"tune\.sqlite: {says}"):
        Database.open(file)


def test_a_file_with_a_trigger_is_refused(file: Path) -> None:
    """It would delete what is stored at the next row that is added."""
    sql(file, "CREATE TRIGGER swift AFTER INSERT ON qconv_measurement BEGIN DELETE FROM qconv_measurement; END")
    with pytest.raises(
        DatabaseError, match=r"tune\.sqlite: it has the trigger 'swift', .*; drop it, or export the rows"
    ):
        Database.open(file)


def test_of_a_newer_schema_the_version_is_named_not_the_columns(file: Path) -> None:
    sql(file, "UPDATE qconv_schema SET version = 4")
    sql(file, "ALTER TABLE qconv_measurement DROP COLUMN protocol_id")
    with pytest.raises(DatabaseError, match="its schema version is 4"):
        Database.open(file)


def test_a_file_that_may_not_be_written(file: Path, make: Make, problem: Conv2d) -> None:
    # By URL, because tests may run as root, whom file modes do not stop.
    with Database.open(f"sqlite:///file:{file}?mode=ro&uri=true", create=False) as database:
        assert database.best(problem, *WHERE) is not None
        with pytest.raises(DatabaseError, match="readonly database; make the file and its folder writable"):
            database.add(make(9))
        with pytest.raises(DatabaseError, match="readonly"):
            database.prune(failed=True)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "names no database"),
        ("a\0b", "names no database"),
        ("no such://dialect", "cannot be read"),
        ("nosuchdialect://host/name", "not a usable URL"),
        ("sqlite+nosuchdriver:///file", "not a usable URL"),
        ("postgresql+nosuchdriver://user:secret@host/name", "not a usable URL"),
    ],
)
def test_a_url_that_names_nothing(url: str, says: str) -> None:
    with pytest.raises(DatabaseError, match=says) as refused:
        Database.open(url)
    assert "secret" not in str(refused.value)


def test_a_server_that_does_not_answer() -> None:
    with pytest.raises(DatabaseError, match=r"127\.0\.0\.1") as refused:
        Database.open("postgresql+psycopg://user:secret@127.0.0.1:1/name")
    assert "secret" not in str(refused.value)
    assert "pip install" in str(refused.value) or "check that the server" in str(refused.value)


@pytest.mark.parametrize("state", ["starting up", "shutting down", "in recovery mode"])
def test_a_server_that_starts_is_waited_for(state: str) -> None:
    """Its password is as good as its name."""
    says = f'connection to server at "127.0.0.1", port 5432 failed: FATAL:  the database system is {state}'
    told = str(explained("postgresql+psycopg://me@host/tune", OperationalError("", {}, Exception(says))))
    assert told.endswith("; wait until it takes connections, and run the same command again")


@pytest.mark.parametrize("kept", [50, 99, 100, 600, 4096, 5000, 8192, 12288])
def test_a_truncated_file(file: Path, problem: Conv2d, kept: int) -> None:
    os.truncate(file, kept)

    def read() -> None:
        with Database.open(file) as database:
            database.measurements()
            database.best(problem, *WHERE)
            database.problems(*WHERE)
            list(database.near(problem, *WHERE, 4.0))

    with pytest.raises(DatabaseError, match=r"tune\.sqlite"):
        read()


@pytest.mark.slow
def test_random_damage_never_raises_anything_else(file: Path, tmp_path: Path, make: Make, problem: Conv2d) -> None:
    """Everything that is still readable is read; all else is a DatabaseError."""
    whole = file.read_bytes()
    generator = random.Random(0)
    damaged = tmp_path / "damaged.sqlite"
    refused: list[str] = []
    for _ in range(150):
        content = bytearray(whole)
        for _ in range(generator.choice((1, 8, 64))):
            content[generator.randrange(len(content))] = generator.randrange(256)
        damaged.write_bytes(content)
        try:
            with Database.open(damaged) as database:
                database.best(problem, *WHERE)
                database.measurements()
                database.problems(*WHERE)
                list(database.near(problem, *WHERE, 4.0))
                list(database.ranked(problem, *WHERE))
                database.add(make(1))
                database.prune(failed=True)
        except DatabaseError as error:
            refused.append(str(error))
    assert len(refused) > 50
    assert all(str(damaged) in message for message in refused)


def test_a_locked_file(file: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qconv.tune_db.engine.BUSY_S", 0.1)
    with closing(sqlite3.connect(file)) as other, Database.open(file) as database:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match="database is locked; another process"):
            database.add(make(9))
        assert len(database.measurements()) == 4
        other.rollback()
        database.add(make(9))


# Rows.

BAD_VALUES = [
    ("problem", "conv2d:n=1", "has no h"),
    ("problem", "nonsense", "names the op"),
    ("problem", " {} ", "canonical"),
    ("problem", b"\xff\xfe", "must be the key"),
    ("problem", 7, "the op '7'"),
    ("config", "{}", "names no known family"),
    ("config", "[1]", "not a JSON object"),
    ("config", "__import__('os').abort()", "is not JSON"),
    ("config", '{"family":"simt","tile_m":16}', "must have exactly"),
    ("config", b"{}", "must be JSON text"),
    ("device", "", "must be text"),
    ("device", b"\xff", "must be text"),
    ("device", "two\nlines", "must be text"),
    ("target", " ", "must be text"),
    ("toolchain", b"nvrtc", "must be text"),
    ("digest", b"", "must be text"),
    ("digest", "d1", "is not bytes"),
    ("digest", b"\xff", "neither 16 bytes nor text"),
    ("outcome", "fine", "is not one of correct"),
    ("outcome", "runtime", "with times"),
    ("outcome", 1, "is not one of"),
    ("reason", "why", "only failures have one"),
    ("reason", b"\xff", "only failures have one"),
    ("times_us", b"", "without times_us"),
    ("times_us", struct.pack("<2d", 1.0, -1.0), "positive"),
    ("times_us", struct.pack("<2d", 1.0, 0.0), "positive"),
    ("times_us", struct.pack("<d", float("nan")), "finite"),
    ("times_us", struct.pack("<d", float("inf")), "finite"),
    ("times_us", b"1234567", "not the bytes of doubles"),
    ("times_us", "[1.0]", "not the bytes of doubles"),
    ("times_us", 7, "not the bytes of doubles"),
    ("median_us", None, "without times_us and median_us"),
    ("median_us", "fast", "finite number"),
    ("median_us", b"10", "finite number"),
    ("median_us", -10.3, "positive"),
    ("median_us", 0, "positive"),
    ("median_us", float("inf"), "finite"),
    ("median_us", 1e-3, "outside its times_us"),
    ("registers", "many", "must be an integer"),
    ("registers", 40.5, "must be an integer"),
    ("registers", -1, "must be an integer"),
    ("registers", 2**40, "must be an integer"),
    ("spill_bytes", b"0", "must be an integer"),
    ("smem_bytes", "1e400x", "must be an integer"),
    ("compile_ms", -1.0, "not negative"),
    ("compile_ms", "slow", "finite number"),
    ("compile_ms", float("inf"), "finite"),
    ("protocol", "events", "not JSON"),
    ("protocol", "[1]", "must be a mapping"),
    ("protocol", '{"a": NaN}', "cannot be written as JSON"),
    ("created_at", "yesterday", "no number of microseconds"),
    ("created_at", 1e15 + 0.5, "no number of microseconds"),
    ("created_at", 2**62, "no number of microseconds"),
    ("created_at", b"1", "no number of microseconds"),
    ("screened", 1, "screened is 1, and its protocol says 0"),
    ("screened", "no", "screened is 'no', and its protocol says 0"),
    ("problem_id", 98, "problem=None must be the key"),
    ("config_id", 98, "config=None must be JSON text"),
    ("place_id", 98, "must be text"),
    ("toolchain_id", 98, "must be text"),
    ("protocol_id", 98, "protocol is None"),
]


@pytest.mark.turns
@pytest.mark.parametrize(("column", "value", "says"), BAD_VALUES)
def test_a_bad_row_is_refused_by_its_number(file: Path, problem: Conv2d, column: str, value: object, says: str) -> None:
    if value == " {} ":
        value = f"{problem} "
    give_row_2(file, column, value)
    with Database.open(file) as database:
        with pytest.raises(DatabaseError, match=rf"tune\.sqlite: row 2 of qconv_measurement: .*{says}"):
            database.measurements()
        with Database.open("sqlite://") as target, pytest.raises(DatabaseError, match="row 2"):
            target.merge(database)


def test_every_column_has_its_bad_values(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(qconv_measurement)")}
    assert {column for column, _, _ in BAD_VALUES} == columns - {"id"} | set(ONCE)


@pytest.mark.parametrize(("column", "value"), [("median_us", 1e-3), ("times_us", b""), ("config", "{}")])
def test_best_refuses_a_bad_winner(file: Path, problem: Conv2d, column: str, value: object) -> None:
    give_row_2(file, column, value)
    with Database.open(file) as database:
        asks: list[Callable[[], object]] = [
            lambda: database.best(problem, *WHERE),
            lambda: database.best_per_problem(),
            lambda: list(database.ranked(problem, *WHERE)),
        ]
        for ask in asks:
            with pytest.raises(DatabaseError, match="row 2"):
                ask()


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("key", "conv3d", "names the op"),
        ("key", "conv2d:n=1:h=14:w=14:c=64:k=128:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8", "its key"),
        ("extents", "[1,1]", "shorter|longer"),
        ("extents", "[0,1,1,1]", "list of positive integers"),
        ("extents", "[196,64,288,1]", "its extents and kinds are not those of its key"),
        ("kinds", "[", "Expecting value"),
        ("kinds", "7", "must be a list"),
    ],
)
def test_near_refuses_a_bad_problem(file: Path, problem: Conv2d, column: str, value: str, says: str) -> None:
    sql(file, f"UPDATE qconv_problem SET {column} = ?", value)
    with Database.open(file) as database, pytest.raises(DatabaseError, match=rf"row 1 of qconv_problem: .*{says}"):
        list(database.near(problem, *WHERE, 4.0))


def test_problems_refuses_a_bad_key(file: Path) -> None:
    sql(file, "UPDATE qconv_problem SET key = 'conv3d'")
    with Database.open(file) as database, pytest.raises(DatabaseError, match="row 1 of qconv_problem"):
        database.problems(*WHERE)


def test_a_failure_without_a_reason_is_refused(file: Path) -> None:
    sql(file, "UPDATE qconv_measurement SET reason = NULL WHERE id = 4")
    with Database.open(file) as database, pytest.raises(DatabaseError, match=r"row 4 .*say why it failed"):
        database.measurements()


def test_a_bad_row_can_be_copied_around(file: Path, tmp_path: Path) -> None:
    """The message's remedy works: with the row deleted, the rest is readable."""
    give_row_2(file, "config", "{}")
    copy = tmp_path / "copy.sqlite"
    shutil.copy(file, copy)
    sql(copy, "DELETE FROM qconv_measurement WHERE id = 2")
    with Database.open(copy) as database:
        assert len(database.measurements()) == 3
