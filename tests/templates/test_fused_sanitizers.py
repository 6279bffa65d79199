"""Two and three convolutions in one kernel under the sanitizers of the CPU device: only planted bugs are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from mostly_slow import mostly_slow
from random_fused import TILE, fused_plan, fused_problems

from qconv import Conv2d, Quantization, generator
from qconv.generator.families.fused.config import Block
from qconv.generator.families.fused.plan import FusedPlan
from qconv.problem.chain import chain_of
from qconv.targets.target import TARGETS
from tests.templates.test_mma_sanitizers import (
    EARLY,
    LATE,
    OVERFLOW,
    RACE,
    READ,
    WRITE,
    WRONG,
    Planted,
    check,
    check_planted,
)

GIVES = Quantization("int8", "int8", "int8", True, True, False, True, "int32", "relu6")
TAKES = Quantization("int8", "int8", "int8", True, True, True, True, "int32", residual="int8")


def conv(kind: str, c: int, k: int, q: Quantization, side: int = 9) -> Conv2d:
    groups = {"dw": c, "grouped": 2}.get(kind, 1)
    r, stride = 1 if kind == "pw" else 3, 2 if kind == "halved" else 1
    return Conv2d(2, side, side, c, c if kind == "dw" else k, r, r, stride, pad=r // 2, groups=groups, quantization=q)


def plan_of(target: str, kinds: str, c: int = 16, k: int = 24, side: int = 9, **config: int) -> FusedPlan:
    *givers, consumer = kinds.split()
    # Warpgroups do not sum the windows.
    gives, takes = (replace(q, w_zero_point=q.w_zero_point and not config.get("on_wgmma")) for q in (GIVES, TAKES))
    chain = [conv(givers[0], c, 32, gives, side)]
    for kind, channels, q in [*((kind, 32, gives) for kind in givers[1:]), (consumer, k, takes)]:
        chain.append(replace(conv(kind, chain[-1].k, channels, q), h=chain[-1].oh, w=chain[-1].ow))
    tile = TILE if len(chain) == 2 else Block(**vars(TILE), third_m=1, third_n=2)
    made = generator.plan(chain_of(chain), replace(tile, **config), TARGETS[target])
    assert isinstance(made, FusedPlan)
    return made


UNDEFINED = "undefined behaviour"
SM_80, SM_90A = "cpu.sm_80", "cpu.sm_90a"
PLANS = {
    "dw, pw": plan_of(SM_80, "dw pw"),
    "pw, dw": plan_of(SM_80, "pw dw", second_m=2),
    "dense, grouped": plan_of(SM_80, "dense grouped"),
    "dw, pw, shared": plan_of(SM_80, "dw pw", cluster_blocks=2, weights_in_smem=1, second_n=1),
    "dense, pw, in smem": plan_of(SM_80, "dense pw", weights_in_smem=2),
    "dw, pw, teams": plan_of(SM_80, "dw pw", teams=2, weights_in_smem=1),
    "dense, pw, teams, one of them idle": plan_of(SM_80, "dense pw", teams=3, weights_in_smem=1, tile_h=14, tile_w=14),
    "dw, pw, two ways": plan_of(SM_80, "dw pw", side=16),
    "dw, pw, cluster": plan_of(SM_90A, "dw pw", c=32, cluster_blocks=2, weights_in_smem=1, second_n=1),
    "dw, pw, cluster, a ragged share": plan_of(SM_90A, "dw pw", c=48, cluster_blocks=2, weights_in_smem=1, second_n=1),
    "dw, pw, cluster with one tile": plan_of(
        SM_90A, "dw pw", c=32, tile_h=14, tile_w=14, cluster_blocks=2, weights_in_smem=1, second_n=1
    ),
    "dw, pw, fetched in turn": plan_of(SM_90A, "dw pw", weights_in_smem=1, on_wgmma=1),
    "dw, pw, streamed": plan_of(SM_90A, "dw pw", c=32, k=72, warps=16, on_wgmma=1, second_n=1),
    "dw, pw, streamed in a cluster": plan_of(SM_90A, "dw pw", c=32, k=96, cluster_blocks=2, on_wgmma=1, second_n=1),
    "dw, pw, streamed by two": plan_of(
        SM_90A, "dw pw", c=32, k=96, tile_h=14, tile_w=14, warps=8, on_wgmma=1, second_n=1
    ),
    "pw, dense, streamed": plan_of(SM_90A, "pw dense", k=48, on_wgmma=1, second_n=1),
    "dense, pw, subtiles of 24 and 40": plan_of(
        SM_80, "dense pw", c=16, k=40, weights_in_smem=1, first_n=3, second_n=5
    ),
    "dense, pw, warpgroups of 24 and 80": plan_of(
        SM_90A, "dense pw", k=80, weights_in_smem=2, on_wgmma=2, first_n=3, second_n=10
    ),
    "dense, pw, warpgroups": plan_of(SM_90A, "dense pw", teams=2, weights_in_smem=2, on_wgmma=2, first_n=4),
    "dense, dw, warpgroups": plan_of(SM_90A, "dense dw", tile_h=2, weights_in_smem=1, on_wgmma=1, first_n=4),
    "pw, dense, warpgroups": plan_of(SM_90A, "pw dense", weights_in_smem=1, on_wgmma=1),
    "pw, dense, eights": plan_of(SM_90A, "pw dense", c=40, tile_w=8, weights_in_smem=1, on_wgmma=1),
    "halved, pw": plan_of(SM_80, "halved pw", weights_in_smem=1),
    "halved, pw, eights": plan_of(
        SM_90A, "halved pw", c=40, tile_w=8, weights_in_smem=2, on_wgmma=2, first_n=4, second_n=4
    ),
    "bytes": plan_of(SM_80, "dense pw", c=11, k=21),
    "registers": plan_of("cpu.sm_75", "dense dense"),
    "mfma": plan_of("cpu.gfx942", "pw dense", first_n=1, second_n=1),
    "wmma, copies of operands": plan_of("cpu.gfx1100", "dw pw", second_n=1),
    "pw, dw, pw": plan_of(SM_80, "pw dw pw", weights_in_smem=2),
    "pw, dw, dense": plan_of(SM_80, "pw dw dense"),
    "pw, dw, pw, teams": plan_of(SM_90A, "pw dw pw", teams=2, weights_in_smem=2, on_wgmma=2),
    "pw, dw, pw, streamed": plan_of(SM_90A, "pw dw pw", k=72, warps=16, on_wgmma=1, third_n=1),
    "pw, dense, pw, all of warpgroups": plan_of(SM_90A, "pw dense pw", weights_in_smem=3, on_wgmma=3),
    "dw, pw, dw": plan_of("cpu.gfx942", "dw pw dw"),
}
FAST_PLANS, FAST_PLANTED = {"dw, pw"}, {"no barrier between the two"}


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(PLANS, FAST_PLANS))
def test_nothing_is_found_by_address(name: str) -> None:
    # A late copy without a wait is never performed, so copies of an idle team show only in early launches.
    check(PLANS[name], "address", EARLY if "idle" in name else LATE)


@pytest.mark.turns
@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_found_by_thread(name: str) -> None:
    check(PLANS[name], "thread", EARLY)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", [SM_80, "cpu.sm_75", "cpu.gfx942", "cpu.gfx1201"])
def test_nothing_is_found_in_random_problems(name: str) -> None:
    for index, problem in enumerate(fused_problems(6, 6, TARGETS[name])):
        check(fused_plan(problem, TARGETS[name], index), ("address", "thread")[index % 2], seed=index)


KERNELS = ("one_tile", "persistent", "teams", "cluster")
# Features that some plan of the list must have, because a bug planted there shows nowhere else.
HAS: dict[str, Callable[[FusedPlan], bool]] = {
    "more tiles than teams": lambda plan: plan.tiles > plan.grid_teams,
    "fewer tiles than teams": lambda plan: plan.tiles < plan.grid_teams,
    "as many tiles as teams": lambda plan: plan.tiles == plan.grid_teams,
    "a ragged share of a depthwise layer": lambda plan: any(
        layer.kind == "depthwise" and layer.divided and layer.problem.k % layer.block_k != 0
        for layer in plan.layers.values()
    ),
    "a ragged share of a matrix": lambda plan: any(
        layer.kind == "matrix" and layer.divided and layer.problem.k % layer.block_k != 0
        for layer in plan.layers.values()
    ),
    **{
        f"{kind} {attribute}": lambda plan, kind=kind, attribute=attribute: any(
            layer.kind == kind and getattr(layer, attribute) for layer in plan.layers.values()
        )
        for kind, attribute in (
            *(("depthwise", attribute) for attribute in ("two_ways", "early_rows", "fills")),
            *(("matrix", attribute) for attribute in ("by_turns", "gathers", "fills", "divided")),
            *(("warpgroup", attribute) for attribute in ("fills", "divided", "buffers")),
        )
    },
    "a matrix with weights in shared memory": lambda plan: any(
        layer.kind == "matrix" and layer.in_kernel.weights_in_smem for layer in plan.layers.values()
    ),
    **{f"kernel {name}": lambda plan, name=name: plan.structure == name for name in KERNELS},
}


@pytest.mark.parametrize("name", HAS)
def test_some_plan_has(name: str) -> None:
    assert any(HAS[name](plan) for plan in PLANS.values()), f"no plan of the list has {name}: add one"


# The end of the first layer's `Layout`; that of the second is not followed by `source_of`.
LAYOUT = """    static constexpr int STEP = INTERLEAVED ? 1 : STRIDE_W;  // pixels from a window to the next
    static_assert(ROW >= PHASES * PHASE_COLUMNS, "ROW must hold all phases");

    static constexpr __device__ int column(int i) { return i % PHASES * PHASE_COLUMNS + i / PHASES; }
};

