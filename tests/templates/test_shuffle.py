"""The kernels of channel shuffles compared with the oracle, byte for byte."""

from __future__ import annotations

import random

import pytest
from random_tensor_ops import shuffles

from qconv import generator
from qconv.device import open_device
from qconv.errors import Infeasible
from qconv.generator.families.tensor_ops.shuffle import ShuffleConfig
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tensor_ops import ChannelShuffle
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")
SANITIZED = {
    "three groups": (ChannelShuffle(41, 3, 20), ShuffleConfig(threads=64, vector=4, unroll=2)),
    "groups of odd channels": (ChannelShuffle(9, 4, 29, "uint8"), ShuffleConfig(threads=64, vector=1, unroll=4)),
    "words": (ChannelShuffle(13, 2, 48), ShuffleConfig(threads=64, vector=16, unroll=1)),
}


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", SANITIZED)
def test_nothing_is_found(name: str, sanitizer: sanitized.Sanitizer) -> None:
    problem, config = SANITIZED[name]
    plan = generator.plan(problem, config, CPU.target)
    assert sanitized.mismatch(plan, registry.draw(problem, 5), sanitizer) is None


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_many_random_problems(first: int) -> None:
    for index, problem in enumerate(shuffles(2, 40)[first : first + 10], first):
        plans, _ = generator.space(problem, CPU.target)
        plan = random.Random(f"{index} {problem}").choice(plans)
        assert mismatch(load(plan, CPU), registry.draw(problem, index)) is None, f"{problem} {plan.config}"


@pytest.mark.parametrize(
    ("problem", "config", "says"),
    [
        (ChannelShuffle(4, 2, 24), (64, 16, 1), "vector=16 does not divide the width 24 of a group"),
        (ChannelShuffle(4, 8, 16), (64, 16, 1), "bytes of a thread, of 8 groups: 128; at most 64"),
        (ChannelShuffle(4, 64, 16), (64, 1, 2), "bytes of a thread, of 64 groups: 128; at most 64"),
    ],
)
def test_what_a_config_cannot_serve(problem: ChannelShuffle, config: tuple[int, ...], says: str) -> None:
    with pytest.raises(Infeasible, match=says):
        generator.plan(problem, ShuffleConfig(*config), TARGETS["sm_90a"])


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 8, 58, 64])
def test_every_number_of_groups_is_served(groups: int) -> None:
    for width in (1, 3, 16):
        plans, _ = generator.space(ChannelShuffle(5, groups, width), TARGETS["gfx942"])
        assert plans
