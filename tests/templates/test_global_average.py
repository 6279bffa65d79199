"""The kernels of global average pools compared with the oracle, bit for bit."""

from __future__ import annotations

import random

import pytest
from random_tensor_ops import global_pools

from qconv import generator
from qconv.device import open_device
from qconv.errors import Infeasible
from qconv.generator.families.tensor_ops.global_pooling import GlobalPooling
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tensor_ops import GlobalAveragePool
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")
SANITIZED = {
    "the last block has few channels": (
        GlobalAveragePool(3, 50, 24, "uint8"),
        GlobalPooling(threads=64, vector=4, lanes=4, unroll=1),
    ),
    "more lanes than channels": (
        GlobalAveragePool(2, 9, 3, out_type="uint8"),
        GlobalPooling(threads=64, vector=1, lanes=4, unroll=4),
    ),
}


# A thread finishes several of them.
WIDE = (GlobalAveragePool(1, 3, 600), GlobalPooling(threads=64, vector=4, lanes=32, unroll=1))


def test_a_block_may_have_more_channels_than_threads() -> None:
    problem, config = WIDE
    assert config.vector * config.lanes > config.threads
    plan = generator.plan(problem, config, CPU.target)
    assert mismatch(load(plan, CPU), registry.draw(problem, 5)) is None


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", SANITIZED)
def test_nothing_is_found(name: str, sanitizer: sanitized.Sanitizer) -> None:
    problem, config = SANITIZED[name]
    plan = generator.plan(problem, config, CPU.target)
    assert sanitized.mismatch(plan, registry.draw(problem, 5), sanitizer) is None


def test_a_missing_barrier_is_found() -> None:
    problem, config = SANITIZED["the last block has few channels"]
    plan = generator.plan(problem, config, CPU.target)
    text, old = generator.render(plan).text, "    tile::barrier();\n"
    assert old in text
    report, _ = sanitized.run(plan, registry.draw(problem, 5), "thread", source=text.replace(old, ""))
    assert not report.clean


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_many_random_problems(first: int) -> None:
    for index, problem in enumerate(global_pools(2, 40)[first : first + 10], first):
        plans, _ = generator.space(problem, CPU.target)
        plan = random.Random(f"{index} {problem}").choice(plans)
        assert mismatch(load(plan, CPU), registry.draw(problem, index)) is None, f"{problem} {plan.config}"


def test_what_a_config_cannot_serve() -> None:
    config = GlobalPooling(threads=64, vector=16, lanes=4, unroll=1)
    with pytest.raises(Infeasible, match="vector=16 does not divide c=24"):
        generator.plan(GlobalAveragePool(1, 49, 24), config, TARGETS["sm_90a"])
    with pytest.raises(Infeasible, match="channels of a block"):
        generator.plan(GlobalAveragePool(1, 49, 16), config, TARGETS["sm_90a"])
