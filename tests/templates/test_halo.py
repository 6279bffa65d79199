"""The page `halo` on the CPU device: its waits, signals and fences, removed one by one; the sanitizers; overlapping
launches; and unsupported problems."""

from __future__ import annotations

from dataclasses import replace

import pytest
from exactness import check as check_exact
from mostly_slow import mostly_slow

from qconv import Conv2d, Quantization, generator
from qconv.device import Device
from qconv.device.cpu import CpuDevice
from qconv.errors import Infeasible
from qconv.generator.families.halo.config import Halo
from qconv.generator.families.halo.plan import HaloPlan
from qconv.targets.target import TARGETS
from tests.templates.test_fences import LATE, LeftOut, check_left_out, check_two_waits, finding
from tests.templates.test_mma_sanitizers import OVERFLOW, READ, WRITE, WRONG, Planted, check, check_planted
from tests.templates.test_wgmma import ADDED, EARLY, EVERYTHING, SUM

TARGET = TARGETS["cpu.sm_90a"]
HALF = replace(ADDED, out_type="float16")
OF_HALVES = Quantization("float16", "float16", "float16", per_channel=True, bias="float32", residual="float16")


def plan_of(problem: Conv2d, **config: int) -> HaloPlan:
    made = generator.plan(problem, Halo(**({"rows": 2, "consumers": 2, "channels": 64} | config)), TARGET)
    assert isinstance(made, HaloPlan)
    return made


