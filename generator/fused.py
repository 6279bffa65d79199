"""The `fused` family: two convolutions in one kernel. What lies between them stays in shared memory: a block computes
of it what a tile of the second's outputs looks at, all channels of it, and so nothing twice but what tiles share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.fused import FusedConv2d
from qconv.generator.convolution import input_span, pads_with_zero_point
from qconv.generator.plan import Config, Constant, Launch, Plan, at_most, ceil_div, check_choices
from qconv.generator.stages import Share, chunks, is_depthwise, is_piece, plane, stage_plan
from qconv.generator.tiles import RESIDENTS_SAYS, check_residents
from qconv.problem import Conv2d
from qconv.target import Target


@dataclass(frozen=True)
class Fused(Config):
    family: ClassVar[str] = "fused"
    tile_h: int  # output rows of a block
    tile_w: int  # output columns of a block
    warps: int
    residents: int  # blocks that a multiprocessor holds at a time
    first_m: int  # of the first convolution: atoms of pixels of a warp; for depthwise, rows of pixels of a thread
    first_n: int  # atoms of channels of a warp; for depthwise, fours of channels of a thread
    second_m: int  # the same of the second
    second_n: int


CHOICES: dict[str, tuple[int, ...]] = {
    "tile_h": (2, 4, 7, 8, 14),
    "tile_w": (7, 8, 14, 16),
    "warps": (4, 8),
    "residents": (1, 2, 3, 4, 6),
    "first_m": (1, 2, 4),
    "first_n": (1, 2, 4, 8),
    "second_m": (1, 2, 4),
    "second_n": (1, 2, 4, 8),
}
# The pieces of a warp or a thread that serve best.
LIKELY: dict[str, tuple[int, ...]] = {
    "tile_h": (4, 7, 8),
    "tile_w": (7, 8, 14),
    "residents": (1, 2, 4),
    "first_m": (2, 4),
    "second_m": (2, 4),
}


def configs(problem: FusedConv2d, target: Target, choices: dict[str, tuple[int, ...]]) -> Iterator[Config]:
    """Tiles that fit shared memory, so many blocks at a time, and pieces that are neither tiny nor huge."""
    pieces = []
    for stage, conv in (("first", problem.first), ("second", problem.second)):
        every = itertools.product(choices[f"{stage}_m"], choices[f"{stage}_n"])
        pieces.append([(m, n) for m, n in every if is_piece(conv, m, n, target)])
    for tile_h, tile_w, warps, residents in itertools.product(*(choices[n] for n in list(CHOICES)[:4])):
        try:
            _geometry(problem, tile_h, tile_w, warps * target.warp_size, residents, target)
        except Infeasible:
            continue
        for (first_m, first_n), (second_m, second_n) in itertools.product(*pieces):
            yield Fused(tile_h, tile_w, warps, residents, first_m, first_n, second_m, second_n)


@dataclass(frozen=True)
class Geometry:
    mid: tuple[int, int]  # pixels of the first convolution that a tile needs
    planes: tuple[int, int, int, int]  # chunks and pixels of the input and of what lies between, in shared memory
    smem_bytes: int


@lru_cache(maxsize=1024)
def _geometry(problem: FusedConv2d, tile_h: int, tile_w: int, threads: int, residents: int, target: Target) -> Geometry:
    first, second = problem.first, problem.second
    for name, side, size in (("tile_h", tile_h, second.oh), ("tile_w", tile_w, second.ow)):
        at_most(side, max(min(CHOICES[name]), 2 * size - 1), f"{name} (the problem has {size})")
    mid = input_span(second, tile_h, tile_w)
    rows, columns = input_span(first, *mid)
    # A depthwise layer reads the image itself.
    in_chunks, in_plane = (0, 0) if is_depthwise(first) else (chunks(first.c), plane(rows * columns))
    mid_chunks, mid_plane = chunks(first.k), plane(mid[0] * mid[1])
    smem_bytes = 16 * (in_chunks * in_plane + mid_chunks * mid_plane)
    check_residents(residents, threads, smem_bytes, 40, target)
    return Geometry(mid, (in_chunks, in_plane, mid_chunks, mid_plane), smem_bytes)


def plan(problem: FusedConv2d, config: Fused, target: Target) -> Plan:
    check_choices(config, CHOICES)
    second, threads = problem.second, config.warps * target.warp_size
    at_most(threads, target.threads_per_block, "threads of a block")
    geometry = _geometry(problem, config.tile_h, config.tile_w, threads, config.residents, target)
    in_chunks, in_plane, mid_chunks, mid_plane = geometry.planes
    shares = {
        "first": Share("first", *geometry.mid, config.first_m, config.first_n),
        "second": Share("second", config.tile_h, config.tile_w, config.second_m, config.second_n),
    }
    stages = {name: stage_plan(getattr(problem, name), share, target) for name, share in shares.items()}
    # A third can be computed again or spilled; beyond that ptxas 13.0 loses pointers, and kernels read address 0.
    words = 2 * max(stage.roles["words"] for stage in stages.values()) // 3
    check_residents(config.residents, threads, geometry.smem_bytes, words, target)
    # Of what lies between the two, some is padding.
    stages["first"] = replace(stages["first"], roles=stages["first"].roles | {"fills": any(second.pad)})
    tiles_h, tiles_w = ceil_div(second.oh, config.tile_h), ceil_div(second.ow, config.tile_w)
    tiles = second.n * tiles_h * tiles_w
    at_most(tiles, 2**30, "tiles")
    places = min(tiles, config.residents * target.processors)
    loads_input = not is_depthwise(problem.first)
    constants = {
        "The config.": (
            Constant("TILE_H", config.tile_h, "output rows of a block"),
            Constant("TILE_W", config.tile_w, "output columns of a block"),
            Constant("RESIDENTS", config.residents, RESIDENTS_SAYS),
        ),
        "What follows.": (
            Constant("WARP_SIZE", target.warp_size),
            Constant("THREADS", threads),
            Constant("TILES_H", tiles_h),
            Constant("TILES_W", tiles_w),
            Constant("TILES", tiles),
            Constant("PLACES", places, "blocks, which have tiles in turn"),
            Constant("MID_STRIDE_H", second.stride[0]),
            Constant("MID_STRIDE_W", second.stride[1]),
            Constant("MID_PAD_TOP", second.pad[0]),
            Constant("MID_PAD_LEFT", second.pad[1]),
            *((Constant("IN_CHUNKS", in_chunks), Constant("IN_PLANE", in_plane)) if loads_input else ()),
            Constant("MID_CHUNKS", mid_chunks, "of 16 channels"),
            Constant("MID_PLANE", mid_plane, "pixels of a chunk"),
            Constant("SMEM_BYTES", geometry.smem_bytes),
            *_copies_in_flight(stages["first"], threads),
        ),
    }
    wants = {*stages["first"].wants, *stages["second"].wants}
    if loads_input and stages["first"].roles["asynchronous"]:
        wants |= {"copies", "fill"} if pads_with_zero_point(problem.first) else {"copies"}
    main = Launch("conv2d_conv2d", (places, 1, 1), threads, geometry.smem_bytes)
    return Plan(
        problem=problem,
        config=config,
        target=target,
        page="fused/page.j2",
        constants=constants,
        launches=(*stages["first"].launches, *stages["second"].launches, main),
        fields=stages["first"].fields + stages["second"].fields,
        alignment={
            "x": stages["first"].alignment["x"],
            "w1": 1,
            "w2": 1,
            **{name: n for name, n in stages["second"].alignment.items() if name != "w"},
        },
        aliases={},
        roles={"loads_input": loads_input, "kinds": {stage.roles["kind"] for stage in stages.values()}},
        wants=tuple(sorted(wants)),
        stages=stages,
    )


def _copies_in_flight(first: Plan, threads: int) -> tuple[Constant, ...]:
    """The CPU device keeps a thread's copies in a queue."""
    if first.target.vendor != "cpu" or first.roles["kind"] == "depthwise" or not first.roles["asynchronous"]:
        return ()
    of = {c.name: c.value for c in first.constants["What follows."]}
    of_row = of["SOURCE_COLUMNS"] * ceil_div(first.problem.inputs[0].shape[3], of["WIDTH"])
    across = min(of_row, threads)
    pieces = ceil_div(of_row, across) * ceil_div(of["SOURCE_ROWS"], threads // across)
    return (Constant("COPIES_IN_FLIGHT", pieces, "of a thread"),)


def cost(plan: Plan) -> float:
    """About how long the launch takes, in clocks of a multiprocessor."""
    config, problem, target = plan.config, plan.problem, plan.target
    assert isinstance(config, Fused)
    assert isinstance(problem, FusedConv2d)
    constant = {c.name: c.value for c in plan.constants["What follows."]}
    work = {name: _work(stage, constant["THREADS"]) for name, stage in plan.stages.items()}
    turns, places = ceil_div(constant["TILES"], constant["PLACES"]), constant["PLACES"]
    if target.vendor == "cpu":  # one thread after the other
        return constant["TILES"] * sum(work.values())
    held = min(config.residents, ceil_div(places, target.processors))
    tile_bytes = problem.io_bytes / constant["TILES"]
    # So few instructions a clock as the warps allow: each waits for its own.
    rate = min(1.0, held * config.warps / 16)
    words = max(stage.roles["words"] for stage in plan.stages.values())
    if words * config.residents * constant["THREADS"] > target.registers_per_sm:  # some are spilled
        rate /= 1.5
    return turns * (max(held * sum(work.values()) / rate, held * tile_bytes / 24) + 600) + 2500


def _work(stage: Plan, threads: int) -> float:
    """Clocks of a multiprocessor for one tile."""
    problem, constant = stage.problem, {c.name: c.value for c in stage.constants["What follows."]}
    assert isinstance(problem, Conv2d)
    own = {c.name: c.value for c in stage.constants["The config."]}
    sums = 1 + problem.quantization.w_zero_point
    if stage.roles["kind"] == "depthwise":
        places = ceil_div(constant["GRID_ROWS"], own["ROWS"]) * ceil_div(constant["GRID_COLUMNS"], own["COLUMNS"])
        outputs = own["ROWS"] * own["COLUMNS"] * own["VECTOR"]
        across = min(constant["VECTORS"], threads)
        turns = ceil_div(places, threads // across) * ceil_div(constant["VECTORS"], across)
        of_output: float = 1.6 * problem.r * constant["WORDS"] * sums + 6
        return turns * threads / 32 * (outputs * of_output + 60) / 2.7
    run = own["BATCH"] * constant["ATOM_M"]
    items = ceil_div(constant["GRID_PIXELS"], run) * constant["ALL_SLABS"]
    warps = threads // stage.target.warp_size
    # Of a partition: products, or fragments of them on their way.
    steps: float = constant["STEPS"] * constant["STEP_CHUNKS"] * 16 * run * constant["SLAB_K"] * sums / 550
    steps = max(steps, constant["STEPS"] * (own["BATCH"] * 4.0 + own["ATOMS"] * 3.0 + 8))
    epilogue: float = run * min(problem.k, constant["SLAB_K"]) / 32 * 7 + 80
    return ceil_div(items, warps) * warps / 4 * (steps + epilogue)
