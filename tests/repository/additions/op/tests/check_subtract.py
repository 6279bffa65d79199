"""The added op is keyed, drawn, computed, planned, run, tuned and listed like any other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from qconv import generator, parse
from qconv.cli.command_line import commands
from qconv.instances.load.serving import lookup
from qconv.ops import registry
from qconv.ops.subtract import Subtract
from qconv.targets.target import TARGETS
from qconv.tuner.measure.verification import mismatch

KEY = "subtract:count=1000"


def test_it_is_keyed() -> None:
    assert str(parse(KEY)) == KEY
    assert parse(KEY) == Subtract(1000)
    with pytest.raises(ValueError, match="known: subtract, conv2d"):
        parse("divide:count=1")


def test_it_is_drawn_and_computed() -> None:
    drawn = registry.draw(Subtract(1000), 1)
    (y,) = registry.compute(Subtract(1000), drawn)
    a, b = drawn.arrays
    assert [int(value) for value in y] == [max(-128, min(127, int(i) - int(j))) for i, j in zip(a, b, strict=True)]


@pytest.mark.parametrize("target", ["sm_90a", "gfx942", "cpu"])
def test_it_is_planned(target: str) -> None:
    feasible, _ = generator.space(Subtract(1000), TARGETS[target])
    assert len(feasible) == 3
    assert "args.a[at] - args.b[at]" in generator.render(feasible[0]).text


def test_it_runs() -> None:
    instance = lookup(Subtract(1000), "cpu")
    assert mismatch(instance, registry.draw(Subtract(1000), 2)) is None
    a, b = np.array([100] * 1000, "int8"), np.array([-27, -28] * 500, "int8")
    assert instance(a, b).tolist() == [127, 127] * 500


def test_it_is_asked_for_by_its_options(tmp_path: Path) -> None:
    asked = ["subtract", "--count", "1000", "--device", "cpu", "--json"]
    ran = CliRunner().invoke(commands, ["run", *asked, "--verify"])
    assert json.loads(ran.stdout)["verified"] is True
    tuned = CliRunner().invoke(commands, ["tune", *asked, "--trials", "2", "--db", str(tmp_path / "tune.sqlite")])
    assert json.loads(tuned.stdout)["measured"] == 2
    refused = CliRunner().invoke(commands, ["run", "conv2d", "--count", "1"])
    assert "has no option --count, which belongs to subtract: leave it out" in refused.output
