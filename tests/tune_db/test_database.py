"""The contract of databases, run for every storage."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from database_contract import DatabaseContract
from postgres_server import server
from sqlalchemy import URL, create_engine, make_url
from sqlalchemy.schema import CreateSchema, DropSchema

from qconv.tune_db.database import Database


class TestSqliteFile(DatabaseContract):
    @pytest.fixture
    def database(self, tmp_path: Path) -> Iterator[Database]:
        with Database.open(tmp_path / "tune.sqlite") as opened:
            yield opened


class TestSqliteInMemory(DatabaseContract):
    @pytest.fixture
    def database(self) -> Iterator[Database]:
        with Database.open("sqlite://") as opened:
            yield opened


@pytest.fixture(scope="module")
def postgres() -> Iterator[URL]:
    """Use a named server, or start one."""
    if "QCONV_TEST_POSTGRES" in os.environ:
        yield make_url(os.environ["QCONV_TEST_POSTGRES"])
        return
    with server() as url:
        yield make_url(url)


@pytest.mark.slow
class TestPostgres(DatabaseContract):
    @pytest.fixture
    def database(self, postgres: URL) -> Iterator[Database]:
        """Open a database in its own schema, which is dropped after the test."""
        schema = f"qconv_test_{uuid.uuid4().hex}"
        engine = create_engine(postgres)
        with engine.begin() as connection:
            connection.execute(CreateSchema(schema))
        inside = postgres.update_query_dict({"options": f"-csearch_path={schema}"})
        with Database.open(inside.render_as_string(hide_password=False)) as opened:
            yield opened
        with engine.begin() as connection:
            connection.execute(DropSchema(schema, cascade=True))
        engine.dispose()
