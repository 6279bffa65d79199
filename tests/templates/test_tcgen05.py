"""The page `tcgen05` on the CPU device: its waits, signals and fences, removed one by one; errors that the emulation of
tensor memory reports; the sanitizers; overlapping launches."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from mostly_slow import mostly_slow

from qconv import Conv2d, Quantization, generator
from qconv.errors import Infeasible
from qconv.generator.families.tcgen05 import Tcgen05, Tcgen05Plan
from qconv.targets.target import TARGETS
from tests.templates.test_fences import LATE, WAIT, LeftOut, check_left_out, finding, one_after_the_other, overlapped
from tests.templates.test_mma_sanitizers import OVERFLOW, RACE, WRITE, WRONG, Planted, check, check_planted
from tests.templates.test_wgmma import ADDED, EARLY, EVERYTHING, SUM

TARGET = TARGETS["cpu.sm_100a"]


def plan_of(problem: Conv2d, **config: int) -> Tcgen05Plan:
    defaults = {"pixels": 128, "channels": 32, "writers": 1, "slab": 64, "slots": 2}
    made = generator.plan(problem, Tcgen05(**(defaults | config)), TARGET)
    assert isinstance(made, Tcgen05Plan)
    return made


# Blocks have three tiles: the second use of an accumulator and of every slot.
PLANS = {
    "channels": plan_of(Conv2d(2, 13, 13, 144, 136, 2, 2, pad=1, quantization=ADDED), channels=64, writers=2, slab=128),
    "pixels": plan_of(Conv2d(3, 20, 20, 48, 40, 3, 2, pad=1, quantization=EVERYTHING), pixels=256, slots=3),
    "odd": plan_of(Conv2d(4, 20, 20, 32, 21, 1, 1, quantization=ADDED), slots=3),
    "sums": plan_of(Conv2d(3, 20, 19, 64, 48, 1, 1, quantization=SUM), channels=64, writers=2, slots=4),
}


@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_left_out(name: str) -> None:
    text = generator.render(PLANS[name]).text
    assert PLANS[name].tiles > 2 * TARGET.processors
    assert [finding(PLANS[name], text, seed) for seed in (LATE, EARLY)] == [None, None]


AFTER, BEFORE = "tcgen05.fence::after_thread_sync", "tcgen05.fence::before_thread_sync"
COMMIT = "            tile::commit_products(shared.slabs.empty[at.slot]);\n"
RELEASE = (
    "                tile::fence_before_thread_sync();\n"
    "                tile::warp_barrier();  // all lanes have their sums\n"
)
TAKE = "            tile::wait_for_sums(sums);\n"

LEFT_OUT = {
    "the wait for a slab": LeftOut("channels", "            shared.slabs.wait(at);\n", "", f"bytes|{WRONG}"),
    "the wait for the sums of a tile": LeftOut(
        "channels", "        shared.accumulators.wait(accumulator);\n", "", f"that has completed|{WRONG}"
    ),
    "the wait for an empty accumulator": LeftOut(
        "channels", "        shared.accumulators.acquire(accumulator);\n", "", f"that has completed|{WRONG}", EARLY
    ),
    "the other accumulator": LeftOut(
        "channels", "tensor_memory + accumulator.slot * ACCUMULATOR;", "tensor_memory;", WRONG
    ),
    "that the tensor core empties a slot": LeftOut(
        "channels",
        COMMIT,
        "            tile::fence_before_thread_sync();\n            shared.slabs.empty[at.slot].arrive();\n",
        WRONG,
    ),
    "the word that a slot is empty": LeftOut("channels", COMMIT, "", "wait"),
    "the word that an accumulator is full": LeftOut(
        "channels", "        shared.accumulators.commit(accumulator);\n", "", "wait"
    ),
    "that an accumulator is full behind its last slab": LeftOut(
        "channels",
        "        shared.accumulators.commit(accumulator);\n",
        "",
        WRONG,
        LATE,
        (
            "            const Operand pixels(",
            "            if (slab == SLABS - 1) shared.accumulators.commit(accumulator);\n"
            "            const Operand pixels(",
        ),
    ),
    "that the first products do not add": LeftOut(
        "odd", "                             slab + k > 0);", "true);", WRONG
    ),
    "the wait for loads": LeftOut("channels", TAKE, "", "loads from tensor memory are under way"),
    "that a tile's sums are in registers": LeftOut(
        "channels",
        TAKE,
        RELEASE + "                if (tile::lane() == 0) shared.accumulators.release(accumulator);\n" + TAKE,
        "loads from tensor memory are under way",
    ),
    "the releases of all warps but one": LeftOut(
        "channels", "open(4 * WRITERS);  // the warps that write", "open(1);", f"that has completed|{WRONG}", EARLY
    ),
    "the release of an accumulator": LeftOut(
        "channels", "                if (tile::lane() == 0) shared.accumulators.release(accumulator);\n", "", "wait"
    ),
    "the fence behind the wait for a slab": LeftOut(
        "channels",
        "            tile::fence_after_thread_sync();\n            const Operand",
        "            const Operand",
        AFTER,
    ),
    "the fence behind the wait for sums": LeftOut(
        "channels",
        "        full[state.slot].wait_for_phase(state.phase);\n        tile::fence_after_thread_sync();\n",
        "        full[state.slot].wait_for_phase(state.phase);\n",
        AFTER,
    ),
    "the fence before the release": LeftOut(
        "channels",
        "                tile::fence_before_thread_sync();\n                tile::warp_barrier",
        "tile::warp_barrier",
        BEFORE,
    ),
    "the fence before where tensor memory lies is told": LeftOut(
        "channels", "    tile::fence_before_thread_sync();\n    tile::barrier();\n", "    tile::barrier();\n", BEFORE
    ),
    "the fence before the last barrier": LeftOut(
        "channels",
        "    tile::fence_before_thread_sync();\n    tile::barrier();  //",
        "    tile::barrier();  //",
        BEFORE,
    ),
    "the fence before tensor memory is freed": LeftOut(
        "channels",
        "    tile::fence_after_thread_sync();\n    if (warp == MULTIPLIES) tile::free",
        "    if (warp == MULTIPLIES) tile::free",
        AFTER,
    ),
    "the barrier behind the allocation": LeftOut(
        "channels",
        "    tile::fence_before_thread_sync();\n    tile::barrier();\n",
        "",
        "nobody has initialised|allocated",
    ),
    "the barrier before tensor memory is freed": LeftOut(
        "channels", "    tile::barrier();  // all sums are in registers\n", "", f"{AFTER}|freed while products"
    ),
    "that tensor memory is freed": LeftOut(
        "channels",
        "    if (warp == MULTIPLIES) tile::free_tensor_memory<COLUMNS>(tensor_memory);\n",
        "",
        "tensor memory that nobody has freed",
    ),
    "how much of tensor memory is freed": LeftOut(
        "channels", "tile::free_tensor_memory<COLUMNS>", "tile::free_tensor_memory<COLUMNS / 2>", "not what was"
    ),
    "an accumulator's columns": LeftOut(
        "pixels",
        "allocate_tensor_memory<COLUMNS>",
        "allocate_tensor_memory<COLUMNS / 2>",
        "outside of what is allocated",
    ),
    "where tensor memory begins": LeftOut(
        "channels",
        "    const unsigned tensor_memory = shared.tensor_memory;\n",
        "    const unsigned tensor_memory = 0;\n",
        "outside of what is allocated|not what was allocated",
    ),
    "that the last slots are emptied": LeftOut("channels", "    shared.slabs.drain(at);\n", "", "is under way"),
    "the lanes of a warp": LeftOut(
        "channels", "ACCUMULATOR + (first_lane << 16)", "ACCUMULATOR", "lanes that this warp does not reach"
    ),
    "the second rows of a tile": LeftOut("pixels", "pixels.behind(part * ROWS * SLAB + k)", "pixels.behind(k)", WRONG),
    "the class of a pixel": LeftOut("pixels", "if (border >= 0) channel.offset", "if (false) channel.offset", WRONG),
    "how a factor is swizzled": LeftOut("channels", "SLAB == 128 ? 2 : 4;", "6;", "not swizzled"),
    "by how much a factor is swizzled": LeftOut("channels", "SLAB == 128 ? 2 : 4;", "4;", WRONG),
    "the version of a descriptor": LeftOut("channels", "1ull << 46", "0ull << 46", "version 1"),
    "the distance of eight rows": LeftOut("channels", "EIGHT_ROWS = 8 * SLAB", "EIGHT_ROWS = 4 * SLAB", WRONG),
    "the sums' type": LeftOut("channels", "KIND = 2u << 4", "KIND = 1u << 4", "32-bit integers"),
    "the columns of a product": LeftOut("channels", "TILE_N / 8u << 17", "TILE_N / 16u << 17", WRONG),
    "its rows": LeftOut("channels", "ROWS / 16u << 24", "ROWS / 32u << 24", "other than 128 rows"),
    "that it has sums of all bits": LeftOut("channels", "KIND = 2u << 4", "KIND = 1u << 3 | 2u << 4", "another kind"),
    "that a block allocates once": LeftOut(
        "channels",
        "    if (warp == MULTIPLIES) tile::allocate",
        "    if (warp == MULTIPLIES) tile::allocate_tensor_memory<COLUMNS>(&shared.tensor_memory);\n"
        "    if (warp == MULTIPLIES) tile::allocate",
        "has relinquished it",
    ),
    "the strips of a tile": LeftOut(
        "channels", "sums_at + strip * STRIP, sums", "sums_at + 512 - STRIP / 2, sums", "outside of what is allocated"
    ),
    "the signs of x": LeftOut("pixels", "(X_SIGNED ? 1u : 0u)", "1u", WRONG),
    "the signs of w": LeftOut("pixels", "(W_SIGNED ? 1u : 0u)", "0u", WRONG),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_is_found(name: str) -> None:
    check_left_out(PLANS[LEFT_OUT[name].plan], LEFT_OUT[name])


def test_a_launch_waits_for_the_one_before() -> None:
    layer = plan_of(Conv2d(1, 5, 5, 32, 32, 3, 3, pad=1, quantization=Quantization()))
    text = generator.render(layer).text
    want = one_after_the_other(layer)
    for seed in (LATE, EARLY):
        assert all(map(np.array_equal, overlapped(layer, text, seed), want))
    (wait,) = re.finditer(re.escape(WAIT), text)
    found = overlapped(layer, text[: wait.start()] + text[wait.end() :], LATE)
    assert not any(map(np.array_equal, found[1:], want[1:]))


RUNS = {
    f"{name}-{sanitizer}-{seed}": (name, sanitizer, seed)
    for sanitizer, seed in (("address", LATE), ("thread", LATE), ("thread", EARLY))
    for name in PLANS
}
FAST = {f"{name}-address-{LATE}" for name in PLANS} | {f"channels-thread-{seed}" for seed in (LATE, EARLY)}


@pytest.mark.turns
@pytest.mark.parametrize("run", mostly_slow(RUNS, FAST))
def test_nothing_is_found(run: str) -> None:
    name, sanitizer, seed = RUNS[run]
    check(PLANS[name], sanitizer, seed)  # type: ignore[arg-type]


PLANTED = {
    "a channel past the last is written": Planted(
        "odd", "        if (!WHOLE_TILES && k + at >= K) return;\n", "", "address", OVERFLOW
    ),
    "a pixel past the last is written": Planted(
        "pixels", "    if (pixel >= PIXELS) return;\n", "", "address", OVERFLOW, WRITE
    ),
    "an accumulator is released while lanes load": Planted(
        "channels", "                tile::warp_barrier();  // all lanes have their sums\n", "", "thread", RACE
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
        ({"c": 24}, "c=24: TMA copies multiples of 16 bytes per pixel"),
        ({"layout": "nchw"}, "layout=nchw"),
        ({"quantization": Quantization(w_zero_point=True)}, "w_zero_point"),
    ],
)
def test_what_it_does_not_serve(change: dict[str, object], says: str) -> None:
    problem = Conv2d(1, 8, 8, 32, 32, 3, 3, pad=1)
    with pytest.raises(Infeasible, match=says):
        plan_of(replace(problem, **change))  # type: ignore[arg-type]


def test_configs_that_make_no_sense() -> None:
    problem = Conv2d(4, 14, 14, 128, 128, 3, 3, pad=1)
    for config, says in (
        ({"writers": 2}, "divide the tile's 1 strips of 32 channels evenly; writers=1 serves it"),
        ({"channels": 96, "writers": 2}, "3 strips"),
        ({"pixels": 256, "channels": 192}, "columns of tensor memory for 2 accumulators: 768; at most 512"),
        ({"pixels": 256, "channels": 128, "slab": 128, "slots": 6}, "bytes of shared memory"),
        ({"channels": 192, "slab": 128, "slots": 6}, "bytes of shared memory"),
    ):
        with pytest.raises(Infeasible, match=says):
            plan_of(problem, **config)
    with pytest.raises(Infeasible, match="bytes of a slab"):
        plan_of(replace(problem, c=64), slab=128)
    with pytest.raises(Infeasible, match="channels of a tile"):
        plan_of(replace(problem, k=32), channels=64)
    with pytest.raises(Infeasible, match="pixels of a tile"):
        plan_of(replace(problem, n=1, h=8, w=8), pixels=256)
    for name in ("sm_90a", "sm_103a", "sm_120", "gfx942"):
        with pytest.raises(Infeasible, match=f"{name} has no products of bytes in tensor memory"):
            generator.plan(problem, Tcgen05(128, 32, 1, 128, 2), TARGETS[name])


@pytest.mark.parametrize(
    ("pixels", "channels", "columns"), [(128, 32, 64), (128, 96, 256), (128, 192, 512), (256, 32, 128), (256, 128, 512)]
)
def test_columns_of_tensor_memory(pixels: int, channels: int, columns: int) -> None:
    problem = Conv2d(8, 14, 14, 128, 256, 3, 3, pad=1)
    assert plan_of(problem, pixels=pixels, channels=channels).columns == columns
