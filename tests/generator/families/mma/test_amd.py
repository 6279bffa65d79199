"""The cost model of AMD compared with figures from code objects (bench/amd_static.py)."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from qconv import generator
from qconv.generator.families.mma import amd as mma_amd
from qconv.generator.families.mma.plan import MmaPlan
from qconv.ops.registry import parse
from qconv.targets.target import target

RESULTS = Path(__file__).parents[4] / "bench" / "results" / "amd-static"
ROWS: list[dict[str, Any]] = json.loads((RESULTS / "after.json").read_text())["rows"]
IDS = [f"{row['target']} {row['layer']}" for row in ROWS]


def plan_of(row: dict[str, Any]) -> MmaPlan:
    values = dict(field.split("=") for field in row["config"].split()[1:])
    config = generator.config_from_json(json.dumps({"family": "mma"} | {n: int(value) for n, value in values.items()}))
    made = generator.plan(parse(row["problem"]), config, target(row["target"]))
    assert isinstance(made, MmaPlan)
    return made


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_the_defaults_are_those_that_were_read(row: dict[str, Any]) -> None:
    assert generator.default(parse(row["problem"]), target(row["target"])).config == plan_of(row).config


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_as_many_blocks_fit_as_the_model_says(row: dict[str, Any]) -> None:
    assert mma_amd.resident(plan_of(row)) == row["blocks_per_sm"] >= 2


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_about_as_many_registers_are_taken_as_the_model_says(row: dict[str, Any]) -> None:
    assert row["registers"] - 12 <= mma_amd.registers_of(plan_of(row)) <= row["registers"] + 72


def test_the_fractions_of_matrix_instructions_are_in_order() -> None:
    """Compares only loops of one step: others are unrolled."""
    fractions = []
    for row in ROWS:
        loop = mma_amd.loop_of(plan_of(row))
        if loop.matrix == row["loop_matrix"] and not row["straight"]:
            fractions.append((row["loop_matrix"] / row["loop_instructions"], loop.share))
    assert len(fractions) >= 6
    for (read, modelled), (other, other_modelled) in itertools.permutations(fractions, 2):
        assert modelled >= other_modelled or read < 1.15 * other
