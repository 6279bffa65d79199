"""A workload on the command line, with a simulated device: the table, the document, and the output after Ctrl-C."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qconv import tuning
from qconv.cli import main
from qconv.cli.workloads import table
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement
from qconv.tune_db.url import read, where_of
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.search import compile_ahead as ahead
from qconv.tuner.search import tune
from qconv.tuner.sequence import Race
from qconv.tuner.workload import Entry, Place, Workload
from qconv.tuner.workloads import schedule
from qconv.tuner.workloads.result import Result, Station, is_todays
from tests.tuner.measure.test_evaluate import CPU
from tests.tuner.workloads.test_schedule import FAST, SLOW, Scaled

CSV = """model,layer,N,C,H,W,K,R,S,stride_h,stride_w,pad_h,pad_w,groups
net,a_layer_whose_name_is_much_longer_than_a_column,1,8,8,8,16,3,3,1,1,1,1,1
net,again,1,8,8,8,16,3,3,1,1,1,1,1
net,small,1,4,3,3,4,2,2,1,1,0,0,1
net,wrong,1,4,3,3,4,2,2,1,1,0,0,3
"""


@pytest.fixture(autouse=True)
def scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "Child", Scaled)
    monkeypatch.setattr(ahead, "build", lambda *_: None)


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "net.csv").write_text(CSV)
    where = ["--device", "cpu", "--db", str(tmp_path / "t.sqlite")]
    return ["tune", "--workload", str(tmp_path / "net.csv"), *where, "--trials", "9"]


def run(*arguments: str) -> int:
    try:
        main(arguments)
    except SystemExit as done:
        return int(str(done.code))
    return 0


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Return the URL of a server, replaced by a file."""
    honest = Database.open

    def opened(given: str, **how: Any) -> Database:
        database = honest(tmp_path / "server.sqlite", **how)
        database.where = where_of(read(given))
        return database

    monkeypatch.setattr(Database, "open", opened)
    return "postgresql+psycopg://me:secret@host/tune"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_no_password_is_printed(
    form: list[str], command: list[str], url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "Child", Scaled)
    one = ["tune", str(FAST), "--device", "cpu", "--trials", "2", "--db", url]
    for asked in ([*command, "--db", url], one, ["db", "merge", "--db", url, url]):
        assert run(*asked, *form) == 0
        said = "".join(capsys.readouterr())
        assert "me:***@host" in said
        assert "secret" not in said


