"""The page `halo` with the input channels divided among the blocks of a cluster, on the CPU device."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mostly_slow import mostly_slow

from qconv import Conv2d, Quantization, generator
from qconv.device import Device
from qconv.errors import Infeasible
from qconv.generator.families.halo.split import HaloSplit, HaloSplitPlan, resident_clusters
from qconv.targets.target import TARGETS
from tests.templates.test_fences import LATE, LeftOut, check_left_out, check_two_waits, finding
from tests.templates.test_halo import HALF, OF_HALVES, check_on
from tests.templates.test_mma_sanitizers import RACE, WRONG, Planted, check, check_planted
from tests.templates.test_wgmma import ADDED, EARLY, EVERYTHING, SUM

TARGET = TARGETS["cpu.sm_90a"]


def plan_of(problem: Conv2d, **config: int) -> HaloSplitPlan:
    made = generator.plan(
        problem, HaloSplit(**({"rows": 4, "consumers": 2, "channels": 64, "split": 2} | config)), TARGET
    )
    assert isinstance(made, HaloSplitPlan)
    return made


# Each consumer of a cluster has at least two tiles, and slots are reused in the plan that has few.
PLANS = {
    "halves": plan_of(Conv2d(2, 13, 13, 128, 64, 3, 3, pad=1, quantization=Quantization())),
    "quarters": plan_of(Conv2d(4, 7, 13, 256, 64, 3, 3, pad=1, quantization=ADDED), rows=8, split=4),
    "less in the last": plan_of(Conv2d(2, 13, 13, 80, 40, 3, 3, pad=1, quantization=EVERYTHING), consumers=3),
    "others' channels behind": plan_of(Conv2d(2, 13, 13, 176, 21, 3, 2, pad=1, quantization=HALF)),
    "windows": plan_of(Conv2d(4, 26, 14, 192, 48, 3, 3, stride=2, pad=1, quantization=SUM), rows=8),
    "slabs": plan_of(Conv2d(6, 12, 14, 320, 128, 1, 1, quantization=SUM), rows=8, channels=128, consumers=3),
    "eighths of halves": plan_of(Conv2d(4, 14, 8, 512, 40, 1, 2, quantization=OF_HALVES), rows=16, split=8),
    "few slots": plan_of(Conv2d(3, 12, 24, 192, 64, 3, 3, pad=4, dilation=4), rows=8),
    "alone": plan_of(Conv2d(1, 4, 8, 64, 64, 1, 1, quantization=Quantization())),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_left_out(name: str) -> None:
    plan = PLANS[name]
    assert name == "alone" or plan.tiles >= 2 * plan.config.consumers * plan.blocks
    assert [finding(plan, generator.render(plan).text, seed) for seed in (LATE, EARLY)] == [None, None]


EMPTIED = "        if (turn > 0) exchange.emptied.wait_for_phase(turn - 1);\n"
LEFT_OUT = {
    "that the blocks of a cluster meet": LeftOut(
        "halves",
        "    SumExchange::wait();\n",
        "",
        "nobody has initialised",
        EARLY,
    ),
    "the wait for the others' sums": LeftOut(
        "halves", "        exchange.received.wait_for_sent(turn);\n", "", f"bytes|{WRONG}"
    ),
    "that they have read the sums before": LeftOut("halves", EMPTIED, "", f"bytes|more|{WRONG}", EARLY),
    "the next sums, which are expected": LeftOut(
        "halves", "            exchange.expect();\n            for", "            for", "bytes"
    ),
    "the word that they are read": LeftOut("halves", "tile::arrive_in_block(exchange.emptied, block);", ";", "wait"),
    "to whom sums are sent": LeftOut(
        "quarters",
        "received, row / OWN_ROWS, sent",
        "received, (rank() + 1) % SPLIT, sent",
        f"bytes|{WRONG}",
    ),
    "whose sums they are": LeftOut("quarters", "place = sums[rank()]", "place = sums[0]", f"bytes|{WRONG}"),
    "the sums of the last block": LeftOut(
        "quarters",
        "block < SPLIT; ++block) {\n                    const",
        "block < SPLIT - 1; ++block) {\n                    const",
        WRONG,
    ),
    "which rows a block makes": LeftOut("halves", "row() + rank() * OWN_ROWS", "row()", WRONG),
    "which channels a block multiplies": LeftOut("halves", "rank() * PART_C", "0", WRONG),
    "the channels of its weights": LeftOut(
        "halves",
        "first_input_channel() + slab % SLABS * (ROW / CHANNEL_BYTES);",
        "slab % SLABS * (ROW / CHANNEL_BYTES);",
        WRONG,
    ),
    "which channels are the others'": LeftOut(
        "others' channels behind", "c >= LAST_ROW) continue", "c >= ROW) continue", f"{WRONG}|more products"
    ),
    "whose tile it is": LeftOut(
        "halves", "int tile = tile::block_x() / SPLIT;", "int tile = tile::block_x();", f"{WRONG}|wait|bytes"
    ),
    "that a consumer without a tile gets nothing": LeftOut(
        "alone",
        "if (Tiles().tile + consumer * BLOCKS < TILES) exchange.expect();",
        "exchange.expect();",
        "bytes are missing",
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_is_found(name: str) -> None:
    check_left_out(PLANS[LEFT_OUT[name].plan], LEFT_OUT[name])


def test_a_launch_waits_for_the_one_before() -> None:
    check_two_waits(plan_of(Conv2d(1, 5, 5, 64, 64, 3, 3, pad=1, quantization=Quantization())))


RUNS = {
    f"{name}-{sanitizer}-{seed}": (name, sanitizer, seed)
    for sanitizer, seed in (("address", LATE), ("thread", LATE), ("thread", EARLY))
    for name in PLANS
}


@pytest.mark.turns
@pytest.mark.parametrize("run", mostly_slow(RUNS, {f"halves-address-{LATE}", f"less in the last-thread-{EARLY}"}))
def test_nothing_is_found(run: str) -> None:
    name, sanitizer, seed = RUNS[run]
    check(PLANS[name], sanitizer, seed)  # type: ignore[arg-type]


@pytest.mark.turns
def test_a_planted_bug_is_found() -> None:
    """The signal that sums were read is sent before all threads have read them."""
    barrier = "        tile::warpgroup_barrier(consumer);  // all of its threads have read\n"
    check_planted(Planted("halves", barrier, "", "thread", RACE), PLANS["halves"])


@pytest.mark.gpu
@pytest.mark.parametrize("name", PLANS)
def test_plans(name: str, gpu: Device) -> None:
    check_on(gpu, PLANS[name])


@pytest.mark.gpu
@pytest.mark.parametrize("name", PLANS)
def test_plans_for_the_sanitizer(name: str, gpu: Device) -> None:
    """Check them with fewer images: racecheck itself hangs with three or more tiles per cluster."""
    check_on(gpu, PLANS[name], images=8)


SMALL = Conv2d(1, 7, 7, 512, 512, 3, 3, pad=1)


@pytest.mark.parametrize(
    ("change", "config", "says"),
    [
        ({"c": 40}, {}, "c=40: lanes that bring pixels bring all channels of each; halo serves it"),
        ({"c": 32}, {}, "split=2: parts of 32 channels are fewer for the problem's 32; split less"),
        ({"c": 96}, {"rows": 8, "split": 4}, "split=4: parts of 32 channels are fewer for the problem's 96"),
        ({}, {"split": 4}, "rows=4: each of split=4 blocks makes .* whole pairs of rows; give a multiple of 8"),
        ({}, {"rows": 16, "split": 8}, "split=8: parts of 64 bytes are no whole slabs of 128; split by 4 at most"),
        ({"groups": 2}, {}, "groups=2"),
        ({"h": 3}, {"rows": 8}, "rows of a tile"),
        ({"c": 1024, "r": 5, "s": 5, "pad": (2, 2, 2, 2)}, {}, "products of a tile"),
    ],
)
def test_what_it_does_not_serve(change: dict[str, object], config: dict[str, int], says: str) -> None:
    with pytest.raises(Infeasible, match=says):
        plan_of(replace(SMALL, **change), **config)  # type: ignore[arg-type]


def test_targets_without_clusters_of_warpgroups() -> None:
    for name in ("sm_80", "sm_100a", "gfx942"):
        with pytest.raises(Infeasible, match=f"{name} has no matrix instruction of warpgroups"):
            generator.plan(SMALL, HaloSplit(4, 2, 64, 2), TARGETS[name])


def test_clusters_of_four_do_not_fill_a_device() -> None:
    """An H100 held 30 of them, and 66 of two."""
    target = TARGETS["sm_90a"]
    assert resident_clusters(target, 2) == 66
    assert 28 <= resident_clusters(target, 4) <= 30
    plan = generator.plan(replace(SMALL, n=32), HaloSplit(8, 2, 64, 4), target)
    assert plan.main.grid[0] == 4 * 24  # three clusters for each of eight tiles of channels
