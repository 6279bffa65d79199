"""The suite of networks tuned from nothing: the times of its notes, and a run on the CPU device."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from current import is_current

from qconv import Conv2d, generator
from qconv.targets.target import target

COLUMNS = "model,layer,N,C,H,W,K,R,S,stride_h,stride_w,pad_h,pad_w,dil_h,dil_w,groups\n"
SMALL = f"""{COLUMNS}m,a,1,8,4,4,16,1,1,1,1,0,0,1,1,1
m,b,1,16,4,4,8,1,1,1,1,0,0,1,1,1
m,again,1,16,4,4,8,1,1,1,1,0,0,1,1,1
other,c,1,16,4,4,8,3,3,1,1,1,1,1,1,1
"""


def step(problem: Conv2d, config: Any) -> Any:
    best = None if config is None else SimpleNamespace(config=config)
    return SimpleNamespace(problem=problem, best=best)


def test_the_best_is_what_was_told_last_before(monkeypatch: pytest.MonkeyPatch) -> None:
    import five_minutes

    problem, other = Conv2d(1, 4, 4, 16, 8, 1, 1), Conv2d(1, 4, 4, 8, 16, 1, 1)
    first, second = (plan.config for plan in generator.space(problem, target("cpu"))[0][:2])
    notes = five_minutes.Notes(100.0)
    for at, config in ((101.0, None), (102.0, first), (104.0, second)):
        monkeypatch.setattr("five_minutes.time.monotonic", lambda at=at: at)
        notes(step(problem, config))
    assert [notes.best(problem, after_s) for after_s in (1.5, 2.0, 3.9, 4.0)] == [None, first, first, second]
    assert [notes.measured(problem, after_s) for after_s in (0.5, 1.0, 4.0)] == [0, 1, 3]
    assert (notes.best(other, 9.0), notes.measured(other, 9.0)) == (None, 0)


@pytest.mark.slow
def test_a_run_begins_with_nothing_and_races_what_was_noted(tmp_path: Path) -> None:
    from five_minutes import FRACTIONS, main

    (tmp_path / "layers.csv").write_text(SMALL)
    arguments = [str(tmp_path / "layers.csv"), "--models", "^m$", "--seconds", "4", "--db", str(tmp_path / "f.sqlite")]
    arguments += ["--device", "cpu", "--out", str(tmp_path), "--commit", "c0ffee"]
    main(arguments)
    document = json.loads((tmp_path / "five_minutes.json").read_text())
    assert [(row["name"], row["count"], row["verified"]) for row in document["rows"]] == [
        ("m/a", 1, True),
        ("m/b", 2, True),
    ]
    names = ["default", *(f"{fraction:g}" for fraction in FRACTIONS)]
    assert all(list(row["times_us"]) == names for row in document["rows"])
    assert all(is_current(row, "cpu") for row in document["rows"])
    said = document["summary"]
    for name in names:
        assert said["total_us"][name] == pytest.approx(sum(r["count"] * r["times_us"][name] for r in document["rows"]))
    assert (said["layers"], said["known"]["rows"]) == (3, 0)
    assert said["visits"]["first_visits"]["trials"] == 16
    assert said["visits"]["trials"] == sum(visit["trials"] for visit in said["of_visits"])
    with pytest.raises(SystemExit, match="has rows"):
        main(arguments)