def test_a_table_of_the_layers_that_fits_the_terminal(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert max(map(len, lines[:4])) <= 80
    assert lines[0].split() == ["count", "layer", "trials", "default", "us", "tuned", "us", "speed-up"]
    assert lines[1].startswith("    2  net/a_layer_whose_name_is_much_lo\N{HORIZONTAL ELLIPSIS}")
    assert lines[3].split()[:4] == ["3", "all", "layers", "18"]
    assert "not tuned: net/wrong: c=4 is not a multiple of groups=3" in err
    assert "18/18  0:00 left" in err


def test_a_name_of_a_file_is_one_line_and_does_nothing_to_a_terminal(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[2J\x9b1A\u202e\nx  "
    lines = CSV.replace("a_layer_whose_name_is_much_longer_than_a_column", f'"{evil}"')
    (tmp_path / "net.csv").write_text(lines.replace("wrong", f'"{evil}"'))
    assert run(*command) == 0
    for said in capsys.readouterr():
        assert said.replace("\n", "").isprintable()
        assert r"net/\x1b[2J\x9b1A\u202e\nx" in said


def test_a_document_of_the_same(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command, "--json") == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    first, small = said["problems"]
    assert (first["count"], first["places"][1], first["role"]) == (2, "net/again", "layer")
    assert first["speed_up"] == pytest.approx(first["default_us"] / first["tuned_us"])
    assert first["trials"] + small["trials"] == 18
    assert said["tuned_us"] == pytest.approx(2 * first["tuned_us"] + small["tuned_us"])
    assert (said["layers"], said["timed_layers"]) == (3, 3)
    assert [one["place"] for one in said["refused"]] == ["net/wrong"]


def test_a_batch_replaces_that_of_the_file(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command, "--batch", "2", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert all(":n=2:" in one["problem"] for one in said["problems"])


def test_what_replaces_layers_stands_below_their_sum() -> None:
    """Only if it is one kernel: a chain that is faster unfused replaces nothing."""
    at: dict[str, Any] = {"trials": 9, "is_raced": True}

    def result(name: str, role: Any, tuned_us: float, config: str) -> Result:
        return Result(Entry(SLOW, 2, (name,), role), default_us=30.0, tuned_us=tuned_us, config=config, **at)

    found = [
        result("a", "layer", 20.0, "simt tile_m=8"),
        result("a+b", "fusion", 15.0, "fused tile_h=8"),
        result("b+c", "fusion", 10.0, "unfused (simt) (simt)"),
        result("d", "part", 10.0, "simt tile_m=8"),
    ]
    net = Workload.of("net", [Place("a", SLOW)])
    assert [line.split()[:2] for line in table(net, Station("device", "cpu", "g++"), found, "t.sqlite")[1:-2]] == [
        ["2", "a"],
        ["2", "all"],
        ["in", "one"],
        ["2", "a+b"],
        ["not", "in"],
        ["only", "parts"],
        ["2", "d"],
    ]


def test_an_interruption_says_what_was_found_and_how_to_go_on(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, asked = Scaled.measure, []

    def interrupted(self: Scaled, candidate: Candidate, best_us: float | None = None) -> Any:
        asked.append(candidate)
        if len(asked) == 12:
            raise KeyboardInterrupt
        return honest(self, candidate, best_us)

    monkeypatch.setattr(Scaled, "measure", interrupted)
    assert run(*command) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert "every finished trial is in the database: the same command goes on" in err
    assert "    2  net/a_layer" in err
    assert run(*command) == 0
    assert len(asked) == 18 + 1


def test_an_interrupted_problem_says_its_best_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "Child", Scaled)
    honest, asked = Scaled.measure, []

    def interrupted(self: Scaled, candidate: Candidate, best_us: float | None = None) -> Any:
        asked.append(candidate)
        if len(asked) == 4:
            raise KeyboardInterrupt
        return honest(self, candidate, best_us)

    monkeypatch.setattr(Scaled, "measure", interrupted)
    assert run("tune", str(SLOW), "--device", "cpu", "--db", str(tmp_path / "t.sqlite"), "--trials", "9") == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(r"best so far: [\d.]+ us \(\w+ .*\); every finished trial is in the database: the same comm", err)


def test_a_row_per_layer_is_csv(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command, "--csv", "-q") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["places"].split()[0] for row in rows if row["role"] == "layer"] == [
        "net/a_layer_whose_name_is_much_longer_than_a_column",
        "net/small",
    ]
    assert all(float(row["speed_up"]) >= 1 for row in rows)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tune"], "nothing to tune: give a problem"),
        (["tune", "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3", "--csv"], "--csv belongs to --workload"),
        (["tune", "--n", "1"], "--n was given without an op"),
        (["tune", "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3", "--batch", "2"], "--batch belongs to --workload"),
        (["tune", "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3", "--workload", "net.csv"], "a problem was given beside"),
        (["tune", "--workload", "/no/such/file.csv"], "/no/such/file.csv is no file: give a csv"),
        (["tune", "--workload", __file__, "--seconds", "0"], "seconds=0 must be above 0"),
        (["tune", "--workload", __file__], ":1: the key"),
    ],
)
def test_what_is_refused(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_problem_of_which_no_config_worked_is_named(
    form: list[str], command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its failures may be time-outs, which the table does not count; the others are tuned normally."""
    honest = Scaled.measure

    def measure(self: Scaled, candidate: Candidate, best_us: float | None = None) -> Measurement:
        if candidate.problem == SLOW:
            return candidate.failed(CPU, self.toolchain, "timeout", "no answer")
        return honest(self, candidate, best_us)

    monkeypatch.setattr(Scaled, "measure", measure)
    assert run(*command, *form) == 1
    out, err = capsys.readouterr()
    assert "no winner: net/a_layer_whose_name_is_much_longer_than_a_column and 1 more: no config gave" in err
    assert err.count("no winner") == 1
    assert " timeout); see qconv-tune db list" in err
    assert "net/small" in out


def test_stale_winners_are_listed_and_tuned_again(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The rows are of an older template: their digests match no source."""
    assert run(*command) == 0
    db = command[command.index("--db") + 1]
    with Database.open(db) as rows:
        old = [replace(row, digest="0" * 16) for row in rows.measurements()]
    stale = str(Path(db).with_name("stale.sqlite"))
    with Database.open(stale) as rows:
        for row in old:
            rows.add(row)
    capsys.readouterr()
    refresh = ["db", "refresh", "--db", stale, "--device", "cpu"]
    assert run(*refresh, "--dry-run") == 0
    assert "2 winners of older templates" in capsys.readouterr().out
    out = str(Path(db).with_name("winners.json"))
    assert run(*refresh, "--trials", "4", "--out", out) == 0
    assert "2 rows to" in capsys.readouterr().err
    with Database.open(stale) as rows:
        assert sum(is_todays(row) for row in rows.measurements()) == 8
    assert run(*refresh, "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert {row["digest"] for row in json.loads(Path(out).read_text())} & {"0" * 16} == set()
    capsys.readouterr()
    assert run(*refresh, "--json") == 0
    done, says = capsys.readouterr()
    assert json.loads(done) == {"problems": []}
    assert "nothing to do" in says


@pytest.mark.parametrize(
    ("race", "line", "document"),
    [
        (
            Race(0.05, 0.06, 0.045, 1, 2),
            "network   0.0500 ms before, 0.0450 ms after; 0.0600 ms with all 2 new winners: "
            "1 of 2 new winners installed",
            {"before_ms": 0.05, "winners_ms": 0.06, "after_ms": 0.045, "installed": 1, "offered": 2},
        ),
        ("it is elsewhere", "network   not raced: it is elsewhere", {"not_raced": "it is elsewhere"}),
    ],
)
def test_the_last_lines_say_what_the_network_takes_before_and_after(
    race: Race | str,
    line: str,
    document: Any,
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuning, "tune_and_race", lambda *_: race)
    assert run(*command) == 0
    assert capsys.readouterr().out.splitlines()[-1] == line
    assert run(*command, "--json") == 0
    assert json.loads(capsys.readouterr().out)["network"] == document