# A consumer has at least two tiles, and slots are reused in the plan that has few.
PLANS = {
    "staged": plan_of(Conv2d(2, 21, 21, 64, 64, 3, 3, pad=1, quantization=Quantization())),
    "residuals": plan_of(Conv2d(2, 13, 14, 48, 80, 3, 2, pad=1, quantization=ADDED), rows=4, consumers=3),
    "direct": plan_of(Conv2d(2, 13, 13, 32, 21, 2, 3, pad=1, dilation=2, quantization=HALF)),
    "borders": plan_of(Conv2d(3, 13, 13, 16, 40, 3, 3, pad=1, quantization=EVERYTHING), rows=4),
    "sums": plan_of(Conv2d(2, 13, 13, 64, 144, 5, 5, pad=2, quantization=SUM), channels=128),
    "pixels": plan_of(Conv2d(3, 12, 14, 144, 80, 1, 1, quantization=SUM)),
    "strides": plan_of(Conv2d(4, 21, 40, 272, 64, 1, 1, stride=(2, 3), quantization=EVERYTHING)),
    "slots": plan_of(Conv2d(2, 12, 24, 128, 64, 3, 3, pad=9, dilation=9), consumers=3),
    "slabs": plan_of(Conv2d(2, 13, 13, 160, 64, 3, 2, pad=1, quantization=SUM)),
    # Elements of two bytes: a slab has 64 channels.
    "halves": plan_of(Conv2d(2, 21, 21, 96, 40, 3, 3, pad=1, quantization=OF_HALVES)),
    # Pixels are the rows of an instruction, with one column per channel.
    "pixel rows": plan_of(Conv2d(2, 34, 34, 64, 80, 3, 3, pad=1, quantization=Quantization()), rows=16, channels=80),
    "pixel rows, residuals": plan_of(
        Conv2d(3, 33, 14, 144, 48, 3, 2, pad=1, quantization=SUM), rows=8, consumers=3, channels=48
    ),
    "pixel rows, two tiles of channels": plan_of(
        Conv2d(2, 42, 14, 32, 160, 3, 3, pad=1, quantization=ADDED), rows=8, channels=80
    ),
    "pixel rows, borders": plan_of(
        Conv2d(4, 26, 13, 32, 42, 3, 3, pad=1, quantization=EVERYTHING), rows=16, channels=48
    ),
    "pixel rows, strides": plan_of(
        Conv2d(4, 66, 30, 80, 16, 3, 3, stride=2, pad=1, quantization=ADDED), rows=16, channels=16
    ),
    "pixel rows, direct": plan_of(
        Conv2d(2, 32, 13, 32, 42, 2, 3, pad=1, dilation=2, quantization=HALF), rows=8, channels=48
    ),
    # Pixels loaded by lanes: by eight channels, by four, and unaligned.
    "gathered": plan_of(Conv2d(1, 31, 37, 40, 64, 3, 3, pad=1, quantization=Quantization())),
    "gathered slabs": plan_of(
        Conv2d(2, 26, 28, 148, 48, 3, 2, pad=1, quantization=EVERYTHING), rows=8, consumers=3, channels=48
    ),
    "gathered, few slots": plan_of(Conv2d(1, 24, 32, 232, 64, 3, 3, pad=1, quantization=Quantization()), rows=6),
    "gathered, strides": plan_of(Conv2d(4, 26, 27, 50, 21, 3, 3, stride=2, pad=1, quantization=SUM)),
    "gathered, one by one": plan_of(Conv2d(2, 31, 32, 35, 64, 3, 4, stride=(4, 3), dilation=(2, 1), pad=2)),
    # Windows of every second column; and of every second row too, if taps read no other.
    "windows": plan_of(Conv2d(2, 26, 28, 144, 48, 3, 3, stride=2, pad=1, quantization=SUM)),
    "rows between": plan_of(
        Conv2d(2, 31, 30, 32, 21, 3, 4, stride=(4, 3), dilation=(2, 1), pad=2, quantization=EVERYTHING)
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_left_out(name: str) -> None:
    plan = PLANS[name]
    assert plan.tiles >= 2 * plan.config.consumers * plan.blocks
    assert [finding(plan, generator.render(plan).text, seed) for seed in (LATE, EARLY)] == [None, None]


ISSUED = "        if (tile::lane() == 0) shared.issued[consumer].arrive();\n"
RELEASE = "        if (!TileResiduals::IN_WINDOW && (RELEASES == 1 ? is_elected : tile::lane() == 0)) release(at);\n"
RELEASE_WITH_RESIDUALS = "        if (TileResiduals::IN_WINDOW && is_elected) release(at);\n"
EARLY_RELEASE = "        if (is_elected) release(at);\n        commit_products(products);\n"
TURN = """        if (consumer > 0) before.wait_for_phase(turn);
        else if (turn > 0) before.wait_for_phase(turn - 1);
"""
WAIT_FOR_STORES = "    if (is_elected) tile::wait_for_store_reads<0>();\n"

BARRIER_OF_WARP = "    tile::warp_barrier();  // all of the warp's part is there\n"
FENCE_AND_BARRIER = "    tile::fence_proxy_async();\n" + BARRIER_OF_WARP

LEFT_OUT = {
    "the wait for a window": LeftOut("staged", "        shared.ring.wait(at);\n", "", f"bytes|{WRONG}"),
    "the wait for the weights": LeftOut("staged", " shared.weights_loaded.wait_for_phase(0); ", "", f"bytes|{WRONG}"),
    "the barrier behind the mbarriers": LeftOut(
        "staged", "    tile::barrier();\n    const int group", "    const int group", "nobody has initialised"
    ),
    "the word that products are issued": LeftOut("staged", ISSUED, "", "wait"),
    "that all warps have seen their turn": LeftOut(
        "staged",
        ISSUED,
        "        if (is_elected) shared.issued[consumer].arrive();\n",
        "that has completed",
        EARLY,
        ("mbarrier.init(4);  // the warps of a consumer", "mbarrier.init(1);"),
    ),
    "that all lanes have seen it": LeftOut(
        "staged", "        tile::warp_barrier();\n" + ISSUED, ISSUED, "that has completed", EARLY
    ),
    "the wait for the products": LeftOut("staged", "        wait_for_products<0>(products);\n", "", f"more|{WRONG}"),
    "the release of a window": LeftOut("slots", RELEASE, "", "wait"),
    "the release of a window that has residuals": LeftOut("sums", RELEASE_WITH_RESIDUALS, "", "wait"),
    "that a window is released behind its products": LeftOut(
        "slots",
        RELEASE,
        "",
        f"that has completed|{WRONG}",
        EARLY,
        ("        commit_products(products);\n", EARLY_RELEASE),
    ),
    "the fence before outputs leave": LeftOut("staged", "    tile::fence_proxy_async();\n", "", WRONG),
    "the barrier before outputs leave": LeftOut(
        "staged", "    tile::warpgroup_barrier(consumer);  // all of them are there\n", "", WRONG
    ),
    "the wait until the outputs before have left": LeftOut(
        "staged", WAIT_FOR_STORES + "    tile::warpgroup", "    tile::warpgroup", WRONG
    ),
    "the barrier behind that wait": LeftOut(
        "staged", "reads<0>();\n    tile::warpgroup_barrier(consumer);\n", "reads<0>();\n", WRONG
    ),
    "the wait until the last outputs have left": LeftOut("staged", WAIT_FOR_STORES + "}\n", "}\n", "on their way"),
    "that a window is released behind its residuals": LeftOut(
        "pixels",
        RELEASE_WITH_RESIDUALS,
        "",
        f"that has completed|{WRONG}",
        EARLY,
        ("        commit_products(products);\n", EARLY_RELEASE),
    ),
    "that residuals come with the window": LeftOut(
        "pixels", "SLABS * sizeof Slab::pixel + TileResiduals::COPIED_BYTES", "SLABS * sizeof Slab::pixel", "bytes"
    ),
    "which residuals are a lane's": LeftOut(
        "pixels",
        "tile::load_transposed(staged.chunk(pixel, chunk)",
        "tile::load_transposed(staged.chunk(pixel, 0)",
        WRONG,
    ),
    "the turn before the window": LeftOut(
        "slots", TURN, "        shared.ring.wait(at);\n" + TURN, "that has completed", EARLY
    ),
    "the slabs of a window": LeftOut("slabs", "of_window + pixel * ROW + c", "pixel * ROW + c", WRONG),
    "the slabs of the weights": LeftOut(
        "slabs", "slab / SLABS * (TAP_BYTES / CHANNEL_BYTES) + channel", "slab * ROW", WRONG
    ),
    "the wait for a tile's second window": LeftOut(
        "windows", "shared.ring.wait(at);", "if (window == 0) shared.ring.wait(at);", f"bytes|{WRONG}"
    ),
    "the release of a tile's second window": LeftOut(
        "windows", "window < WINDOWS_PER_TILE; ++window, read", "window < 1; ++window, read", "wait"
    ),
    "which columns a window has": LeftOut("windows", " + window % WINDOWS_ACROSS", "", WRONG),
    "which rows a window has": LeftOut("rows between", " + window / WINDOWS_ACROSS", "", WRONG),
    "which window a tap looks at": LeftOut(
        "rows between", "row % ROW_STEP * WINDOWS_ACROSS + column % STRIDE_W", "column % STRIDE_W", WRONG
    ),
    "how far rows of a tile lie from each other": LeftOut(
        "windows", "NEXT_ROW = STRIDE_H / ROW_STEP * WINDOW_W;", "NEXT_ROW = WINDOW_W;", WRONG
    ),
    "the slots that a tile's windows take": LeftOut(
        "windows",
        "window < WINDOWS_PER_TILE; ++window) at.advance",
        "window < 1; ++window) at.advance",
        f"bytes|{WRONG}",
    ),
    "the stride": LeftOut("strides", "return column() * STRIDE_W - PAD_LEFT", "return column()", WRONG),
    "where a row of the window begins": LeftOut(
        "staged", "windows[at.slot], NEXT_ROW * ROW);", "windows[at.slot], 8 * ROW);", WRONG
    ),
    "the dilation": LeftOut("direct", "row = tap / S * DILATION_H, column", "row = tap / S, column", WRONG),
    "the pads": LeftOut("staged", "return column() * STRIDE_W - PAD_LEFT", "return column()", WRONG),
    "the first tap, which does not add": LeftOut("staged", "adds = slab + c > 0;", "adds = true;", WRONG),
    "how outputs are swizzled": LeftOut(
        "staged", "return chunk ^ pixel * TILE_M / 128 % (TILE_M / 16);", "return chunk;", WRONG
    ),
    "the order of the weights' rows": LeftOut(
        "staged", "return row / 16 * 16 + row % 8 * 2 + row % 16 / 8;", "return row;", WRONG
    ),
    "the class of a pixel": LeftOut("borders", "Rows::class_of(row)", "Rows::class_of(OUT_H / 2 + 0 * row)", WRONG),
    "where an instruction's pixels begin": LeftOut("pixel rows", "8 * i * NEXT_ROW + pixel", "pixel", WRONG),
    "how far they lie from each other": LeftOut("pixel rows, strides", "8 * i * NEXT_ROW", "8 * i * WINDOW_W", WRONG),
    "which filters pixels are multiplied by": LeftOut("pixel rows", "slab * TILE_M * ROW + c", "c", WRONG),
    "the order of the channels in the columns": LeftOut(
        "pixel rows", "return row / 16 * 16 + row % 8 / 2 * 4 + row % 16 / 8 * 2 + row % 2;", "return row;", WRONG
    ),
    "the second of a lane's pixels": LeftOut("pixel rows", "atoms[h / 2][2 * e + h % 2]", "atoms[h / 2][h % 2]", WRONG),
    "the fence before outputs of pixel rows leave": LeftOut(
        "pixel rows", "    tile::fence_proxy_async();\n", "", WRONG
    ),
    "the barrier before outputs of pixel rows leave": LeftOut(
        "pixel rows", "    tile::warpgroup_barrier(consumer);  // all of them are there\n", "", WRONG
    ),
    "the wait until outputs of pixel rows have left": LeftOut(
        "pixel rows", WAIT_FOR_STORES + "    tile::warpgroup", "    tile::warpgroup", WRONG
    ),
    "which residuals are of a pixel": LeftOut(
        "pixel rows, residuals",
        "sixteen = staged.chunk(pixel + 8 * e, chunk)",
        "sixteen = staged.chunk(pixel, chunk)",
        WRONG,
    ),
    "that residuals are read in shared memory": LeftOut(
        "pixel rows, residuals",
        "reinterpret_cast<const tile::Words<1>*>(four)->word[0]",
        "tile::load_words<1>(four).word[0]",
        "whose address is in shared memory",
    ),
    "the class of a pixel of an instruction's rows": LeftOut(
        "pixel rows, borders",
        "channels.at(fragment.row + e * ProductRows::DOWN, e",
        "channels.at(fragment.row, e",
        WRONG,
    ),
    "the last step that is not zeros": LeftOut(
        "pixel rows, strides", "c >= LAST_ROW) continue", "c >= 64) continue", WRONG
    ),
    "that steps of zeros are left out": LeftOut(
        "pixel rows, strides",
        "if (slab % SLABS == SLABS - 1 && c >= LAST_ROW) continue;",
        "",
        "more products of a warpgroup than MOST",
    ),
    "the wait for an empty slot": LeftOut(
        "gathered", "        shared.ring.acquire(asked);\n", "", f"that has completed|{WRONG}"
    ),
    "the wait for an empty slot, without copies": LeftOut(
        "gathered, strides", "        shared.ring.acquire(at);\n", "", f"that has completed|{WRONG}"
    ),
    "the wait for a window's copies": LeftOut("gathered", "        copies.wait<AHEAD>();\n", "", f"copies|{WRONG}"),
    "the empty groups behind the last window": LeftOut(
        "gathered", "        copies.commit();\n", "        if (tiles.any()) copies.commit();\n", f"copies|{WRONG}"
    ),
    "the fence behind gathered pixels": LeftOut("gathered", FENCE_AND_BARRIER, BARRIER_OF_WARP, WRONG),
    "the fence behind stored pixels": LeftOut("gathered, strides", FENCE_AND_BARRIER, BARRIER_OF_WARP, WRONG),
    "that all of a warp's share is there": LeftOut("gathered, strides", BARRIER_OF_WARP, "", WRONG, EARLY),
    "that all warps' shares are there": LeftOut(
        "gathered", "full[slot].init(4)", "full[slot].init(1)", f"phase|{WRONG}"
    ),
    "how gathered chunks are exchanged": LeftOut("gathered", " ^ pixel * ROW / 128 % OF_ROW", "", WRONG),
    "the slab of a chunk": LeftOut("gathered slabs", "slab[number / OF_ROW]", "slab[0]", WRONG),
    "gathered pixels outside of the image": LeftOut("gathered", " && static_cast<unsigned>(column) < IN_W", "", WRONG),
    "a chunk past the last channel": LeftOut("gathered, one by one", " && channel() < C", "", WRONG),
    "which gathered columns a window has": LeftOut("gathered, strides", " + window % WINDOWS_ACROSS", "", WRONG),
    "the stride of gathered columns": LeftOut("gathered, strides", "WINDOW_W * STRIDE_W;", "WINDOW_W;", WRONG),
    "the stride of gathered rows": LeftOut("gathered, one by one", "/ WINDOW_W * ROW_STEP", "/ WINDOW_W", WRONG),
    "where a tap's weights begin": LeftOut(
        "gathered slabs", "slab / SLABS * (TAP_BYTES / CHANNEL_BYTES)", "slab / SLABS * C", f"16|{WRONG}"
    ),
    "which channel a byte of the weights is": LeftOut(
        "gathered", "tap * C + c)", "tap * TAP_BYTES + c)", f"{WRONG}|out of"
    ),
    "where channels begin within a word": LeftOut(
        "gathered, strides", "static_cast<unsigned>(first) % 4 * 8", "0", WRONG
    ),
    "the fifth word of a chunk": LeftOut("gathered, one by one", "word < 5; ++word", "word < 4; ++word", WRONG),
    "the release by all warps of a consumer": LeftOut(
        "gathered",
        "(RELEASES == 1 ? is_elected : tile::lane() == 0)",
        "is_elected",
        "wait",
    ),
    "a block's channels": LeftOut("sums", "SPLIT % CHANNEL_TILES * TILE_M", "SPLIT % 1 * TILE_M", WRONG),
}


# Mutants of the gathering lanes are judged by the plans above: most of these are left to the long tests.
OFTEN = {name for name, bug in LEFT_OUT.items() if not bug.plan.startswith("gathered")}
OFTEN |= {"the wait for a window's copies", "the fence behind stored pixels", "the release by all warps of a consumer"}


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(LEFT_OUT, OFTEN))
def test_what_is_left_out_is_found(name: str) -> None:
    check_left_out(PLANS[LEFT_OUT[name].plan], LEFT_OUT[name])


def test_a_launch_waits_for_the_one_before() -> None:
    check_two_waits(plan_of(Conv2d(1, 5, 5, 32, 32, 3, 3, pad=1, quantization=Quantization())))


RUNS = {
    f"{name}-{sanitizer}-{seed}": (name, sanitizer, seed)
    for sanitizer, seed in (("address", LATE), ("thread", LATE), ("thread", EARLY))
    for name in PLANS
}
# The longest of these are left to the long tests.
FAST = {f"{name}-address-{LATE}" for name in PLANS.keys() - {"gathered", "gathered, one by one", "gathered, few slots"}}
FAST |= {f"residuals-thread-{seed}" for seed in (LATE, EARLY)}


@pytest.mark.turns
@pytest.mark.parametrize("run", mostly_slow(RUNS, FAST))
def test_nothing_is_found(run: str) -> None:
    name, sanitizer, seed = RUNS[run]
    check(PLANS[name], sanitizer, seed)  # type: ignore[arg-type]


def check_on(gpu: Device, plan: HaloPlan, images: int = 30) -> None:
    """Check a plan with more images: enough for all SMs, so that rings wrap around."""
    if gpu.target.warpgroup is None:
        pytest.skip(f"{gpu.target.name} has no wgmma")
    check_exact(generator.plan(replace(plan.problem, n=images * plan.problem.n), plan.config, gpu.target), gpu, seed=1)


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in PLANS if name.startswith(("pixel rows", "gathered"))])
def test_plans_for_the_sanitizer(name: str, gpu: Device) -> None:
    check_on(gpu, PLANS[name])


