"""The kernels of attention, on emulated matrix instructions, give the bits of a product, a reduction and a product."""

from __future__ import annotations

import random
from functools import cache
from itertools import islice

import pytest
from random_attentions import Sizes, attentions, of

from qconv import generator
from qconv.device import open_device
from qconv.errors import Infeasible
from qconv.expression import Attention
from qconv.generator.families.expression.attention import CHOICES, AttentionConfig, AttentionPlan
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu.sm_80")
NAMED: dict[str, tuple[Attention, tuple[int, ...]]] = {
    "whole tiles": (of(Sizes((2,), 32, 64, 64, 64)), (2, 64, 1)),
    "ragged": (of(Sizes((2,), 37, 19, 36, 20), "int8"), (1, 32, 2)),
    "no vectors": (of(Sizes((1,), 9, 13, 7, 5)), (2, 32, 4)),
    "heads beside each other, a mask": (of(Sizes((2, 3), 17, 17, 32, 32), "int8", beside=True, mask=True), (2, 32, 1)),
    "weights of a table": (of(Sizes((1, 2), 20, 49, 40, 24), by="table", out="uint8"), (1, 64, 3)),
    "a number for each row": (of(Sizes((2, 2), 18, 21, 16, 8), by="row"), (1, 32, 1)),
    "a row outside": (of(Sizes((1,), 17, 16, 32, 8), guarded=True), (2, 32, 1)),
    "the most keys": (of(Sizes((1,), 16, 256, 20, 72), integers=True), (1, 32, 1)),
    "several slabs": (of(Sizes((1,), 16, 33, 72, 100), out="float32"), (1, 32, 1)),
}


def plan_of(name: str) -> AttentionPlan:
    problem, numbers = NAMED[name]
    return _plan(problem, AttentionConfig(*numbers))


def _plan(problem: Attention, config: AttentionConfig) -> AttentionPlan:
    plan = generator.plan(problem, config, CPU.target)
    assert isinstance(plan, AttentionPlan)
    return plan


@pytest.mark.turns
@pytest.mark.parametrize("name", NAMED)
def test_every_bit_is_the_oracles(name: str) -> None:
    plan = plan_of(name)
    assert mismatch(load(plan, CPU), registry.draw(plan.problem, 3)) is None


def test_which_factors_are_bytes_without_a_zero_point() -> None:
    pages = {name: "".join(side.page[0] for side in plan_of(name).sides) for name in NAMED}
    assert pages == dict.fromkeys(NAMED, "bbt") | {
        "no vectors": "ttt",
        "a row outside": "tbt",
        "heads beside each other, a mask": "bbb",
    }


@cache
def drawn(seed: int, count: int) -> list[AttentionPlan]:
    rng = random.Random(f"attention {seed}")
    return [_planned(problem, rng) for problem in islice(attentions(seed, count), count)]


def _planned(problem: Attention, rng: random.Random) -> AttentionPlan:
    while True:
        try:
            return _plan(problem, AttentionConfig(**{name: rng.choice(values) for name, values in CHOICES.items()}))
        except Infeasible:
            continue


@pytest.mark.turns
@pytest.mark.parametrize("index", range(6))
def test_random_attentions(index: int) -> None:
    plan = drawn(1, 6)[index]
    assert mismatch(load(plan, CPU), registry.draw(plan.problem, index)) is None


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_many_random_attentions(first: int) -> None:
    for index, plan in enumerate(drawn(2, 120)[first : first + 20]):
        assert mismatch(load(plan, CPU), registry.draw(plan.problem, index)) is None, str(plan.problem)


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", ["ragged", "heads beside each other, a mask"])
def test_nothing_is_found(name: str, sanitizer: sanitized.Sanitizer) -> None:
    plan = plan_of(name)
    assert sanitized.mismatch(plan, registry.draw(plan.problem, 5), sanitizer) is None


@pytest.mark.turns
@pytest.mark.parametrize(
    ("sanitizer", "old", "new"),
    [
        ("thread", "    tile::barrier();\n\n    int row", "\n    int row"),
        ("address", "at = Side::EXTENT - 1;", "at = Side::EXTENT + 99999;"),
        ("address", "row[0] < M ? row[0] : M - 1", "row[0] + 99999"),
        ("address", "column = N - 1;", "column = N + 99999;"),
    ],
)
def test_a_planted_fault_is_found(sanitizer: sanitized.Sanitizer, old: str, new: str) -> None:
    plan = plan_of("heads beside each other, a mask")
    text = generator.render(plan).text
    assert old in text
    report, _ = sanitized.run(plan, registry.draw(plan.problem, 5), sanitizer, source=text.replace(old, new))
    assert not report.clean


@pytest.mark.parametrize(
    ("sizes", "config", "says"),
    [
        (Sizes((1,), 8, 257, 8, 8), (1, 32, 1), "keys, whose scores a lane holds: 257; at most 256"),
        (Sizes((1,), 8, 4, 8, 8), (1, 32, 1), "4 keys are fewer than the lanes of a row hold"),
        (Sizes((1,), 8, 16, 8, 8), (1, 64, 1), "slab=64 is twice the 8 terms of a row"),
        (Sizes((1,), 8, 256, 8, 1000), (8, 32, 1), "bytes of shared memory"),
        (Sizes((1,), 8, 16, 500, 8), (1, 32, 1), "sums of products of the scores in float32"),
    ],
)
def test_what_it_does_not_serve(sizes: Sizes, config: tuple[int, ...], says: str) -> None:
    with pytest.raises(Infeasible, match=says):
        generator.plan(of(sizes), AttentionConfig(*config), CPU.target)


@pytest.mark.parametrize("name", ["cpu", "sm_75", "gfx942", "gfx1100"])
def test_targets_without_the_instruction(name: str) -> None:
    with pytest.raises(Infeasible, match="has no instruction whose sums lie as its factors do"):
        generator.plan(NAMED["ragged"][0], AttentionConfig(1, 32, 1), TARGETS[name])
