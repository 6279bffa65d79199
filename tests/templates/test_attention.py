"""The kernels of attention, on emulated matrix instructions, give the bits of a product, a reduction and a product."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import pytest
from exactness import check
from kernel_checks import check_fault_is_found, check_sanitized, random_plans
from random_attentions import Sizes, attentions, of

from qconv import generator
from qconv.device import open_device
from qconv.device.cpu_runtime import Sanitizer
from qconv.errors import Infeasible
from qconv.expression import Attention
from qconv.generator.families.expression.attention import CHOICES, AttentionConfig, AttentionPlan
from qconv.targets.target import TARGETS

CPU = open_device("cpu.sm_80")
NAMED: dict[str, tuple[Attention, tuple[int, ...]]] = {
    "whole tiles": (of(Sizes((2,), 32, 64, 64, 64)), (2, 1, 64, 1)),
    "ragged": (of(Sizes((2,), 37, 19, 36, 20), "int8"), (1, 1, 32, 2)),
    "no vectors": (of(Sizes((1,), 9, 13, 7, 5)), (2, 1, 32, 4)),
    "heads beside each other, a mask": (
        of(Sizes((2, 3), 17, 17, 32, 32), "int8", beside=True, mask=True),
        (2, 1, 32, 1),
    ),
    "weights of a table": (of(Sizes((1, 2), 20, 49, 40, 24), by="table", out="uint8"), (1, 1, 64, 3)),
    "a number for each row": (of(Sizes((2, 2), 18, 21, 16, 8), by="row"), (1, 1, 32, 1)),
    "a row outside": (of(Sizes((1,), 17, 16, 32, 8), guarded=True), (2, 1, 32, 1)),
    "the most keys": (of(Sizes((1,), 16, 256, 20, 72), integers=True), (1, 1, 32, 1)),
    "several slabs": (of(Sizes((1,), 16, 33, 72, 100), out="float32"), (1, 1, 32, 1)),
    "keys of two warps": (of(Sizes((2,), 37, 49, 36, 20), "int8", by="row"), (4, 2, 32, 1)),
    "keys of four warps": (of(Sizes((1, 2), 20, 197, 20, 40), mask=True, out="uint8"), (4, 4, 32, 2)),
    "the most keys of eight warps": (of(Sizes((1,), 9, 256, 20, 8), by="table"), (8, 8, 32, 1)),
    "a step of each warp": (of(Sizes((1,), 40, 21, 16, 7), "int8", by="table"), (8, 4, 32, 1)),
    "warps without keys": (of(Sizes((2,), 17, 33, 8, 16), beside=True), (8, 8, 32, 1)),
}
MASKED, SHARED = "heads beside each other, a mask", "keys of two warps"


def plan_of(name: str) -> AttentionPlan:
    problem, numbers = NAMED[name]
    plan = generator.plan(problem, AttentionConfig(*numbers), CPU.target)
    assert isinstance(plan, AttentionPlan)
    return plan


@pytest.mark.turns
@pytest.mark.parametrize("name", NAMED)
def test_every_bit_is_the_oracles(name: str) -> None:
    check(plan_of(name), CPU, 3)


def test_which_factors_are_bytes_without_a_zero_point() -> None:
    pages = {name: "".join(side.page[0] for side in plan_of(name).sides) for name in NAMED}
    assert pages == dict.fromkeys(NAMED, "bbt") | {
        "no vectors": "ttt",
        "a row outside": "tbt",
        "heads beside each other, a mask": "bbb",
        "warps without keys": "bbb",
    }


def test_random_plans_share_keys() -> None:
    sharing = Counter(plan.config.sharing for plan in drawn(2, 120) if isinstance(plan, AttentionPlan))
    assert set(sharing) == {1, 2, 4, 8}
    assert min(sharing.values()) >= 5, sharing


@cache
def drawn(seed: int, count: int) -> list[generator.Plan]:
    rng = random.Random(f"attention {seed}")
    problems = attentions(seed, count)
    return [next(random_plans(problem, AttentionConfig, CHOICES, CPU.target, rng)) for problem in problems]


@pytest.mark.turns
@pytest.mark.parametrize("index", range(6))
def test_random_attentions(index: int) -> None:
    check(drawn(1, 6)[index], CPU, index)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_many_random_attentions(first: int) -> None:
    for index, plan in enumerate(drawn(2, 120)[first : first + 20]):
        check(plan, CPU, index)


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize(
    "name",
    ["ragged", "heads beside each other, a mask", "keys of two warps", "a step of each warp", "warps without keys"],
)
def test_nothing_is_found(name: str, sanitizer: Sanitizer) -> None:
    check_sanitized(plan_of(name), sanitizer)


@pytest.mark.turns
@pytest.mark.parametrize(
    ("name", "sanitizer", "old", "new"),
    [
        (MASKED, "thread", "    tile::barrier();\n\n    int row", "\n    int row"),
        (MASKED, "address", "at = Side::EXTENT - 1;", "at = Side::EXTENT + 99999;"),
        (MASKED, "address", "row[0] < M ? row[0] : M - 1", "row[0] + 99999"),
        (MASKED, "address", "column = N - 1;", "column = N + 99999;"),
        (SHARED, "thread", "    tile::barrier();\n    Value all", "    Value all"),
        (SHARED, "thread", "    tile::barrier();\n#pragma unroll\n    for (int number", "    for (int number"),
        (SHARED, "thread", "parts[tile::warp()][lane]", "parts[first_warp][lane]"),
    ],
)
def test_a_planted_fault_is_found(name: str, sanitizer: Sanitizer, old: str, new: str) -> None:
    check_fault_is_found(plan_of(name), sanitizer, old, new)


@pytest.mark.parametrize(("heads", "tokens", "width"), [(3, 197, 64), (10, 196, 32), (12, 197, 64)])
def test_warps_share_keys_where_the_multiprocessors_have_few(heads: int, tokens: int, width: int) -> None:
    sharing = []
    for images in (1, 32):
        problem = of(Sizes((images, heads), tokens, tokens, width, width), beside=True, out="uint8")
        made = generator.default(problem, TARGETS["sm_90a"]).config
        assert isinstance(made, AttentionConfig)
        sharing.append(made.sharing)
    assert sharing[0] > 1 == sharing[1], sharing


@pytest.mark.parametrize(
    ("sizes", "config", "says"),
    [
        (Sizes((1,), 8, 257, 8, 8), (1, 1, 32, 1), "keys, whose scores a lane holds: 257; at most 256"),
        (Sizes((1,), 8, 4, 8, 8), (1, 1, 32, 1), "4 keys are fewer than the lanes of a row hold"),
        (Sizes((1,), 8, 16, 8, 8), (1, 1, 64, 1), "slab=64 is twice the 8 terms of a row"),
        (Sizes((1,), 8, 256, 8, 1000), (8, 1, 32, 1), "bytes of shared memory"),
        (Sizes((1,), 8, 16, 500, 8), (1, 1, 32, 1), "sums of products of the scores in float32"),
        (Sizes((1,), 8, 16, 8, 8), (2, 4, 32, 1), "warps of a block that share rows: 4; at most 2"),
        (
            Sizes((1,), 8, 9, 8, 8),
            (4, 4, 32, 1),
            "lanes of a row's folds, 8 of each warp that shares it: 32; at most 16",
        ),
    ],
)
def test_what_it_does_not_serve(sizes: Sizes, config: tuple[int, ...], says: str) -> None:
    with pytest.raises(Infeasible, match=says):
        generator.plan(of(sizes), AttentionConfig(*config), CPU.target)


@pytest.mark.parametrize("name", ["cpu", "sm_75", "gfx942", "gfx1100"])
def test_targets_without_the_instruction(name: str) -> None:
    with pytest.raises(Infeasible, match="has no instruction whose sums lie as its factors do"):
        generator.plan(NAMED["ragged"][0], AttentionConfig(1, 1, 32, 1), TARGETS[name])
