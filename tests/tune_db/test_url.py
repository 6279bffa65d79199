"""No password is printed, however a URL spells it and whoever quotes the URL."""

from __future__ import annotations

import pickle
import random
import string
from urllib.parse import quote

import pytest

from qconv.cli import main
from qconv.errors import DatabaseError
from qconv.tune_db.database import Database
from qconv.tune_db.url import read, shown, where_of
from qconv.tuner.search.tune import Search
from qconv.tuner.workloads.fleet import Crew, Fleet

KEY = "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3:x_type=int8:w_type=int8:out_type=int8"
SPECIAL = "@@@:/?#&=%+ '\"\\[]{}(),;!$*|~^`<>äß\u2028\x1b"
# A port without a server, so that the driver reports an error.
PLACE = "127.0.0.1:1/tune"
SPELLINGS = {
    "as it is": "postgresql+psycopg://me:{raw}@" + PLACE,
    "escaped": "postgresql+psycopg://me:{escaped}@" + PLACE,
    "without a user": "postgresql+psycopg://:{escaped}@" + PLACE,
    "with a wrong port": "postgresql+psycopg://me:{escaped}@127.0.0.1:x{escaped}/tune",
    "without a host": "postgresql+psycopg://me:{escaped}",
    "in the query": "postgresql+psycopg://me@" + PLACE + "?connect_timeout=3&password={escaped}",
    "in the query as it is": "postgresql+psycopg://me@" + PLACE + "?password={raw}",
    "in the query of a host alone": "postgresql+psycopg://" + PLACE + "?password={raw}",
    "of a certificate": "postgresql+psycopg://me@" + PLACE + "?sslpassword={escaped}",
    "twice": "postgresql+psycopg://me@" + PLACE + "?password={escaped}&password={escaped}",
    "of no option": "postgresql+psycopg://me@" + PLACE + "?passwrd={escaped}",
    "of a driver that is not here": "mysql+nosuchdriver://me:{raw}@" + PLACE,
    "of no dialect": "nosuchdialect://me:{escaped}@" + PLACE + "?password={escaped}",
}
COMMANDS = {
    "list": ["db", "list", "--json", "--db"],
    "lookup": ["lookup", KEY, "--device", "cpu", "--db"],
    "tune": ["tune", KEY, "--device", "cpu", "--trials", "1", "--json", "--db"],
    "merge": ["db", "merge", "--db", "sqlite://"],
    "an argument too many": ["db", "list"],
    "in place of a problem": ["lookup"],
    "in place of a command": [],
    "in place of a device": ["lookup", KEY, "--device"],
    "an option of no command": ["lookup", KEY, "--password"],
}


def password(rng: random.Random) -> tuple[str, list[str]]:
    """Draw a password, and return its parts too, none of which may be printed."""
    parts = ["".join(rng.choices(string.ascii_letters + string.digits, k=8)) for _ in range(3)]
    ends = ["".join(rng.choices(SPECIAL, k=rng.randrange(3))) for _ in range(2)]
    return f"{ends[0]}{parts[0]}{rng.choice(SPECIAL)}{parts[1]}{rng.choice(SPECIAL)}{parts[2]}{ends[1]}", parts


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_command_prints_a_password(spelling: str, capfd: pytest.CaptureFixture[str]) -> None:
    rng = random.Random()
    for command in COMMANDS.values():
        word, parts = password(rng)
        url = SPELLINGS[spelling].format(raw=word, escaped=quote(word, safe=""))
        with pytest.raises(SystemExit) as ended:
            main([*command, url])
        said = "".join(capfd.readouterr())
        assert ended.value.code not in (0, None), command
        assert "Error: " in said
        assert not [part for part in parts if part in said], (command, url, said)


def test_a_url_is_shown_once_where_the_message_has_it_already(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["db", "list", "--db", f"postgresql+psycopg://me:secret@{PLACE}"])
    assert capfd.readouterr().err.startswith(f"Error: postgresql+psycopg://me:***@{PLACE}: connection failed")


def test_of_a_url_the_user_the_host_and_the_name_are_shown() -> None:
    for given, says in {
        "postgresql+psycopg://me:secret@host:5432/tune": "postgresql+psycopg://me:***@host:5432/tune",
        "postgresql+psycopg://host/tune?password=secret": "postgresql+psycopg://host/tune",
        "postgresql+psycopg://me:se%40cret@[::1]:5432/tune": "postgresql+psycopg://me:***@[::1]:5432/tune",
        "postgresql+psycopg:///tune?host=/run/postgresql": "postgresql+psycopg:///tune",
        "sqlite:///a@b.sqlite": "a@b.sqlite",
        "sqlite://": "the database in memory",
        "a@b?.sqlite": "a@b?.sqlite",
    }.items():
        assert where_of(read(given)) == says


@pytest.mark.parametrize("given", ["me:se@cret@host/tune", "me:se/cret@host/tune", "host:5432/tune?password=se@cret"])
def test_a_url_that_can_be_read_in_two_ways_is_refused(given: str) -> None:
    """SQLAlchemy would take a part of the password for the host, and a driver would print that."""
    with pytest.raises(DatabaseError, match=r"postgresql://\.\.\. cannot be read: .* write @ as %40") as refused:
        Database.open(f"postgresql://{given}")
    assert "cret" not in str(refused.value)
    assert shown(f"postgresql://{given}") == "postgresql://..."


def test_what_dask_logs_of_a_task_has_no_password() -> None:
    where = Fleet(Crew(scheduler="tcp://a:1"), None, "postgresql+psycopg://me:secret@host/tune", Search(0))._where
    for one in (where, pickle.loads(pickle.dumps(where))):
        assert repr({"where": one}) == "{'where': 'postgresql+psycopg://me:***@host/tune'}"
        assert one == "postgresql+psycopg://me:secret@host/tune"
