"""Opening of a database: from a path or URL to an engine with checked tables, and from a driver's error to a
DatabaseError with a remedy.

A truncated SQLite file is detected here, because SQLite silently reads zeros for what is missing of the last page.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import struct
import time
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    FromClause,
    create_engine,
    event,
    insert,
    inspect,
    literal_column,
    select,
    true,
)
from sqlalchemy.dialects import sqlite  # noqa: F401 (by name only at the first create_engine, which then takes 5 ms)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from qconv.device import folders
from qconv.errors import DatabaseCut, DatabaseError
from qconv.op import quoted
from qconv.tune_db.models import SCHEMA_VERSION, Base, MeasurementRow, SchemaRow
from qconv.tune_db.url import read, where_of
from qconv.tune_db.writing import start_writing

_MAGIC = b"SQLite format 3\0"
# Page size, change counter, number of pages, and the change counter at which that number was written.
_HEADER = struct.Struct(">16s H 6x I I 60x I 4x")


class Cut(NamedTuple):
    there: int  # size in bytes
    written: int


def cut_of(file: Path) -> Cut | None:
    """Return how much of a truncated file is left. None where the file is whole or its header does not tell. Reads the
    header only."""
    # A writer writes the header before the last pages, and keeps a log until both are written. A file that is short
    # twice and has no log in between is therefore truncated.
    for _ in range(2):
        if (cut := _short(file)) is None or _has_log(file):
            return None
    return cut


def _short(file: Path) -> Cut | None:
    if not os.access(file, os.R_OK) or not file.is_file():
        return None  # SQLite reports what is wrong with it
    with file.open("rb") as opened:
        header = opened.read(_HEADER.size)
        there = os.fstat(opened.fileno()).st_size
    if len(header) < _HEADER.size:
        return None
    magic, size, counter, pages, counted_at = _HEADER.unpack(header)
    if magic != _MAGIC or counter != counted_at:
        return None
    written = pages * (65536 if size == 1 else size)
    return Cut(there, written) if there < written else None


def _has_log(file: Path) -> bool:
    logs = (file.with_name(f"{file.name}{end}") for end in ("-wal", "-journal"))
    return any(log.exists() and log.stat().st_size for log in logs)


log = logging.getLogger("qconv")

# How long a writer waits for another one, in seconds.
BUSY_S = 30

TABLES = Base.metadata.tables


def _probe() -> str:
    """Build the statement that checks that all tables have all their columns and reads the schema version."""
    schema = SchemaRow.__tablename__
    joined: FromClause = TABLES[schema]
    # No rows of these tables are read. With a join on a false condition, SQLite would read them all.
    others = [select(table).limit(literal_column("0")).subquery() for name, table in TABLES.items() if name != schema]
    for other in others:
        joined = joined.outerjoin(other, true())
    return str(select(SchemaRow.version, *(column for other in others for column in other.c)).select_from(joined))


# Rendered once at import. Compiling costs four times as much as running it, and every engine would compile it again.
_PROBE = _probe()

# UnicodeDecodeError: the SQLite driver cannot decode an error message that quotes a damaged name.
DRIVER_ERRORS = (SQLAlchemyError, UnicodeDecodeError)

_ANEW = "bring back a copy, or move it away and tune again"
# SQLite's message where it cannot write although permissions allow it.
_NO_ROOM = "disk i/o error"
# Parts of drivers' messages, and what to do about them.
_REMEDIES = (
    ("not a database", "give the path of a tuning database, or of a new file"),
    ("malformed", f"it is damaged: {_ANEW}"),
    ("can't decode", f"it is damaged: {_ANEW}"),
    ("readonly", "make the file and its folder writable, or work on a copy"),
    ("read-only", "make the file and its folder writable, or work on a copy"),
    ("unable to open", "check that its folder exists and that you may write there"),
    ("locked", f"another process has been writing for {BUSY_S} s: try again when it is done"),
    ("full", "make room on the disk"),
    (_NO_ROOM, "make room on the disk, or check that it works"),
    ("no such table", f"a table is missing: {_ANEW}"),
    ("permission denied", "ask for the right to write there, or work on a copy"),
    # A server that starts, stops or recovers refuses all connections.
    ("the database system is", "wait until it takes connections, and run the same command again"),
    ("fatal:", "check the user, the password and the name of the database in the URL"),
    ("column", f"a column is missing: {_ANEW}"),
    ("relation", f"a table is missing: {_ANEW}"),
    ("connection", "check that the server of the URL runs and can be reached"),
)


class Opened(NamedTuple):
    engine: Engine
    where: str  # name of the database in messages


def open_engine(url_or_path: str | os.PathLike[str], *, create: bool, read_only: bool = False) -> Opened:
    """Open the database at a path or URL; with `create`, make the tables where there are none.

    Raise DatabaseError where it is no database of this schema version."""
    url = read(url_or_path)
    where = where_of(url)
    file = _file(url)
    if file is not None and not file.exists():
        if not create:
            raise DatabaseError(f"{where}: there is no such file; tune first, or give the path of an existing database")
        _make_folder(file.parent, where)
    elif file is not None and (cut := cut_of(file)) is not None:
        raise DatabaseCut(f"{where}: it was cut short, {cut.there} of {cut.written} bytes are there: {_ANEW}")
    try:
        is_written = create or file is None or (_is_writable(file) and not read_only)
        engine = _engine(url, None if is_written else file)
    except ImportError as error:
        raise DatabaseError(
            f"{where}: its driver is not installed ({error}); for PostgreSQL: pip install 'psycopg[binary]', and a URL "
            "that starts with postgresql+psycopg://"
        ) from error
    except (SQLAlchemyError, TypeError, ValueError) as error:
        raise DatabaseError(f"{where}: not a usable URL ({_first_line(error)}); give a path, or fix the URL") from error
    try:
        return Opened(_with_schema(engine, where, create), where)
    except DRIVER_ERRORS as error:
        engine.dispose()
        if is_written and not create and _NO_ROOM in str(error).lower():
            # A reader in WAL mode writes beside the file, for which a full disk has no room.
            return open_engine(url_or_path, create=False, read_only=True)
        raise explained(where, error) from error
    except BaseException:
        engine.dispose()
        raise


def _file(url: URL) -> Path | None:
    name = url.database
    if url.get_backend_name() != "sqlite" or not name or name == ":memory:" or name.startswith("file:"):
        return None
    return Path(name)


def _make_folder(folder: Path, where: str) -> None:
    try:
        if folder == folders.cache_root():
            # not writable by others, because it holds binaries
            folders.make()
        folders.make_last(folder)
    except FileNotFoundError as error:
        raise DatabaseError(f"{where}: {error}") from None
    except OSError as error:
        raise DatabaseError(f"{where}: its folder cannot be made ({error}); give another path") from error


def _is_writable(file: Path) -> bool:
    """True where the file and its folder are writable: in WAL mode even a reader writes beside the file."""
    return all(os.access(path, os.W_OK, effective_ids=True) for path in (file, file.parent))


def _engine(url: URL, read_only: Path | None = None) -> Engine:
    if url.get_backend_name() != "sqlite":
        # pool_pre_ping replaces connections that the server closed meanwhile, for example by a restart.
        return create_engine(url, pool_pre_ping=True)
    # The threads of a Database share one connection: opening a file costs more than a query, and a database in memory
    # lives as long as its connection.
    options: dict[str, Any] = {"timeout": BUSY_S, "check_same_thread": False}
    if read_only is None:
        engine = create_engine(url, poolclass=StaticPool, connect_args=options)
    else:
        name = _read_only_uri(read_only)
        engine = create_engine(url, poolclass=StaticPool, creator=lambda: sqlite3.connect(name, uri=True, **options))
    event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _read_only_uri(file: Path) -> str:
    """Return the URI of a file that is only read. SQLite takes no lock on an immutable file and creates none beside it,
    but would miss the rows in a writer's log. With such a log, the file is opened as one that may change."""
    log = file.with_name(f"{file.name}-wal")
    logged = log.exists() and log.stat().st_size > 0
    return f"file:{quote(str(file.absolute()))}?mode=ro" + ("" if logged else "&immutable=1")


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.text_factory = _text
    # In WAL mode a killed process loses nothing. Only a power failure may undo the last rows.
    connection.execute("PRAGMA synchronous=NORMAL")


