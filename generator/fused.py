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
    shares: int  # blocks that have a tile together, each some of the output channels
    holds: int  # how many of the two have their weights in shared memory, the second before the first
    first_m: int  # of the first convolution: atoms of pixels of a warp; for depthwise, rows of pixels of a thread
    first_n: int  # atoms of channels of a warp; for depthwise, fours of channels of a thread
    second_m: int  # the same of the second
    second_n: int


CHOICES: dict[str, tuple[int, ...]] = {
    "tile_h": (2, 4, 7, 8, 14),
    "tile_w": (7, 8, 14, 16),
    "warps": (4, 8, 16),
    "residents": (1, 2, 3, 4, 6),
    "shares": (1, 2, 4),
    "holds": (0, 1, 2),
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
    "shares": (1, 2),
    "first_m": (2, 4),
    "second_m": (2, 4),
}


def configs(problem: FusedConv2d, target: Target, choices: dict[str, tuple[int, ...]]) -> Iterator[Config]:
    """Tiles that fit shared memory, so many blocks at a time, and pieces that are neither tiny nor huge."""
    pieces = []
    for stage, conv in (("first", problem.first), ("second", problem.second)):
        every = itertools.product(choices[f"{stage}_m"], choices[f"{stage}_n"])
        pieces.append([(m, n) for m, n in every if is_piece(conv, m, n, target)])
    most_held = sum(not is_depthwise(conv) for conv in (problem.first, problem.second)) * target.async_copies
    held = [holds for holds in choices["holds"] if holds <= most_held]
    for tile_h, tile_w, warps, residents, shares in itertools.product(*(choices[n] for n in list(CHOICES)[:5])):
        too_many = _tiles(problem, tile_h, tile_w)[2] * shares > 2 * residents * target.processors
        if shares > 1 and (too_many or is_depthwise(problem.second)):
            continue
        try:
            _geometry(problem, tile_h, tile_w, warps * target.warp_size, residents, target)
        except Infeasible:
            continue
        for (first_m, first_n), (second_m, second_n) in itertools.product(*pieces):
            for holds in held:
                yield Fused(tile_h, tile_w, warps, residents, shares, holds, first_m, first_n, second_m, second_n)