PLANTED = {
    "a pixel past the last is written": Planted(
        "direct", "                if (row >= OUT_H || column >= OUT_W) continue;\n", "", "address", OVERFLOW, WRITE
    ),
    "a word past the input is read": Planted("gathered, one by one", " && at < X_WORDS", "", "address", OVERFLOW, READ),
    "channels past the input are copied": Planted(
        "gathered", " && chunk.channel() + part < C", "", "address", OVERFLOW, READ
    ),
    "a channel past the last is written": Planted(
        "direct",
        "                    if (!WHOLE_TILES && k + h >= K) continue;\n",
        "",
        "address",
        OVERFLOW,
        WRITE,
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str) -> None:
    check_planted(PLANTED[name], PLANS[PLANTED[name].plan])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"groups": 2}, "groups=2"),
        ({"c": 24, "r": 1, "s": 1}, "c=24: pixels of 1x1 layers are gathered by pointwise"),
        ({"c": 4}, "c=4: fewer than 5 channels"),
        ({"c": 5, "h": 7, "w": 7}, "x has 245 bytes: lanes that bring pixels read whole words"),
        ({"layout": "nchw"}, "layout=nchw"),
        ({"quantization": Quantization(w_zero_point=True)}, "w_zero_point"),
        ({"c": 20, "quantization": OF_HALVES}, "c=20 of float16: lanes bring pixels of bytes"),
    ],
)
def test_what_it_does_not_serve(change: dict[str, object], says: str) -> None:
    problem = Conv2d(1, 8, 8, 32, 32, 3, 3, pad=1)
    with pytest.raises(Infeasible, match=says):
        plan_of(replace(problem, **change))  # type: ignore[arg-type]


