"""The page `wgmma` on the CPU device: its waits, removed one by one; the sanitizers; overlapping launches; and the
classes of pixels with taps outside the image."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from mostly_slow import mostly_slow

from qconv import Conv2d, Quantization, generator
from qconv.arithmetic.mode import Mode
from qconv.errors import Infeasible
from qconv.generator.families.wgmma import Wgmma, WgmmaPlan
from qconv.generator.persistent import Borders
from qconv.targets.target import TARGETS
from tests.templates.test_fences import LATE, WAIT, LeftOut, check_left_out, finding, one_after_the_other, overlapped
from tests.templates.test_mma_sanitizers import OVERFLOW, RACE, WRITE, WRONG, Planted, check, check_planted

EARLY = 3
TARGET = TARGETS["cpu.sm_90a"]
EVERYTHING = Quantization("uint8", "int8", "uint8", True, True, False, True, "int32", "relu6")
ADDED = Quantization(per_channel=True, residual="int8")
SUM = Quantization(
    *("uint8", "int8", "uint8"),
    bias="int32",
    activation="relu",
    residual="uint8",
    residual_zero_point=True,
    mode=Mode(residual_add="requantized"),
)


def plan_of(problem: Conv2d, **config: int) -> WgmmaPlan:
    defaults = {"consumers": 2, "split_pixels": 0, "pixels": 16, "weight_slots": 2, "lag": 1}
    made = generator.plan(problem, Wgmma(**(defaults | config)), TARGET)
    assert isinstance(made, WgmmaPlan)
    return made


# Blocks have at least two tiles: a slot's second use, and the first consumer ahead of the second.
PLANS = {
    "channels": plan_of(Conv2d(2, 7, 7, 144, 264, 2, 2, pad=1, quantization=ADDED)),
    "pixels": plan_of(Conv2d(2, 9, 9, 48, 40, 3, 2, pad=1, quantization=EVERYTHING), split_pixels=1, weight_slots=3),
    "whole slabs": plan_of(Conv2d(2, 7, 7, 256, 264, 2, 1, pad=1, quantization=ADDED)),
    "one consumer": plan_of(Conv2d(2, 9, 8, 160, 21, 1, 1, quantization=ADDED), consumers=1, lag=0),
    # The last tile's second consumer has no channel, and so no residuals.
    "residuals": plan_of(Conv2d(2, 7, 7, 144, 272, 2, 2, pad=1, quantization=ADDED)),
    "two residuals": plan_of(Conv2d(4, 9, 8, 64, 48, 1, 1, quantization=SUM), split_pixels=1),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_left_out(name: str) -> None:
    text = generator.render(PLANS[name]).text
    assert PLANS[name].tiles > TARGET.processors
    assert [finding(PLANS[name], text, seed) for seed in (LATE, EARLY)] == [None, None]


@pytest.mark.parametrize(("c", "multiplied"), [(16, 32), (32, 32), (48, 64), (128, 128), (144, 32), (176, 64)])
def test_how_much_of_the_last_slab_is_multiplied(c: int, multiplied: int) -> None:
    assert plan_of(Conv2d(2, 7, 7, c, 264, 2, 2)).last_slab == multiplied


def test_offsets_of_channels_past_the_last_are_not_read() -> None:
    problem = Conv2d(1, 7, 7, 16, 21, 3, 3, pad=1, quantization=EVERYTHING)
    check(plan_of(problem, consumers=1, lag=0), "address", LATE)


LEFT_OUT = {
    "the wait for weights": LeftOut("channels", "            weight_ring.wait(weights_at);\n", "", f"bytes|{WRONG}"),
    "the wait for pixels": LeftOut("channels", "            pixel_ring.wait(pixels_at);\n", "", f"bytes|{WRONG}"),
    "the barrier behind the mbarriers": LeftOut(
        "channels", "    tile::barrier();\n    const int group", "    const int group", "nobody has initialised"
    ),
    "the wait for the products of the slab before": LeftOut(
        "channels", "            wait_for_products<1>(products);\n", "", "more products of a warpgroup"
    ),
    "the wait for the last products": LeftOut("channels", "        wait_for_products<0>(products);\n", "", WRONG),
    "the release of a tile's last slab": LeftOut(
        "channels",
        "        wait_for_products<0>(products);\n        release();\n",
        "        wait_for_products<0>(products);\n",
        "wait",
    ),
    "the release of the others": LeftOut("channels", "            if (slab > 0) release();\n", "", "wait"),
    "that the slab's own slots are read": LeftOut(
        "channels",
        "            wait_for_products<1>(products);\n            if (slab > 0) release();\n",
        "            pixels_before = pixels_at;\n            weights_before = weights_at;\n            release();\n"
        "            wait_for_products<1>(products);\n",
        f"that has completed 2|{WRONG}",
        EARLY,
        ("        wait_for_products<0>(products);\n        release();\n", "        wait_for_products<0>(products);\n"),
    ),
    "the word to the consumer behind": LeftOut(
        "channels", "                if (signals) shared.under_way.arrive();\n", "", "wait"
    ),
    "the releases of a second consumer": LeftOut("channels", "CONSUMERS / PIXEL_RINGS);", "1);", "", EARLY),
    "that the first products do not add": LeftOut(
        "one consumer", "columns.behind(k), sums[1], adds || k > 0)", "columns.behind(k), sums[1], true)", WRONG
    ),
    "that the first products of whole slabs do not add": LeftOut(
        "whole slabs", "columns.behind(k), sums[1], slab + k > 0)", "columns.behind(k), sums[1], true)", WRONG
    ),
    "which slabs have zeros behind the last channel": LeftOut("channels", "slab < SLABS - R * S", "slab < 0", WRONG),
    "the wait for residuals": LeftOut("residuals", "        residual_ring.wait(residuals_at);\n", "", f"bytes|{WRONG}"),
    "the release of residuals": LeftOut(
        "residuals", "        if (tile::lane() == 0) residual_ring.release(residuals_at);\n", "", "wait"
    ),
    "the second slot of residuals": LeftOut("two residuals", "        residuals_at.advance();\n", "", "bytes"),
    "the releases of three warps": LeftOut(
        "residuals",
        "ring.open(4);  // the warps of a consumer",
        "ring.open(1);",
        "that has completed",
        EARLY,
    ),
    "that a warp has read its residuals": LeftOut(
        "residuals",
        "        tile::warp_barrier();  // the warp has read its residuals\n",
        "",
        "that has completed",
        EARLY,
    ),
    "the residuals of the second consumer": LeftOut(
        "residuals", "consumer < CONSUMERS; ++consumer) {", "consumer < 1; ++consumer) {", "wait"
    ),
    "where the residuals of a second consumer lie": LeftOut(
        "two residuals", "(PIXEL_RINGS > 1 ? consumer : 0) * TILE_N;", "0;", WRONG
    ),
    "the swizzle of residuals": LeftOut("residuals", "channel / 16 ^ pixel % 8", "channel / 16", WRONG),
    "the class of a pixel": LeftOut("pixels", "if (first < 0) return;", "if (first < K) return;", WRONG),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_is_found(name: str) -> None:
    check_left_out(PLANS[LEFT_OUT[name].plan], LEFT_OUT[name])


@pytest.mark.parametrize("residual", ["none", "int8"])
def test_a_launch_waits_for_the_one_before(residual: str) -> None:
    """Weights are loaded before the wait; pixels and residuals are not, and no output is written."""
    layer = plan_of(Conv2d(1, 5, 5, 32, 32, 3, 3, pad=1, quantization=Quantization(residual=residual)), split_pixels=1)
    text = generator.render(layer).text
    want = one_after_the_other(layer)
    for seed in (LATE, EARLY):
        assert all(map(np.array_equal, overlapped(layer, text, seed), want))
    waits = [found.span() for found in re.finditer(re.escape(WAIT), text)]
    # Residuals that are loaded too early arrive when a consumer waits for them, which has waited for pixels.
    assert len(waits) == (1 if residual == "none" else 2)
    begin, end = waits[0]
    found = overlapped(layer, text[:begin] + text[end:], LATE)
    assert not any(map(np.array_equal, found[1:], want[1:]))


RUNS = {
    f"{name}-{sanitizer}-{seed}": (name, sanitizer, seed)
    for sanitizer, seed in (("address", LATE), ("thread", LATE), ("thread", EARLY))
    for name in PLANS
}
FAST = {f"two residuals-thread-{EARLY}"} | {
    f"{name}-{sanitizer}-{seed}"
    for name, sanitizer, seed in RUNS.values()
    if name == "channels" or (sanitizer == "address" and "residuals" not in name)
}


@pytest.mark.turns
@pytest.mark.parametrize("run", mostly_slow(RUNS, FAST))
def test_nothing_is_found(run: str) -> None:
    name, sanitizer, seed = RUNS[run]
    check(PLANS[name], sanitizer, seed)  # type: ignore[arg-type]


PLANTED = {
    "a channel past the last is written": Planted(
        "one consumer", "if (k + i < K) to[i]", "to[i]", "address", OVERFLOW, WRITE
    ),
    "channels of a consumer past the last are written": Planted(
        "channels", "if (WHOLE_TILES || k < K) write", "write", "address", OVERFLOW, WRITE
    ),
    "slots are released while they are read": Planted(
        "channels",
        "            wait_for_products<1>(products);\n            if (slab > 0) release();\n",
        "            if (slab > 0) release();\n            wait_for_products<1>(products);\n",
        "thread",
        RACE,
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str) -> None:
    check_planted(PLANTED[name], PLANS[PLANTED[name].plan])


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pad", [(0, 0), (1, 0), (2, 3), (4, 4)])
@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_classes_of_pixels(size: int, pad: tuple[int, int], stride: int) -> None:
    """Outputs of one class have the same taps inside the image; if there are more, the inner ones form one class."""
    problem = Conv2d(1, 12, size + 4, 16, 8, 3, 3, stride=(stride, stride), dilation=(1, 2), pad=(*pad, *pad))
    for axis, extent, outputs, taps, before in (
        (Borders.of(problem).rows, problem.h, problem.oh, (0, 1, 2), pad[0]),
        (Borders.of(problem).columns, problem.w, problem.ow, (0, 2, 4), pad[1]),
    ):
        inside = [tuple(0 <= p * stride - before + tap < extent for tap in taps) for p in range(outputs)]
        inner = inside[axis.before : outputs - axis.behind]
        assert all(all(one) for one in inner) or axis.before == outputs
        assert axis.classes == axis.before + axis.behind + (len(inner) > 0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"groups": 2}, "groups=2"),
        ({"c": 24}, "c=24: TMA copies multiples of 16 bytes per pixel"),
        ({"layout": "nchw"}, "layout=nchw"),
        ({"quantization": Quantization(w_zero_point=True)}, "w_zero_point"),
    ],
)
def test_what_it_does_not_serve(change: dict[str, object], says: str) -> None:
    problem = Conv2d(1, 8, 8, 32, 32, 3, 3, pad=1)
    with pytest.raises(Infeasible, match=says):
        plan_of(replace(problem, **change), split_pixels=1)  # type: ignore[arg-type]


def test_slots_of_residuals() -> None:
    """There are two if a tile is multiplied before the next one arrives and if there is room; none if TMA cannot load a
    row of them."""
    tile = {"pixels": 64, "weight_slots": 3}

    def slots_of(k: int, r: int, **config: int) -> tuple[int, int]:
        problem = Conv2d(2, 20, 20, 128, k, r, r, pad=r // 2, quantization=ADDED)
        made = plan_of(problem, **(tile | config))
        return made.pixel_slots, made.residual_slots

    assert slots_of(256, 1) == (5, 2)
    assert slots_of(256, 3) == (5, 1)
    assert slots_of(264, 1) == (5, 0)
    assert slots_of(256, 1, pixels=192) == (3, 1)
    with pytest.raises(Infeasible, match="bytes of shared memory"):
        slots_of(256, 1, pixels=192, weight_slots=6, split_pixels=1)
    assert plan_of(Conv2d(2, 9, 8, 160, 24, 1, 1, quantization=ADDED), consumers=1, lag=0).alignment["residual"] == 4
    assert PLANS["residuals"].alignment["residual"] == 16


def test_registers_for_residuals_and_borders() -> None:
    wide = Quantization(out_type="float16", x_zero_point=True, residual="int8")
    problem = Conv2d(2, 20, 20, 128, 256, 3, 3, pad=1, quantization=wide)
    assert plan_of(problem, pixels=128).residual_slots == 1
    with pytest.raises(Infeasible, match="wide outputs: 192; at most 128"):
        plan_of(problem, pixels=192)
    assert plan_of(replace(problem, pad=(0, 0, 0, 0)), pixels=192).residual_slots == 1


def test_configs_that_make_no_sense() -> None:
    problem = Conv2d(1, 8, 8, 128, 128, 3, 3, pad=1)
    for config, says in (
        ({"consumers": 1, "lag": 1}, "consumers=1"),
        ({"split_pixels": 0}, "second consumer would have no channel"),
        ({"split_pixels": 1, "weight_slots": 2, "lag": 2}, "lag=2"),
        ({"split_pixels": 1, "weight_slots": 9, "pixels": 64, "lag": 0}, "pixels of a tile"),
    ):
        with pytest.raises(Infeasible, match=says):
            plan_of(problem, **config)
    for name in ("sm_100a", "sm_103a", "sm_120"):
        with pytest.raises(Infeasible, match=f"{name} has no matrix instruction of warpgroups.*; mma serves it"):
            generator.plan(problem, Wgmma(1, 0, 16, 2, 0), TARGETS[name])
