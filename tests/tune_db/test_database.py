"""The contract, once for every storage."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from database_contract import DatabaseContract
from sqlalchemy import create_engine, make_url
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


@pytest.mark.skipif(
    "QCONV_TEST_POSTGRES" not in os.environ,
    reason="no PostgreSQL: set QCONV_TEST_POSTGRES=postgresql+psycopg://user:password@host/name",
)
class TestPostgres(DatabaseContract):
    @pytest.fixture
    def database(self) -> Iterator[Database]:
        """In a schema of its own, which goes when the test is over."""
        url = make_url(os.environ["QCONV_TEST_POSTGRES"])
        schema = f"qconv_test_{uuid.uuid4().hex}"
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(CreateSchema(schema))
        inside = url.update_query_dict({"options": f"-csearch_path={schema}"})
        with Database.open(inside.render_as_string(hide_password=False)) as opened:
            yield opened
        with engine.begin() as connection:
            connection.execute(DropSchema(schema, cascade=True))
        engine.dispose()