def test_offsets_of_channels_past_the_last_are_not_read() -> None:
    check(PLANS["pixel rows, borders"], "address", LATE)


def test_rows_at_the_end_have_offsets_of_their_own() -> None:
    plan = plan_of(Conv2d(1, 9, 11, 16, 24, 5, 5, pad=2, quantization=EVERYTHING), rows=4)
    check_exact(plan, CpuDevice(TARGET), 0)


def test_configs_that_make_no_sense() -> None:
    problem = Conv2d(4, 56, 56, 128, 128, 3, 3, pad=1)
    for config, says in (
        ({"rows": 28, "channels": 128}, "registers of a thread for sums: 224; at most 152"),
        ({"rows": 28, "consumers": 3}, "registers of a thread for sums: 112; at most 80"),
    ):
        with pytest.raises(Infeasible, match=says):
            plan_of(problem, **config)
    with pytest.raises(Infeasible, match="bytes of shared memory"):
        plan_of(replace(problem, r=5, s=5, pad=(2, 2, 2, 2)), rows=14)
    with pytest.raises(Infeasible, match="channels of a tile"):
        plan_of(replace(problem, k=48), channels=128)
    with pytest.raises(Infeasible, match="rows of a tile"):
        plan_of(replace(problem, h=6, w=6), rows=12)
    with pytest.raises(Infeasible, match="products of a tile"):
        plan_of(replace(problem, r=8, s=7, c=96, pad=(3, 3, 3, 3)))
    with pytest.raises(Infeasible, match=r"rows=12: with channels=48, no multiple of 64, .*; give a multiple of 8"):
        plan_of(replace(problem, k=48), rows=12, channels=48)
    with pytest.raises(
        Infeasible, match=r"channels=48: 144 are multiplied for the problem's 100; a multiple of 64 .* 128"
    ):
        plan_of(replace(problem, k=100), rows=8, channels=48)
    with pytest.raises(Infeasible, match="channels=16: 64 are multiplied"):
        plan_of(replace(problem, k=64), rows=8, channels=16)
    with pytest.raises(Infeasible, match="registers of a thread for sums: 160; at most 152"):
        plan_of(replace(problem, k=80), rows=24, channels=80)
    for name in ("sm_80", "sm_100a", "sm_120", "gfx942"):
        with pytest.raises(Infeasible, match=f"{name} has no matrix instruction of warpgroups"):
            generator.plan(problem, Halo(4, 2, 64), TARGETS[name])


def test_images_without_halo_are_one_column() -> None:
    """Tiles are eight pixels wide, and these images seven."""
    alone = Conv2d(8, 7, 7, 64, 64, 1, 1)
    assert plan_of(alone).tiles == 8 * 49 / 16 + 0.5
    for change in ({"n": 7}, {"stride": (2, 2)}, {"pad": (1, 0, 0, 0)}, {"r": 3}):
        problem = replace(alone, **change)  # type: ignore[arg-type]
        assert plan_of(problem).tiles == problem.n * -(-problem.oh // 2) * -(-problem.ow // 8)


def test_residuals_come_with_the_one_window_of_a_tile() -> None:
    assert PLANS["pixels"].residual_in_smem
    assert not PLANS["windows"].residual_in_smem


def test_windows_have_the_room_that_is_left() -> None:
    small, large = Conv2d(8, 56, 56, 64, 64, 3, 3, pad=1), Conv2d(8, 56, 56, 128, 64, 3, 3, pad=1)
    assert plan_of(small, rows=14).slots == 8
    assert 2 <= plan_of(large, rows=28).slots < plan_of(large, rows=14).slots < 8
