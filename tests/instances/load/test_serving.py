"""The caches of lookup, the distance between problems, and exports with the winners of every device."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import qconv
from qconv import generator
from qconv.device import open_device
from qconv.errors import DatabaseCut
from qconv.generator import Plan, source
from qconv.instances.library.export import export
from qconv.instances.load import serving
from qconv.op import Problem
from qconv.problem.chain import chain_of
from qconv.problem.convolution import Conv2d
from qconv.recent import Recent
from qconv.tune_db.database import Database
from tests.instances.library.test_export import winner

PROBLEM = Conv2d(1, 8, 8, 16, 16, 3, 3, pad=1)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the databases that are queried, in order; every answer is a different object."""
    asked: list[Any] = []

    def cold(problem: Conv2d, device: object, database: str | None, in_sequence: bool) -> object:
        asked.append(database)
        return object()

    monkeypatch.setattr(serving, "found", cold)
    monkeypatch.setattr(serving, "_warm", Recent(8))
    return asked


def test_an_answer_is_remembered_until_it_is_forgotten(found: list[Any]) -> None:
    first = serving.lookup(PROBLEM, "cpu")
    assert serving.lookup(PROBLEM, "cpu") is first
    assert len(found) == 1
    serving.forget()
    assert serving.lookup(PROBLEM, "cpu") is not first
    assert len(found) == 2


def test_a_network_and_its_layers_by_themselves_are_remembered_apart(found: list[Any]) -> None:
    alone = serving.lookup(PROBLEM, "cpu")
    with serving.in_sequence():
        among_others = serving.lookup(PROBLEM, "cpu")
        assert among_others is not alone
        assert serving.lookup(PROBLEM, "cpu") is among_others
    assert serving.lookup(PROBLEM, "cpu") is alone


def test_a_key_is_as_good_as_its_problem(found: list[Any]) -> None:
    first = serving.lookup(PROBLEM, "cpu")
    assert serving.lookup(str(PROBLEM), "cpu") is first
    assert serving.lookup(f"{PROBLEM}:groups=1", "cpu") is first
    assert len(found) == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "None is no problem: give one, such as a qconv.Conv2d, or the key of one"),
        ([PROBLEM], "is no problem"),
        ("key", "the key 'key' names the op 'key'; known: conv2d"),
    ],
)
def test_what_is_no_problem_is_refused(given: Any, says: str) -> None:
    for function in (qconv.lookup, qconv.bench):
        with pytest.raises(ValueError, match=says):
            function(given, "cpu")
    with pytest.raises(ValueError, match=r"is no key of a problem|names the op"):
        qconv.parse(given)


def test_what_one_database_answered_is_not_another_ones_answer(found: list[Any]) -> None:
    assert serving.lookup(PROBLEM, "cpu", "one") is not serving.lookup(PROBLEM, "cpu", "other")
    assert found == ["one", "other"]


@pytest.mark.parametrize("parts", [1, 2])
def test_a_cold_lookup_that_is_exact_renders_each_kernel_once(
    parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to compare today's source with the measured one, and to load it."""
    device = open_device("cpu")
    problem: Problem = PROBLEM if parts == 1 else chain_of([PROBLEM, Conv2d(1, 8, 8, 16, 8, 1, 1)])
    plan = generator.unfused_plan(problem, device.target) if parts == 2 else generator.default(problem, device.target)
    row = replace(winner(PROBLEM, "cpu"), problem=problem, config=plan.config, device=device.name)
    with Database.open(str(tmp_path / "tune.sqlite")) as rows:
        rows.add(replace(row, digest=generator.render(plan).digest))
    rendered: list[Plan] = []
    page = source._page

    def counted(plan: Plan, *arguments: Any) -> str:
        rendered.append(plan)
        return page(plan, *arguments)

    monkeypatch.setattr(source, "_page", counted)
    qconv.forget()
    instance = qconv.lookup(problem, "cpu", str(tmp_path / "tune.sqlite"))
    assert (instance.origin, instance.plan) == ("exact", plan)
    assert rendered == list(plan.kernels)
    assert len(rendered) == parts


def test_an_export_has_the_winners_of_every_device(tmp_path: Path) -> None:
    """Two devices of one architecture may have the same winner: its source is one file, and both are in the
    manifest."""
    row = winner(PROBLEM, "sm_90a")
    rows = [replace(row, device=device) for device in ("NVIDIA H100", "NVIDIA H200")]
    export(rows, tmp_path)
    entries = json.loads((tmp_path / "manifest.json").read_text())["kernels"]
    assert [entry["device"] for entry in entries] == ["NVIDIA H100", "NVIDIA H200"]
    assert len({entry["file"] for entry in entries}) == 1


def test_lookups_go_on_without_a_database_that_was_cut_and_say_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Builds and exports for others need the winners, so they refuse."""
    file = tmp_path / "tune.sqlite"
    with Database.open(file) as rows:
        rows.add(winner(PROBLEM, "cpu"))
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size - 100)
    monkeypatch.setattr(serving, "load", lambda *_: None)
    monkeypatch.setattr(serving, "_warm", Recent(8))
    for problem in (PROBLEM, replace(PROBLEM, n=2), PROBLEM):
        assert serving.lookup(problem, "cpu", str(file)).origin == "default"
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith(f"{file}: it was cut short, ")
    assert said.endswith("bring back a copy, or move it away and tune again; lookups go on without its winners")
    with pytest.raises(DatabaseCut), serving.open_layers(str(file), open_device("cpu")):
        raise AssertionError("it is open")


def test_another_answers_only_within_its_context(found: list[Any]) -> None:
    with serving.answered_by(lambda problem: "another's"):  # type: ignore[arg-type, return-value]
        assert serving.lookup(PROBLEM, "cpu") == "another's"
    assert serving.lookup(PROBLEM, "cpu") != "another's"
    assert found == [None]
