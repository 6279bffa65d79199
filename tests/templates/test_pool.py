"""The kernels of max and average pools compared with the oracle, bit for bit."""

from __future__ import annotations

import random

import pytest
from random_tensor_ops import pools

from qconv import generator
from qconv.device import open_device
from qconv.errors import Infeasible
from qconv.generator.families.tensor_ops.pooling import Pooling
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tensor_ops import AveragePool, MaxPool
from qconv.tensor_ops.pooling import Pool
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 100, 10))
def test_many_random_problems(first: int) -> None:
    for index, problem in enumerate(pools(2, 100)[first : first + 10], first):
        plans, _ = generator.space(problem, CPU.target)
        plan = random.Random(f"{index} {problem}").choice(plans)
        assert mismatch(load(plan, CPU), registry.draw(problem, index)) is None, f"{problem} {plan.config}"


SANITIZED: dict[str, tuple[Pool, Pooling]] = {
    "the largest, dilated, windows cut at the end": (
        MaxPool(2, 9, 8, 20, 3, 2, stride=2, pad=(1, 0, 2, 1), ceil_mode=True, dilation=(1, 2)),
        Pooling(threads=64, vector=4),
    ),
    "the largest of unsigned channels, by single bytes": (
        MaxPool(1, 7, 9, 5, 2, 3, pad=1, x_type="uint8"),
        Pooling(threads=64, vector=1),
    ),
    "the largest, sixteen channels a thread": (
        MaxPool(1, 6, 5, 32, 3, 3, stride=2, pad=1, x_type="uint8"),
        Pooling(threads=64, vector=16),
    ),
    "averages without the padding": (
        AveragePool(2, 7, 9, 16, 3, 3, stride=(2, 1), pad=1, x_type="uint8"),
        Pooling(threads=64, vector=16),
    ),
    "averages with the padding": (
        AveragePool(1, 7, 9, 6, 2, 3, stride=2, pad=1, ceil_mode=True, count_include_pad=True, out_type="uint8"),
        Pooling(threads=64, vector=2),
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", SANITIZED)
def test_nothing_is_found(name: str) -> None:
    problem, config = SANITIZED[name]
    plan = generator.plan(problem, config, CPU.target)
    assert sanitized.mismatch(plan, registry.draw(problem, 5), "address") is None


def test_no_two_threads_write_one_output() -> None:
    problem, config = SANITIZED["averages without the padding"]
    plan = generator.plan(problem, config, CPU.target)
    assert sanitized.mismatch(plan, registry.draw(problem, 5), "thread") is None


def test_a_row_behind_the_image_is_found() -> None:
    problem, config = SANITIZED["averages without the padding"]
    plan = generator.plan(problem, config, CPU.target)
    text, old = generator.render(plan).text, "if (!is_within(h, H)) continue;"
    assert old in text
    report, _ = sanitized.run(plan, registry.draw(problem, 5), "address", source=text.replace(old, ""))
    assert not report.clean


def test_what_a_config_cannot_serve() -> None:
    with pytest.raises(Infeasible, match="vector=16 does not divide c=20"):
        generator.plan(MaxPool(1, 9, 9, 20, 3, 3), Pooling(threads=64, vector=16), TARGETS["sm_90a"])
    with pytest.raises(Infeasible, match="columns of a window"):
        generator.default(MaxPool(1, 9, 99, 20, 1, 70), TARGETS["sm_90a"])