__device__ __forceinline__ Source& source_of("""
PLANTED = {
    "a first tile that does not exist": Planted(
        "dense, pw, teams, one of them idle",
        "    if (team.first_tile() < TILES) {",
        "    {",
        "address",
        OVERFLOW,
        READ,
        (EARLY,),  # a late copy without a wait is never performed
    ),
    "a share that ends past the last channel": Planted(
        "dw, pw, cluster, a ragged share",
        "return DIVIDED && begin_k(team) + BLOCK_K < K ? begin_k(team) + BLOCK_K : K;",
        "return DIVIDED ? begin_k(team) + BLOCK_K : K;",
        "address",
        OVERFLOW,
        READ,
    ),
    "no barrier between the two": Planted(
        "dw, pw", "        tile::barrier();  // the second's input is there\n", "", "thread", RACE, "conv2d_conv2d"
    ),
    "no barrier between tiles": Planted(
        "pw, dw",
        "        tile::barrier();  // the input",
        "        // the input",
        "thread",
        RACE,
        "conv2d_conv2d",
        (3,),
    ),
    "no wait for the input": Planted(
        "pw, dw",
        "            team.copies.wait<WEIGHTS_BEHIND_INPUT>();\n",
        "",
        "address",
        "runtime error",
        "more asynchronous copies than COPIES_IN_FLIGHT",
        (2,),
    ),
    "no wait for the weights": Planted(
        "dw, pw, shared", "if constexpr (AWAITS_COPIES) team.copies.wait<0>();", "", "address", WRONG, "", (LATE,)
    ),
    "no wait for what was fetched": Planted(
        "dw, pw, cluster",
        "        if (is_first_tile) second.await_weights();\n",
        "",
        "address",
        "runtime error",
        "ends while bytes are on their way to or from its shared memory",
        (LATE,),
    ),
    "a wait for the second tile's weights": Planted(
        "dw, pw, fetched in turn",
        "if (is_first_tile) second.await_weights();",
        "if (!is_first_tile) second.await_weights();",
        "address",
        WRONG,
        "",
        (LATE,),
    ),
    "slabs come over one that others use": Planted(
        "dw, pw, streamed by two", "% USERS != USERS - 1) return;", "% USERS != 0) return;", "thread", RACE
    ),
    "the last slab of a tile is followed by none": Planted(
        "dw, pw, streamed",
        "if (next >= BLOCK_SLABS) {",
        "if (next >= BLOCK_SLABS) {\n            return;",
        "address",
        "runtime error",
        "wait for bytes at line",
    ),
    "another share's slabs": Planted(
        "dw, pw, streamed in a cluster",
        "args.fragments + (first_slab(team) + index)",
        "args.fragments + index",
        "address",
        WRONG,
    ),
    "a slab before it is there": Planted(
        "dw, pw, streamed",
        "    smem.mbarrier[buffer].wait_for_phase(number / BUFFERS);\n",
        "",
        "address",
        "runtime error",
        "bytes are expected before those of the last phase have come",
        (LATE,),
    ),
    "sent before it is expected": Planted(
        "dw, pw, cluster",
        "        tile::wait_for_cluster();  // the other blocks expect the part, and have used the last tile's\n",
        "",
        "address",
        "runtime error",
        "nobody has initialised an mbarrier there",
        (LATE,),
    ),
    "the second tile's bytes are not expected": Planted(
        "dw, pw, cluster",
        "            if (tile::thread() == 0) shared.mbarrier.expect_next(part.bytes_of_others());\n",
        "",
        "address",
        "runtime error",
        "wait for bytes at line",
    ),
    "another's part is sent": Planted(
        "dw, pw, cluster",
        "first(cluster_block * PART_CHUNKS)",
        "first((1 - cluster_block) * PART_CHUNKS)",
        "address",
        WRONG,
    ),
    "a slab of another share": Planted(
        "dw, pw, shared", "slab = first_slab(team) + index;", "slab = index;", "address", WRONG
    ),
    "a share past the last": Planted(
        "dw, pw, shared", "if (ALL_SLABS % BLOCK_SLABS != 0 && slab >= ALL_SLABS) return;", "", "address", OVERFLOW
    ),
    "no barrier of the team": Planted(
        "dw, pw, teams",
        "        tile::barrier_of_team(team.number);  // the second's input is there\n",
        "",
        "thread",
        RACE,
        "conv2d_conv2d",
    ),
    "no barrier behind the weights": Planted(
        "dw, pw, teams", "    tile::barrier();  // the weights are there\n", "", "thread", RACE, "conv2d_conv2d"
    ),
    "the place of another team": Planted(
        "dw, pw, teams", "first(tile::block_x() * TEAMS + number)", "first(tile::block_x() * TEAMS)", "address", WRONG
    ),
    "rows past a tile's last pixel are read": Planted(
        "dense, dw, warpgroups", "if (row >= a.rows) continue;", "", "thread", RACE, "conv2d_conv2d"
    ),
    "a gap between rows that is not skipped": Planted(
        "pw, dense, warpgroups",
        "return !SPACED || position % SOURCE_COLUMNS < GRID_COLUMNS;",
        "return true;",
        "address",
        WRONG,
    ),
    "half of the channels of a step": Planted(
        "pw, dense, eights",
        "for (int word = 0; word < 8; ++word) {",
        "for (int word = 0; word < 4; ++word) {",
        "address",
        WRONG,
    ),
    "eights without the pixels between them": Planted(
        "pw, dense, eights", "EIGHTS_STRIDE * 16, POSITIONS", "128, POSITIONS", "address", WRONG
    ),
    "columns of stride 2 one after the other": Planted(
        "halved, pw, eights",
        LAYOUT,
        LAYOUT.replace("return i % PHASES * PHASE_COLUMNS + i / PHASES;", "return i;"),
        "address",
        WRONG,
    ),
    "windows of stride 2 two columns apart": Planted(
        "halved, pw",
        LAYOUT,
        LAYOUT.replace("STEP = INTERLEAVED ? 1 : STRIDE_W;", "STEP = STRIDE_W;"),
        "address",
        WRONG,
    ),
    "the next input over this one": Planted(
        "pw, dw",
        "        layers.run_first(out_tile);\n",
        "        layers.prefetch_input(index + GRID_TEAMS);\n        layers.run_first(out_tile);\n",
        "address",
        WRONG,
        "",
        (3,),
    ),
    "a row past the image is read": Planted(
        "dw, pw", "INSIDE || static_cast<unsigned>(first_row + down) < IN_H;", "true;", "address", OVERFLOW, READ
    ),
    "a line past the image is asked for": Planted(
        "dw, pw", "if (row >= IN_H || byte >= IN_W * C) continue;", "", "address", OVERFLOW, READ
    ),
    "a pixel past the image is written": Planted(
        "pw, dw", "if (exists(down, across)) write(", "write(", "address", OVERFLOW, WRITE
    ),
    "padding is what lies beyond the image": Planted(
        "pw, dw", "words.word[i] = is_padding ? padding : ", "words.word[i] = ", "address", WRONG
    ),
    "a channel past the last is written": Planted(
        "bytes",
        "if (HAS_K_REMAINDER && k + i >= K) continue;\n            write(to",
        "write(to",
        "address",
        OVERFLOW,
        WRITE,
    ),
    "a subtile past the last channel is copied": Planted(
        "registers",
        "PER_PIXEL = (C * BYTES + WIDTH - 1) / WIDTH;",
        "PER_PIXEL = (C * BYTES + WIDTH - 1) / WIDTH + 1;",
        "address",
        UNDEFINED,
    ),
    "no barrier before the third": Planted(
        "pw, dw, pw",
        "        tile::barrier();  // the third's input is there\n",
        "",
        "thread",
        RACE,
        "conv2d_conv2d_conv2d",
    ),
    "the second's pixels are where the third's are": Planted(
        "pw, dw, dense", "return mid2_row() * MID_STRIDE_H", "return row * MID_STRIDE_H", "address", WRONG
    ),
    "the third's padding is the second's": Planted(
        "pw, dw, dense", "third.padding()", "second.padding()", "address", WRONG
    ),
    "a word of weights past the last": Planted(
        "dw, pw", "if (index >= ALL_SLABS * STEPS * SET_WORDS) return;", "", "address", OVERFLOW
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(PLANTED, FAST_PLANTED))
def test_a_planted_bug_is_found(name: str) -> None:
    check_planted(PLANTED[name], PLANS[PLANTED[name].plan])
