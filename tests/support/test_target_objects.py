"""Objects of every family, for every target: the compiler takes them, and the readers of machine code refuse none."""

from __future__ import annotations

import json
from typing import Any

import pytest
import target_objects
from machine_code import amd
from mostly_slow import mostly_slow

from qconv import generator
from qconv.device.compile import compiler_for
from qconv.errors import CompileError
from qconv.generator import FAMILIES
from qconv.targets.target import TARGETS, Target

GPUS = {name: entry for name, entry in TARGETS.items() if entry.vendor != "cpu"}
REMEDY = "python tests/support/target_objects.py, then python bench/page_tables.py, makes the record again"


def skip_without_tools(entry: Target) -> None:
    try:
        compiler_for(entry)
    except CompileError as missing:
        pytest.skip(str(missing))
    if entry.vendor == "amd" and (why := amd.missing()) is not None:
        pytest.skip(why)


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[dict[str, Any]]]:
    rows = json.loads(target_objects.RECORD.read_text())["rows"]
    return {name: [row for row in rows if row["target"] == name] for name in GPUS}


def test_every_family_but_chains_in_parts_has_a_problem() -> None:
    assert set(target_objects.problems()) == set(FAMILIES) - {"unfused"}


def test_every_target_is_recorded_and_nothing_is_refused(recorded: dict[str, list[dict[str, Any]]]) -> None:
    for name, rows in recorded.items():
        assert len(rows) >= 15, f"{name}: {REMEDY}"
        assert [row for row in rows if row["refused"]] == []
        families = {row["family"]: row for row in rows}
        assert len(families) == len(rows)
        assert ("mma" in families) == bool(GPUS[name].instructions)
        assert ("tcgen05" in families) == (GPUS[name].tensor_memory is not None)
        multiplies = {family for family in ("mma", "wgmma", "tcgen05") if family in families}
        assert all(families[family]["matrix_instructions"] for family in multiplies)


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(GPUS, {"gfx950", "gfx1151"}))
def test_objects_are_made_and_read(name: str, recorded: dict[str, list[dict[str, Any]]]) -> None:
    skip_without_tools(GPUS[name])
    made = list(target_objects.made_for(GPUS[name]))
    assert [one for one in made if one.refused] == []
    spilled = {row["family"]: row["spill_bytes"] for row in recorded[name]}
    assert {one.family for one in made} == set(spilled), REMEDY
    for one in made:
        assert one.registers <= GPUS[name].registers_per_thread
        assert one.spill_bytes <= max(64, spilled[one.family]), one


def test_an_object_that_the_reader_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = GPUS["gfx1151"]
    skip_without_tools(entry)
    monkeypatch.setattr(amd, "refusals", lambda *_: ["v_wmma under a narrowed EXEC"])
    plan = target_objects.plan_of_family("depthwise", entry)
    assert plan is not None
    assert target_objects.made(plan, "clang").refused == ("v_wmma under a narrowed EXEC",)


def test_a_family_that_serves_none_of_its_problems_there_has_no_object() -> None:
    assert target_objects.plan_of_family("tcgen05", GPUS["sm_121"]) is None
    plan = target_objects.plan_of_family("tcgen05", GPUS["sm_110a"])
    assert plan is not None
    assert "tcgen05" in generator.render(plan).text
