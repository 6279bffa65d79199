"""Rows of db list: chosen, sorted, and with keys that are told apart at 80 columns."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from called import here
from measurement_samples import make_measurement

from qconv import Conv2d
from qconv.cli.listing import Wanted, shown, without_shared
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement

ROWS = [
    make_measurement(number, problem=Conv2d(1, size, size, 64, 64, 3, 3, pad=1), median_us=time_us)
    for number, (size, time_us) in enumerate([(28, 30.5), (14, 20.5), (7, 10.5), (56, 40.5)])
] + [make_measurement(9, outcome="runtime", reason="an illegal\n address")]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "tune.sqlite"
    with Database.open(path) as rows:
        for row in ROWS:
            rows.add(row)
    return path


def test_keys_are_told_apart_at_80_columns() -> None:
    lines = shown(ROWS[:4], 80).splitlines()
    assert lines[0] == "problem  conv2d:n=1:c=64:k=64:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8"
    assert lines[2] == "device   NVIDIA H200"
    assert [line.split()[-1] for line in lines[4:]] == ["h=28:w=28", "h=14:w=14", "h=7:w=7", "h=56:w=56"]
    assert max(map(len, lines[3:])) <= 80


def test_in_a_pipe_every_row_is_complete() -> None:
    for row, line in zip(ROWS, shown(ROWS, None).splitlines()[1:], strict=True):
        assert all(word in line for word in (str(row.problem), str(row.config), row.device))
    assert "an illegal address" in shown(ROWS, None)


@pytest.mark.parametrize(
    ("texts", "separator", "shared", "rest"),
    [
        (["a:b", "a:b"], ":", "a:b", ["", ""]),
        (["a:b:x", "a:c:x"], ":", "a:x", ["b", "c"]),
        (["a:x", "b:y", "a:x:z"], ":", "", ["a:x", "b:y", "a:x:z"]),
        (["a", "a:bias"], ":", "a", ["-", "bias"]),
        (["a:b+a:b", "a:b+a:c"], ":", "", ["a:b+a:b", "a:b+a:c"]),
        (["one gpu", "one cpu"], None, "", ["one gpu", "one cpu"]),
    ],
)
def test_what_all_texts_have_is_said_once(
    texts: list[str], separator: str | None, shared: str, rest: list[str]
) -> None:
    assert without_shared(texts, separator) == (shared, rest)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(), ROWS),
        (Wanted(parts=("h=14", "c=64"), failed=False), [ROWS[1], ROWS[4]]),
        (Wanted(config="simt"), ROWS),
        (Wanted(config="wgmma"), []),
        (Wanted(failed=True), [ROWS[4]]),
        (Wanted(sort="time"), [ROWS[2], ROWS[1], ROWS[0], ROWS[3], ROWS[4]]),
        (Wanted(sort="time", limit=2), [ROWS[2], ROWS[1]]),
    ],
)
def test_rows_are_chosen_and_sorted(wanted: Wanted, found: list[Measurement]) -> None:
    assert wanted.chosen(ROWS) == found


def test_the_command_filters_and_counts(database: Path) -> None:
    answer = here("db", "list", "--db", database, "--problem", "h=7:", "--sort", "time")
    assert answer.stdout.splitlines()[-1] == "1 of 5 rows"
    rows = list(csv.DictReader(io.StringIO(here("db", "list", "--db", database, "--failed", "--csv").stdout)))
    assert [(row["outcome"], row["median_us"], row["reason"]) for row in rows] == [
        ("runtime", "", "an illegal address")
    ]
    assert len(json.loads(here("db", "list", "--db", database, "--limit", 2, "--json").stdout)) == 2
    assert "--json and --csv both say how to print" in here("db", "list", "--db", database, "--json", "--csv").stderr
