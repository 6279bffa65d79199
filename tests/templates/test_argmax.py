"""The kernels of argmax give the oracle's indices."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_tensor_ops import argmaxes

from qconv import generator
from qconv.device import open_device
from qconv.errors import Infeasible
from qconv.generator.families.tensor_ops.argmax import ArgMaxConfig
from qconv.instances.load.pair import load
from qconv.op import Sample
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tensor_ops import ArgMax
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")
SANITIZED = {
    "an axis of neighbours": (ArgMax(11, 40, x_type="uint8"), ArgMaxConfig(threads=64, vector=4, team=8, unroll=1)),
    "the last block has few axes": (
        ArgMax(3, 5, 24, last=True),
        ArgMaxConfig(threads=64, vector=8, team=2, unroll=4),
    ),
    "an axis that no team divides": (ArgMax(9, 19, last=True), ArgMaxConfig(threads=64, vector=1, team=4, unroll=4)),
}


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", SANITIZED)
def test_nothing_is_found(name: str, sanitizer: sanitized.Sanitizer) -> None:
    problem, config = SANITIZED[name]
    plan = generator.plan(problem, config, CPU.target)
    assert sanitized.mismatch(plan, registry.draw(problem, 5), sanitizer) is None


def test_a_missing_barrier_is_found() -> None:
    problem, config = SANITIZED["an axis of neighbours"]
    plan = generator.plan(problem, config, CPU.target)
    text, old = generator.render(plan).text, "    tile::barrier();\n"
    assert old in text
    report, _ = sanitized.run(plan, registry.draw(problem, 5), "thread", source=text.replace(old, ""))
    assert not report.clean


@pytest.mark.parametrize("name", SANITIZED)
def test_equal_elements(name: str) -> None:
    """Covers all equal, all but one, and two at the ends of a row."""
    problem, config = SANITIZED[name]
    kernel = load(generator.plan(problem, config, CPU.target), CPU)
    low, high = (0, 255) if problem.x_type == "uint8" else (-128, 127)
    for element in (low, high):
        x = np.full(problem.inputs[0].shape, element, problem.x_type)
        ends = x.copy()
        ends[:, [0, -1]] = high
        for given in (x, ends):
            assert mismatch(kernel, Sample((given,))) is None


def test_a_row_as_long_as_a_key_can_say() -> None:
    """Its largest element is the last one; longer rows are refused."""
    problem = ArgMax(1, 2**24)
    x = np.zeros((1, 2**24, 1), np.int8)
    x[0, -1] = 1
    config = ArgMaxConfig(threads=256, vector=16, team=256, unroll=4)
    kernel = load(generator.plan(problem, config, CPU.target), CPU)
    assert mismatch(kernel, Sample((x,))) is None
    with pytest.raises(ValueError, match="length=16777217 must be between 1 and 16777216"):
        ArgMax(1, 2**24 + 1)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_many_random_problems(first: int) -> None:
    for index, problem in enumerate(argmaxes(2, 60)[first : first + 10], first):
        plans, _ = generator.space(problem, CPU.target)
        plan = random.Random(f"{index} {problem}").choice(plans)
        assert mismatch(load(plan, CPU), registry.draw(problem, index)) is None, f"{problem} {plan.config}"


@pytest.mark.parametrize(
    ("problem", "config", "says"),
    [
        (ArgMax(1, 24), (64, 16, 1, 1), "vector=16 does not divide length=24"),
        (ArgMax(1, 16, 24), (64, 16, 1, 1), "vector=16 does not divide inner=24"),
        (ArgMax(1, 16, 16), (64, 1, 32, 1), r"threads of a team \(the axis has 16 vectors\): 32; at most 16"),
        (ArgMax(1, 64), (64, 8, 32, 1), "the axis has 8 vectors"),
        (ArgMax(1, 9999), (64, 1, 256, 1), "threads of a team, in a block: 256; at most 64"),
    ],
)
def test_what_a_config_cannot_serve(problem: ArgMax, config: tuple[int, ...], says: str) -> None:
    with pytest.raises(Infeasible, match=says):
        generator.plan(problem, ArgMaxConfig(*config), TARGETS["sm_90a"])
