"""The text form round-trips, is readable in a diff, and is refused with file and row if it is wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from qconv.errors import DatabaseError
from qconv.problem.convolution import Conv2d
from qconv.tune_db.measurement import Measurement
from qconv.tune_db.text import as_dict, dump, from_dict, parse

Make = Callable[..., Measurement]


@pytest.fixture
def rows(make: Make, other_problem: Conv2d) -> list[Measurement]:
    failure = make(2, outcome="compile", reason="error: \N{SNOWMAN}\n  line 2")
    bare = make(3, registers=None, spill_bytes=None, smem_bytes=None, compile_ms=None, protocol=None)
    return [make(0), make(1, problem=other_problem), failure, bare, make(0, device="AMD")]


def test_round_trip(rows: list[Measurement]) -> None:
    text = dump(rows)
    assert parse(text, "file") == sorted(rows, key=lambda m: m.key)
    assert dump(parse(text, "file")) == text
    assert parse(dump([]), "file") == []


def test_one_measurement_a_line_in_one_order(rows: list[Measurement]) -> None:
    text = dump(rows)
    lines = text.splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("[", "]", len(rows) + 2)
    assert text.isascii()
    shuffled = list(rows)
    random.Random(0).shuffle(shuffled)
    assert dump(shuffled) == text
    changed = dump([*rows[1:], rows[0].__class__(**vars(rows[0]) | {"digest": "d2"})]).splitlines()
    assert len(set(changed) - set(lines)) == 1


def test_a_line_is_what_a_person_expects(make: Make) -> None:
    line = json.loads(dump([make(0)]))[0]
    assert list(line)[:7] == ["problem", "config", "device", "target", "toolchain", "digest", "outcome"]
    assert line["config"]["family"] == "simt"
    assert line["times_us"] == [11.0, 10.1, 10.3]
    assert "reason" not in line


def test_a_single_one_travels_as_a_dict(rows: list[Measurement]) -> None:
    for row in rows:
        assert from_dict(json.loads(json.dumps(as_dict(row))), "the worker") == row
    with pytest.raises(DatabaseError, match="the worker: it has no problem; give what"):
        from_dict({}, "the worker")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"problem": "conv2d:n=1"}, "has no h"),
        ({"problem": ["conv2d"]}, "must be the key of a problem"),
        ({"config": {"family": "none"}}, "names no known family"),
        ({"config": "simt"}, "not a JSON object"),
        ({"config": [[]]}, "not a JSON object"),
        ({"device": 7}, "device=7 must be text"),
        ({"outcome": "fine"}, "is not one of"),
        ({"times_us": []}, "without times_us"),
        ({"times_us": ["10.3"]}, "finite number"),
        ({"median_us": "10.3"}, "finite number"),
        ({"median_us": 99.0}, "outside its times_us"),
        ({"registers": "40"}, "must be an integer"),
        ({"registers": None}, "registers is null"),
        ({"protocol": "events"}, "must be a mapping"),
        ({"created_at": "2026-01-02"}, "must be a UTC time"),
        ({"created_at": 5}, "must be a UTC time"),
        ({"colour": "red"}, "'colour' is no field"),
    ],
)
def test_a_bad_row_is_refused_by_its_number(rows: list[Measurement], change: dict[str, Any], says: str) -> None:
    records = json.loads(dump(rows))
    records[1] |= change
    with pytest.raises(DatabaseError, match=rf"shipped\.json: row 2: .*{says}"):
        parse(json.dumps(records), "shipped.json")


@pytest.mark.parametrize(
    "name", ["problem", "config", "device", "target", "toolchain", "digest", "outcome", "created_at"]
)
def test_a_row_with_a_part_missing(rows: list[Measurement], name: str) -> None:
    records = json.loads(dump(rows))
    del records[0][name]
    with pytest.raises(DatabaseError, match=rf"shipped\.json: row 1: it has no {name}; mend or remove"):
        parse(json.dumps(records), "shipped.json")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON as dumped"),
        ("[", "not JSON as dumped"),
        ("[" * 100_000, "not JSON as dumped"),
        ("{}", "it is not a list"),
        ("7", "it is not a list"),
        ("[7]", "row 1: 7 is not a measurement"),
        ('[{"problem": 1, "problem": 2}]', r"not JSON as dumped \(a name stands twice"),
        ("<<<<<<< ours", "not JSON as dumped"),
    ],
)
def test_other_text(text: str, says: str) -> None:
    with pytest.raises(DatabaseError, match=rf"shipped\.json: {says}"):
        parse(text, "shipped.json")


def test_the_same_row_twice(make: Make) -> None:
    records = json.loads(dump([make(0), make(1)])) + json.loads(dump([make(0, median_us=9.0)]))
    with pytest.raises(DatabaseError, match=r"row 3: it has the problem, config, .* of row 1"):
        parse(json.dumps(records), "shipped.json")
