"""The page `stem_wgmma` on the CPU device: its producers' and consumers' waits, signals and fences, removed one by one;
the sanitizers; overlapping launches; and unsupported problems."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mostly_slow import mostly_slow

from qconv import Conv2d, Quantization, generator
from qconv.errors import Infeasible
from qconv.generator.families.stem_wgmma import Cells, StemWgmma, StemWgmmaPlan
from qconv.targets.target import TARGETS
from tests.templates.test_fences import LATE, LeftOut, check_left_out, check_two_waits, finding
from tests.templates.test_mma_sanitizers import OVERFLOW, WRITE, WRONG, Planted, check, check_planted
from tests.templates.test_wgmma import EARLY

TARGET = TARGETS["cpu.sm_90a"]
ZERO = Quantization(x_type="uint8", x_zero_point=True, bias="int32", activation="relu")
WIDE = Quantization(x_zero_point=True, out_type="int32")
HALVES = Quantization("float16", "float16", "float16", per_channel=True, bias="float32", activation="relu")
OF_BFLOATS = Quantization("bfloat16", "bfloat16", "float32", per_channel=True)
OF_BYTES = Quantization("float8_e4m3fn", "float8_e5m2", "bfloat16", bias="float32")


def plan_of(problem: Conv2d, **config: int) -> StemWgmmaPlan:
    made = generator.plan(problem, StemWgmma(**({"rows": 4, "consumers": 2, "team": 1} | config)), TARGET)
    assert isinstance(made, StemWgmmaPlan)
    return made


def layer(n: int, h: int, w: int, c: int, k: int, r: int, s: int, **more: object) -> Conv2d:
    return Conv2d(n, h, w, c, k, r, s, **({"stride": 2, "pad": r // 2} | more))  # type: ignore[arg-type]


# A team assembles cells in each of its windows, and of each of its images, at least twice.
PLANS = {
    "staged": plan_of(layer(7, 60, 64, 3, 64, 7, 7, quantization=ZERO)),
    "direct": plan_of(layer(9, 59, 60, 4, 21, 5, 5, quantization=WIDE), consumers=3),
    "skipped": plan_of(layer(12, 44, 48, 3, 130, 3, 3, quantization=Quantization()), rows=8, team=4),
    "halves": plan_of(layer(7, 61, 64, 3, 72, 7, 7, quantization=HALVES)),
    "halves, direct": plan_of(layer(9, 59, 60, 4, 21, 5, 5, quantization=OF_BFLOATS), consumers=3),
    "bytes of floats": plan_of(layer(7, 60, 64, 3, 48, 6, 6, pad=2, quantization=OF_BYTES), team=4),
    "uneven": plan_of(layer(9, 50, 52, 4, 48, 6, 3, pad=(2, 0, 1, 3), quantization=ZERO), team=4),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_left_out(name: str) -> None:
    plan = PLANS[name]
    assert plan.tiles >= 16 * plan.blocks // plan.config.team
    assert [finding(plan, generator.render(plan).text, seed) for seed in (LATE, EARLY)] == [None, None]


IMAGE = "        image_ring.wait(at);\n"
EMPTY = "        if (phase > 0) shared.ring.empty[slot].wait_for_phase(phase - 1);\n"
FENCE = "        tile::fence_proxy_async();\n        team_barrier();"
FULL = "            shared.ring.full[slot].arrive();\n"
RELEASE = "            image_ring.release(at);\n"

LEFT_OUT = {
    "the wait for an image": LeftOut("staged", IMAGE, "", f"bytes|{WRONG}"),
    "the wait until a window is read": LeftOut("staged", EMPTY, "", f"that has completed|{WRONG}"),
    "the fence behind the cells": LeftOut("staged", FENCE, "        team_barrier();", WRONG),
    "the barrier behind the cells": LeftOut(
        "uneven",
        "        team_barrier();  // the image is read, and its cells are there\n",
        "",
        "that has completed",
        EARLY,
    ),
    "the word that cells are there": LeftOut("staged", FULL, "", "wait"),
    "the word that an image is read": LeftOut("staged", RELEASE, "", "wait"),
    "the wait for the cells": LeftOut("staged", "    shared.ring.wait(at);\n", "", f"wait|that has completed|{WRONG}"),
    "the barrier behind the mbarriers": LeftOut(
        "staged", "    tile::barrier();\n    const int group", "    const int group", "nobody has initialised"
    ),
    "the padding": LeftOut("staged", "exists ? word : padding_word(args)", "word", WRONG),
    "where cells begin": LeftOut("skipped", ".cell[0][SKIPPED]", ".cell[0][0]", WRONG),
    "where filters begin in a cell": LeftOut("staged", "lane % 4 / 2 - (BEFORE_H - PAD_TOP)", "lane % 4 / 2", WRONG),
    "where filters begin in a row of cells": LeftOut("staged", "lane % 2 - (BEFORE_W - PAD_LEFT)", "lane % 2", WRONG),
    "the second of two taps": LeftOut("staged", ".cell[0][SKIPPED], 16, 16", ".cell[0][SKIPPED], 32, 16", WRONG),
    "where the next row of cells lies": LeftOut("staged", "16 * CELLS_W);", "128);", WRONG),
    "where the first chunk's cells begin": LeftOut(
        "staged", "row[row][IMAGE_SHIFT + column * C]", "row[row][column * C]", WRONG
    ),
    "the first step, which does not add": LeftOut("staged", "sums[0], step > 0);", "sums[0], true);", WRONG),
    "a block's filters": LeftOut("skipped", "(first_channel() / TILE_M * STEPS * 4 +", "(0 +", WRONG),
    "the order of the filters' rows": LeftOut(
        "staged", "return row / 16 * 16 + row % 8 * 2 + row % 16 / 8;", "return row;", WRONG
    ),
    "windows of a team's own": LeftOut(
        "staged", "slot = i % WINDOWS", "slot = 0 * i", f"wait|that has completed|{WRONG}"
    ),
    "images of a team's own": LeftOut("staged", "shared.images[team]", "shared.images[0]", WRONG),
    "where the next row of outputs lies, of halves": LeftOut("halves", "2 * 16 * CELLS_W);", "16 * CELLS_W);", WRONG),
    "the second matrix of outputs": LeftOut("halves", "* 2 + tile::lane() / 8 % 2", "* 2", WRONG),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_is_found(name: str) -> None:
    check_left_out(PLANS[LEFT_OUT[name].plan], LEFT_OUT[name])


def test_a_launch_waits_for_the_one_before() -> None:
    """With these pads an image keeps its shape at stride 2, so that one launch can read another's output."""
    check_two_waits(plan_of(Conv2d(1, 16, 16, 4, 4, 3, 3, stride=2, pad=(8, 8, 9, 9), quantization=Quantization())))