def _tiles(problem: FusedConv2d, tile_h: int, tile_w: int) -> tuple[int, int, int]:
    """Down, across, and of all images."""
    down, across = ceil_div(problem.second.oh, tile_h), ceil_div(problem.second.ow, tile_w)
    return down, across, problem.second.n * down * across


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
    if target.vendor == "amd":  # whose compiler bounds no registers
        at_most(config.warps, 8, f"warps of a block on {target.name}")
    geometry = _geometry(problem, config.tile_h, config.tile_w, threads, config.residents, target)
    in_chunks, in_plane, mid_chunks, mid_plane = geometry.planes
    if config.shares > 1 and is_depthwise(second):
        raise Infeasible(f"shares={config.shares} for a depthwise layer behind another: 1 serves it")
    # Within a cluster each computes some of what lies between, for all; elsewhere each computes all of it.
    clusters = config.shares > 1 and target.clusters
    first_blocks = config.shares if clusters else 1
    of_stages = {
        "first": Share("first", *geometry.mid, first_blocks, config.first_m, config.first_n),
        "second": Share("second", config.tile_h, config.tile_w, config.shares, config.second_m, config.second_n),
    }
    stages = {name: stage_plan(getattr(problem, name), share, target) for name, share in of_stages.items()}
    # A third can be computed again or spilled; beyond that ptxas 13.0 loses pointers, and kernels read address 0.
    words = 2 * max(stage.roles["words"] for stage in stages.values()) // 3
    holds = _held(stages, config.holds, target)
    smem_bytes = geometry.smem_bytes + sum(stages[name].roles["held_bytes"] for name in holds) + 16 * clusters
    check_residents(config.residents, threads, smem_bytes, words, target)
    of_both = {"fills": any(second.pad)}  # of what lies between the two, some is padding
    stages = {
        name: replace(stage, roles=stage.roles | of_both | {"holds": name in holds}) for name, stage in stages.items()
    }
    tiles_h, tiles_w, tiles = _tiles(problem, config.tile_h, config.tile_w)
    at_most(tiles * config.shares, 2**30, "blocks of tiles")
    places = tiles if config.shares > 1 else min(tiles, config.residents * target.processors)
    loads_input = not is_depthwise(problem.first)
    part_channels = stages["first"].roles["block_k"]
    if clusters and part_channels % 16:
        raise Infeasible(f"{part_channels} channels of a block of a cluster are no whole chunks of 16")
    constants = {
        "The config.": (
            Constant("TILE_H", config.tile_h, "output rows of a block"),
            Constant("TILE_W", config.tile_w, "output columns of a block"),
            Constant("RESIDENTS", config.residents, RESIDENTS_SAYS),
            *((Constant("SHARES", config.shares, "blocks that have a tile together"),) * (config.shares > 1)),
        ),
        "What follows.": (
            Constant("WARP_SIZE", target.warp_size),
            Constant("THREADS", threads),
            Constant("TILES_H", tiles_h),
            Constant("TILES_W", tiles_w),
            Constant("TILES", tiles),
            Constant("PLACES", places, "that have tiles in turn"),
            Constant("MID_STRIDE_H", second.stride[0]),
            Constant("MID_STRIDE_W", second.stride[1]),
            Constant("MID_PAD_TOP", second.pad[0]),
            Constant("MID_PAD_LEFT", second.pad[1]),
            *((Constant("IN_CHUNKS", in_chunks), Constant("IN_PLANE", in_plane)) if loads_input else ()),
            Constant("MID_CHUNKS", mid_chunks, "of 16 channels"),
            Constant("MID_PLANE", mid_plane, "pixels of a chunk"),
            *((Constant("PART_CHUNKS", part_channels // 16, "of a block of a cluster"),) * clusters),
            Constant("SMEM_BYTES", smem_bytes),
            *_copies_in_flight(stages, holds, threads),
        ),
    }
    wants = {*stages["first"].wants, *stages["second"].wants, *("cluster", "bulk") * clusters}
    loads_ahead = loads_input and stages["first"].roles["asynchronous"]
    if loads_ahead and pads_with_zero_point(problem.first):
        wants |= {"fill"}
    if loads_ahead or holds:
        wants |= {"copies"}
    main = Launch("conv2d_conv2d", (places * config.shares, 1, 1), threads, smem_bytes)
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
        roles={
            "loads_input": loads_input,
            "loads_ahead": loads_ahead,
            "copies": loads_ahead or bool(holds),
            "holds": holds,
            "shares": config.shares,
            "clusters": clusters,
            "kinds": {stage.roles["kind"] for stage in stages.values()},
        },
        wants=tuple(sorted(wants)),
        stages=stages,
    )


def _held(stages: dict[str, Plan], holds: int, target: Target) -> tuple[str, ...]:
    """Whose weights lie in shared memory. Dot products read theirs once for many pixels."""
    if holds and not target.async_copies:
        raise Infeasible(f"holds={holds}: {target.name} has no asynchronous copies; 0 serves it")
    found = [name for name in ("second", "first") if "held_bytes" in stages[name].roles]
    if holds > len(found):
        raise Infeasible(f"holds={holds}: {len(found)} of the two convolutions have matrix instructions; hold no more")
    return tuple(sorted(found[:holds]))


def _copies_in_flight(stages: dict[str, Plan], holds: tuple[str, ...], threads: int) -> tuple[Constant, ...]:
    """The CPU device keeps a thread's copies in a queue."""
    first = stages["first"]
    if first.target.vendor != "cpu":
        return ()
    pieces = sum(ceil_div(stages[name].roles["held_copies"], threads) for name in holds)
    if first.roles["kind"] != "depthwise" and first.roles["asynchronous"]:
        of = {c.name: c.value for c in first.constants["What follows."]}
        of_row = of["SOURCE_COLUMNS"] * ceil_div(first.problem.inputs[0].shape[3], of["WIDTH"])
        across = min(of_row, threads)
        pieces += ceil_div(of_row, across) * ceil_div(of["SOURCE_ROWS"], threads // across)
    return (Constant("COPIES_IN_FLIGHT", pieces, "of a thread"),) * (pieces > 0)


# Fitted to 60 configs on an H200, clocks: of a launch; of showing each other what lies between; of an instruction of a
# warp that is alone, where many take one.
LAUNCH, EXCHANGE, ALONE = 4300, 2000, 2.25


def cost(plan: Plan) -> float:
    """About how long the launch takes, in clocks of a multiprocessor."""
    config, problem, target = plan.config, plan.problem, plan.target
    assert isinstance(config, Fused)
    assert isinstance(problem, FusedConv2d)
    constant = {c.name: c.value for c in plan.constants["What follows."]}
    tiles, threads = constant["TILES"], constant["THREADS"]
    work = [_work(stage, threads) for stage in plan.stages.values()]
    if target.vendor == "cpu":  # one thread after the other
        return tiles * config.shares * sum(issued for issued, _ in work)
    room = config.residents * target.processors
    # Clusters of more than two do not fill the groups of multiprocessors that they live in.
    usable = int(0.9 * room) if config.shares > 2 else room
    turns = ceil_div(tiles, max(1, usable // config.shares))
    held = min(config.residents, ceil_div(tiles * config.shares, target.processors))
    issued, chain = sum(issued for issued, _ in work), sum(chain for _, chain in work)
    words = max(stage.roles["words"] for stage in plan.stages.values())
    if words * config.residents * threads > target.registers_per_sm:  # some are spilled
        issued, chain = 1.3 * issued, 1.3 * chain
    tile_bytes = problem.io_bytes / tiles / config.shares
    # What all blocks of a multiprocessor issue, what the longest warp of one waits for, what the memory brings.
    turn = max(held * issued, chain, held * tile_bytes / 24) + (EXCHANGE if config.shares > 1 else 0)
    return turns * turn + LAUNCH


def _work(stage: Plan, threads: int) -> tuple[float, float]:
    """For one tile: clocks in which a multiprocessor issues its instructions, and those of its longest warp."""
    problem, constant = stage.problem, {c.name: c.value for c in stage.constants["What follows."]}
    assert isinstance(problem, Conv2d)
    own = {c.name: c.value for c in stage.constants["The config."]}
    sums, warps = 1 + problem.quantization.w_zero_point, threads // stage.target.warp_size
    if stage.roles["kind"] == "depthwise":
        places = ceil_div(constant["GRID_ROWS"], own["ROWS"]) * ceil_div(constant["GRID_COLUMNS"], own["COLUMNS"])
        outputs = own["ROWS"] * own["COLUMNS"] * own["VECTOR"]
        vectors = constant.get("BLOCK_K", problem.k) // own["VECTOR"]
        across = min(vectors, threads)
        sets, turns = ceil_div(vectors, across), ceil_div(places, threads // across)
        of_output = 2.5 * problem.r * constant["WORDS"] * sums + 6
        longest = sets * (turns * (outputs * of_output + 30) + 16 * own["VECTOR"] + 60)
        return longest * warps / 4, ALONE * longest + 1200
    run = own["BATCH"] * constant["ATOM_M"]
    items = ceil_div(constant["GRID_PIXELS"], run) * constant["BLOCK_SLABS"]
    # Of a partition: products, or fragments of them on their way.
    steps: float = constant["STEPS"] * constant["STEP_CHUNKS"] * 16 * run * constant["SLAB_K"] * sums / 550
    of_step = own["BATCH"] * (4 + own["ATOMS"]) + own["ATOMS"] * (8 if stage.roles["holds"] else 11) + 8
    steps = max(steps, constant["STEPS"] * of_step)
    epilogue: float = run * min(problem.k, constant["SLAB_K"]) / 32 * 5 + 80
    one = steps + epilogue
    return items * one / 4, ALONE * ceil_div(items, warps) * one + 600