def _text(stored: bytes) -> str | bytes:
    """Decode a text. Text that is not UTF-8 stays bytes, so that the check of its row reports the row's number, which
    the driver cannot."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def _with_schema(engine: Engine, where: str, create: bool) -> Engine:
    """Return the engine with a checked schema."""
    try:
        versions = _versions(engine)
    except SQLAlchemyError:
        state = _state(engine, where)
        if state == "empty":
            if not create:
                raise DatabaseError(f"{where}: it has no tuning tables yet; tune first") from None
            _create(engine)
        # If it fails once more, it says why; if another process created the tables meanwhile, it does not.
        versions = _versions(engine)
    _check_versions(versions, where)
    _check_triggers(engine, where)
    return engine


def _check_triggers(engine: Engine, where: str) -> None:
    """Reject a file with triggers, which run statements of their own when a row is added. qconv creates none."""
    if engine.dialect.name != "sqlite":
        return
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").scalars().all()
    if found:
        raise DatabaseError(
            f"{where}: it has the trigger {quoted(found[0])}, which qconv did not make and which could change rows; "
            "drop it, or export the rows as text and merge them into a new file"
        )


def _versions(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return [row[0] for row in connection.exec_driver_sql(_PROBE)]


def _state(engine: Engine, where: str) -> Literal["empty", "damaged"]:
    """Called when the tables are not as expected: raises what can be said at once."""
    with engine.connect() as connection:
        tables = set(inspect(connection).get_table_names())
        if SchemaRow.__tablename__ in tables:
            # Another version has other columns, so the version explains the difference better.
            versions = list(connection.execute(select(SchemaRow.version)).scalars())
            _check_versions(versions, where)
    if tables & set(TABLES):
        return "damaged"
    # A file belongs to one program, but a server's database may hold tables of others.
    if tables and engine.dialect.name == "sqlite":
        raise DatabaseError(
            f"{where}: it holds other tables ({', '.join(sorted(tables))[:160]}) and is no tuning database; give the "
            "path of one, or of a new file"
        )
    return "empty"


def _check_versions(versions: list[Any], where: str) -> None:
    if versions != [SCHEMA_VERSION]:
        found = ", ".join(repr(version) for version in versions[:3]) or "missing"
        raise DatabaseError(
            f"{where}: its schema version is {found}, and this qconv reads {SCHEMA_VERSION}; use the qconv that wrote "
            "it, or give the path of a new file"
        )


def _create(engine: Engine) -> None:
    """Create all tables in one transaction, so that an interruption leaves an empty database instead of half of one."""
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "sqlite":
                _enter_wal_mode(connection)
            start_writing(connection)
            Base.metadata.create_all(connection)
            if not connection.execute(select(SchemaRow.version)).scalars().all():
                connection.execute(insert(SchemaRow).values(version=SCHEMA_VERSION))
    except SQLAlchemyError:
        # A server refuses the second of two processes that create the same table. That is fine if the table exists now.
        with engine.connect() as connection:
            if not inspect(connection).has_table(MeasurementRow.__tablename__):
                raise


def _enter_wal_mode(connection: Connection) -> None:
    """Switch the file to WAL mode, which it keeps. While another process does the same, SQLite fails at once whatever
    the timeout."""
    end = time.monotonic() + BUSY_S
    while True:
        try:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            return
        except SQLAlchemyError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.005)


def explained(where: str, error: Exception) -> DatabaseError:
    says = _first_line(error)
    lower = says.lower()
    remedy = next((remedy for words, remedy in _REMEDIES if words in lower), "check the path or URL")
    return DatabaseError(f"{where}: {says}; {remedy}")


def _first_line(error: Exception) -> str:
    """Return the driver's own message, without the statement and the values that SQLAlchemy adds."""
    cause = getattr(error, "orig", None) or error
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0][:300]


# SQLAlchemy initializes much of itself on first use, which takes 1 ms. Spend it here, where the import has just taken
# two hundred times as long, and not in the first lookup.
open_engine("sqlite://", create=True).engine.dispose()