RUNS = {
    f"{name}-{sanitizer}-{seed}": (name, sanitizer, seed)
    for sanitizer, seed in (("address", LATE), ("thread", LATE), ("thread", EARLY))
    for name in PLANS
}
FAST = {f"{name}-address-{LATE}" for name in PLANS} | {f"direct-thread-{seed}" for seed in (LATE, EARLY)}


@pytest.mark.turns
@pytest.mark.parametrize("run", mostly_slow(RUNS, FAST))
def test_nothing_is_found(run: str) -> None:
    name, sanitizer, seed = RUNS[run]
    check(PLANS[name], sanitizer, seed)  # type: ignore[arg-type]


PLANTED = {
    "a pixel past the last is written": Planted(
        "direct", "                if (row >= OUT_H || column >= OUT_W) continue;\n", "", "address", OVERFLOW, WRITE
    ),
    "an image past the last is read": Planted(
        "uneven", "pair < PAIRS; pair +=", "pair < 20 * PAIRS; pair +=", "address", "use-after-poison", "make_cells("
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str) -> None:
    check_planted(PLANTED[name], PLANS[PLANTED[name].plan])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"groups": 3, "k": 63}, "groups=3"),
        ({"c": 2}, "cells have 3 or 4 channels in one group .here c=2"),
        ({"layout": "nchw"}, "layout=nchw"),
        ({"stride": (2, 1)}, "neighbouring cells, of two by two pixels; stem serves it"),
        ({"dilation": (1, 2)}, "neighbouring cells, of two by two pixels; stem serves it"),
        ({"w": 40}, "w=40: TMA copies rows of whole 16 bytes"),
        ({"quantization": Quantization(w_zero_point=True)}, "w_zero_point"),
        ({"quantization": Quantization(residual="int8")}, "residuals"),
        ({"quantization": Quantization("tfloat32", "tfloat32", "float32")}, "tfloat32: the 16 bytes of a cell must"),
        ({"quantization": Quantization("float32", "float32", "float32")}, "float32 by float32: no matrix instruction"),
        ({"quantization": HALVES, "w": 36}, "w=36: TMA copies rows of whole 16 bytes"),
    ],
)
def test_what_it_does_not_serve(change: dict[str, object], says: str) -> None:
    problem = Conv2d(1, 32, 32, 3, 64, 7, 7, stride=2, pad=3)
    with pytest.raises(Infeasible, match=says):
        plan_of(replace(problem, **change))  # type: ignore[arg-type]


def test_configs_that_make_no_sense() -> None:
    problem = Conv2d(4, 224, 224, 3, 64, 7, 7, stride=2, pad=3)
    with pytest.raises(Infeasible, match="registers of a thread for sums and filters: 112; at most 96"):
        plan_of(problem, rows=20, consumers=3)
    with pytest.raises(Infeasible, match="rows of a tile"):
        plan_of(replace(problem, h=16, w=16), rows=16)
    for name in ("sm_80", "sm_100a", "sm_120", "gfx942"):
        with pytest.raises(Infeasible, match=f"{name} has no matrix instruction of warpgroups"):
            generator.plan(problem, StemWgmma(4, 2, 1), TARGETS[name])


@pytest.mark.parametrize(
    ("filter_and_pad", "steps", "skipped"),
    [((7, 3), 8, 0), ((3, 1), 2, 1), ((3, 0), 2, 0), ((5, 2), 6, 1), ((6, 2), 6, 1), ((2, 0), 1, 0), ((1, 0), 1, 0)],
)
def test_how_many_steps_a_filter_takes(filter_and_pad: tuple[int, int], steps: int, skipped: int) -> None:
    size, pad = filter_and_pad
    cells = Cells.of(Conv2d(1, 32, 32, 3, 64, size, size, stride=2, pad=pad))
    assert (cells.steps, cells.skipped) == (steps, skipped)


@pytest.mark.parametrize(
    ("filter_and_pad", "steps", "skipped"), [((7, 3), 14, 0), ((3, 1), 3, 0), ((3, 0), 3, 0), ((6, 2), 12, 0)]
)
def test_how_many_steps_a_filter_of_halves_takes(filter_and_pad: tuple[int, int], steps: int, skipped: int) -> None:
    """Each row of the filter has steps of its own, of four pixels."""
    size, pad = filter_and_pad
    cells = Cells.of(Conv2d(1, 32, 32, 3, 64, size, size, stride=2, pad=pad, quantization=HALVES))
    assert (cells.steps, cells.skipped, cells.window(4)) == (steps, skipped, (6 + size, 7 + 2 * (steps // size)))
