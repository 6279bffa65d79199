"""The `fused` and `block` families: two or three convolutions in one kernel. What lies between them stays in shared
memory: a block computes of it what a tile of the last one's outputs looks at, all channels of it, and so nothing twice
but what tiles share."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from qconv.errors import Infeasible
from qconv.fused import MIDS, WORDS, Chain
from qconv.generator.convolution import pads_with_zero_point
from qconv.generator.fused_space import BLOCK_CHOICES, CHOICES, Fused, Geometry, geometry, placed_weights, tiles_of
from qconv.generator.plan import Constant, Launch, at_most, ceil_div, check_choices
from qconv.generator.plan import Untyped as Plan
from qconv.generator.share import INBOX_BYTES, Share, chunks, is_depthwise
from qconv.generator.stage_cost import work
from qconv.generator.stages import stage_plan
from qconv.generator.tiles import RESIDENTS_SAYS, check_residents
from qconv.problem import Conv2d
from qconv.target import Target

# Of a thread: with fewer nothing is spilled.
FEW_REGISTERS = 64


def plan(problem: Chain, config: Fused, target: Target) -> Plan:
    check_choices(config, BLOCK_CHOICES if len(problem.STAGES) > 2 else CHOICES)
    threads, teams, last = config.warps * target.warp_size, config.teams, problem.STAGES[-1]
    at_most(teams * threads, target.threads_per_block, "threads of a block")
    if teams > 1 and (config.shares > 1 or not config.holds):
        raise Infeasible(f"teams={teams}: teams of a block share weights that it holds, and no tile; 1 serves it")
    if target.vendor == "amd":  # whose compiler bounds no registers
        at_most(config.warps, 8, f"warps of a block on {target.name}")
    holds, wide, streams = placed_weights(problem, config.holds, config.wide, target)
    room = geometry(problem, config.tile_h, config.tile_w, teams, threads, config.residents, wide, target)
    in_chunks, in_plane = room.planes[0]
    if config.shares > 1 and is_depthwise(problem.last):
        raise Infeasible(f"shares={config.shares} for a depthwise layer behind another: 1 serves it")
    # Within a cluster each computes some of what lies between, for all; elsewhere each computes all of it.
    clusters = config.shares > 1 and target.bulk_copies
    first_blocks = config.shares if clusters else 1
    of_stages = {
        name: Share(
            name,
            name == last,
            *room.outputs[name],
            {"first": first_blocks, last: config.shares}.get(name, 1),
            name in wide,
            *config.piece(name),
            config.warps // 4 * (streams and name == last),
        )
        for name in problem.STAGES
    }
    # Of what lies between two, some is padding.
    fills = {giver: any(problem.stages[taker].pad) for giver, taker in pairwise(problem.STAGES)}
    stages = {
        name: _stage(problem.stages[name], share, target, fills.get(name, False), teams > 1, name in holds)
        for name, share in of_stages.items()
    }
    words = _registers(stages, config.residents * teams * threads, target)
    held_bytes = sum(stages[name].roles["held_bytes"] for name in holds)
    spare_bytes = _spare_bytes(stages, wide, room, held_bytes)
    smem_bytes = teams * room.smem_bytes + held_bytes + spare_bytes + INBOX_BYTES * clusters
    check_residents(config.residents, teams * threads, smem_bytes, words, target)
    tiles_h, tiles_w, tiles = tiles_of(problem, config.tile_h, config.tile_w)
    at_most(tiles * config.shares, 2**30, "blocks of tiles")
    blocks = min(ceil_div(tiles, teams), _room(config, target))
    stays = teams > 1 or blocks * teams < tiles
    loads_input = not is_depthwise(problem.first)
    copied = [name for name in holds if stages[name].roles["held_copies"]]
    fetched = [name for name in holds if stages[name].roles["fetches"]]
    part_channels = stages["first"].roles["block_k"]
    if clusters and part_channels % 16:
        raise Infeasible(f"{part_channels} channels of a block of a cluster are no whole chunks of 16")
    constants = {
        "The config.": (
            Constant("TILE_H", config.tile_h, "output rows of a block"),
            Constant("TILE_W", config.tile_w, "output columns of a block"),
            Constant("RESIDENTS", config.residents, RESIDENTS_SAYS),
            *((Constant("TEAMS", teams, "of a block, each with tiles of its own"),) * (teams > 1)),
            *((Constant("SHARES", config.shares, "blocks that have a tile together"),) * (config.shares > 1)),
        ),
        "What follows.": (
            Constant("WARP_SIZE", target.warp_size),
            Constant("THREADS", threads, *("of a team",) * (teams > 1)),
            *((Constant("BLOCK_THREADS", teams * threads),) * (teams > 1)),
            Constant("TILES_H", tiles_h),
            Constant("TILES_W", tiles_w),
            Constant("TILES", tiles),
            Constant("PLACES", blocks * teams, "that have tiles in turn"),
            *_window_constants(problem),
            *((Constant("IN_CHUNKS", in_chunks), Constant("IN_PLANE", in_plane)) if loads_input else ()),
            *_plane_constants(problem, room),
            *((Constant("PART_CHUNKS", part_channels // 16, "of a block of a cluster"),) * clusters),
            *((Constant("SPARE_BYTES", spare_bytes, "past the last, that warpgroups read"),) * (spare_bytes > 0)),
            Constant("SMEM_BYTES", smem_bytes),
            *_copies_in_flight(stages, holds, threads, teams),
        ),
    }
    wants = {
        *(want for stage in stages.values() for want in stage.wants),
        *("cluster", "parts") * clusters,
        *("turns",) * (clusters and stays),
        *("bulk",) * bool(fetched),
    }
    if teams > 1:
        wants |= {"teams"}
    loads_ahead = loads_input and stages["first"].roles["asynchronous"]
    copies = loads_ahead or bool(copied)
    if loads_ahead and pads_with_zero_point(problem.first):
        wants |= {"fill"}
    if copies:
        wants |= {"copies"}
    cluster = config.shares if clusters else 1
    main = Launch(problem.op, (blocks * config.shares, 1, 1), teams * threads, smem_bytes, cluster=cluster)
    return Plan(
        problem=problem,
        config=config,
        target=target,
        page="fused/page.j2",
        constants=constants,
        launches=(*(launch for stage in stages.values() for launch in stage.launches), main),
        fields=tuple(field for stage in stages.values() for field in stage.fields),
        alignment={
            "x": stages["first"].alignment["x"],
            **dict.fromkeys(problem.packed, 1),
            **{name: n for name, n in stages[last].alignment.items() if name != "w"},
        },
        aliases={},
        roles={
            "loads_input": loads_input,
            "loads_ahead": loads_ahead,
            "copies": copies,
            "copied": copied,
            "fetched": fetched,
            "weights_behind": loads_input and last in copied and teams == 1,
            "holds": holds,
            "streams": streams,
            "wide": wide,
            "mids": _mids(problem, room),
            "last": last,
            "counted": WORDS[len(stages)],
            "spare_bytes": spare_bytes,
            "shares": config.shares,
            "teams": teams > 1,
            "block_threads": stages["first"].roles["block_threads"],
            "clusters": clusters,
            "stays": stays,
            "kinds": {stage.roles["kind"] for stage in stages.values()},
        },
        wants=tuple(sorted(wants)),
        stages=stages,
    )


@lru_cache(maxsize=4096)
def _stage(problem: Conv2d, share: Share, target: Target, fills: bool, teams: bool, holds: bool) -> Plan:
    """One of the two, with what its page asks of the whole kernel. Many configs have the same."""
    stage = stage_plan(problem, share, target)
    of_kernel = {
        "fills": fills,
        "teams": teams,
        "member": "(tile::thread() % THREADS)" if teams else "tile::thread()",
        "block_threads": "BLOCK_THREADS" if teams else "THREADS",
        "holds": holds,
    }
    return replace(stage, roles=stage.roles | of_kernel)


def _registers(stages: dict[str, Plan], threads: int, target: Target) -> int:
    """That a thread needs at least. A third of its words can be computed again or spilled, where many are left: beyond
    that ptxas 13.0 loses pointers, so that kernels read address 0, or searches for minutes."""
    words: int = max(stage.roles["words"] for stage in stages.values())
    return 2 * words // 3 if threads * FEW_REGISTERS <= target.registers_per_sm else words


def _window_constants(problem: Chain) -> tuple[Constant, ...]:
    """Where the windows begin that each looks at in what the one before gives."""
    return tuple(
        constant
        for name, taker in zip(MIDS, problem.STAGES[1:], strict=False)
        for (stride_h, stride_w), (top, left, *_) in ((problem.stages[taker].stride, problem.stages[taker].pad),)
        for constant in (
            Constant(f"{name.upper()}_STRIDE_H", stride_h),
            Constant(f"{name.upper()}_STRIDE_W", stride_w),
            Constant(f"{name.upper()}_PAD_TOP", top),
            Constant(f"{name.upper()}_PAD_LEFT", left),
        )
    )


def _plane_constants(problem: Chain, room: Geometry) -> tuple[Constant, ...]:
    return tuple(
        constant
        for name, giver, (_, pixels) in zip(MIDS, problem.STAGES, room.planes[1:], strict=False)
        for constant in (
            Constant(f"{name.upper()}_CHUNKS", chunks(problem.stages[giver].k), "of 16 channels"),
            Constant(f"{name.upper()}_PLANE", pixels, "pixels of a chunk"),
        )
    )


def _mids(problem: Chain, room: Geometry) -> list[dict[str, Any]]:
    """What lies between the stages, as the source calls it."""
    names = MIDS[: len(problem.STAGES) - 1]
    return [
        {
            "name": name,
            "type": name.capitalize(),
            "beyond": beyond,
            "where": "what lies between the two" if len(names) == 1 else f"from the {giver} to the {taker}",
            # Warpgroups read two chunks at a time.
            "chunks": f"{name.upper()}_CHUNKS" + " + 1" * (count > chunks(problem.stages[giver].k)),
        }
        for name, beyond, (giver, taker), (count, _) in zip(
            names, (*names[1:], ""), pairwise(problem.STAGES), room.planes[1:], strict=True
        )
    ]


def _spare_bytes(stages: dict[str, Plan], wide: tuple[str, ...], room: Geometry, held_bytes: int) -> int:
    """Warpgroups read past the end of a tile's pixels: what that reaches beyond all that follows."""
    beyond = 0
    for at, (name, stage) in enumerate(stages.items()):
        if name in wide:
            follow_bytes = sum(16 * count * pixels for count, pixels in room.planes[at + 1 :]) + held_bytes
            beyond = max(beyond, stage.roles["past_bytes"] - follow_bytes)
    return 16 * ceil_div(beyond, 16)


def _copies_in_flight(
    stages: dict[str, Plan], holds: tuple[str, ...], threads: int, teams: int
) -> tuple[Constant, ...]:
    """The CPU device keeps a thread's copies in a queue."""
    first = stages["first"]
    if first.target.vendor != "cpu":
        return ()
    pieces = sum(ceil_div(count, teams * threads) for name in holds for count in stages[name].roles["held_copies"])
    if first.roles["kind"] != "depthwise" and first.roles["asynchronous"]:
        of = {c.name: c.value for c in first.constants["What follows."]}
        of_row = of["SOURCE_COLUMNS"] * ceil_div(first.problem.inputs[0].shape[3], of["WIDTH"])
        across = min(of_row, threads)
        pieces += ceil_div(of_row, across) * ceil_div(of["SOURCE_ROWS"], threads // across)
    return (Constant("COPIES_IN_FLIGHT", pieces, "of a thread"),) * (pieces > 0)


def _room(config: Fused, target: Target) -> int:
    """Blocks, or groups of them that share tiles, that the device holds at a time."""
    room = config.residents * target.processors
    # Clusters of more than two do not fill the groups of multiprocessors that they live in.
    usable = int(0.9 * room) if config.shares > 2 else room
    return max(1, usable // config.shares)


# Fitted to 166 configs on an H200, clocks: of a launch; of showing each other what lies between. Bytes that come in a
# clock: of weights to hold; of the tiles. How much longer instructions take with one warp, for others hide what it
# waits for; and how much longer a stage that lacks as many registers as it has.
LAUNCH, EXCHANGE, HOLDING, STREAMING, HIDING, LACKING = 4100, 1750, 130, 11.4, 1.9, 1.0
# The best of 163 chains took about 0.92 of the clocks that this counts; with 0.9 fewer are decided wrongly against two.
FITTED = 0.9


def cost(plan: Plan) -> float:
    """About how long the launch takes, in clocks of a multiprocessor."""
    config, problem, target = plan.config, plan.problem, plan.target
    assert isinstance(config, Fused)
    assert isinstance(problem, Chain)
    constant = {c.name: c.value for c in plan.constants["What follows."]}
    tiles, threads = constant["TILES"], constant["THREADS"]
    works = []
    for stage in plan.stages.values():
        assert isinstance(stage.problem, Conv2d)
        assert isinstance(stage.config, Share)
        works.append(work(stage.problem, stage.config, target, stage.roles["holds"], threads))
    if target.vendor == "cpu":  # one thread after the other
        return tiles * config.shares * sum(issued for issued, _ in works)
    turns = ceil_div(tiles, constant["PLACES"])
    held = min(config.residents * config.teams, ceil_div(tiles * config.shares, target.processors))
    issued, chain = sum(issued for issued, _ in works), sum(chain for _, chain in works)
    lacking = 1 + LACKING * _lacking(plan, config.residents * config.teams * threads)
    issued, chain = issued * lacking * (1 + HIDING / (held * config.warps)), chain * lacking
    tile_bytes = problem.io_bytes / tiles / config.shares
    # What all blocks of a multiprocessor issue, what the longest warp of one waits for, what the memory brings.
    turn = max(held * issued, chain, held * tile_bytes / STREAMING) + (EXCHANGE if config.shares > 1 else 0)
    held_bytes: int = config.residents * sum(plan.stages[name].roles["held_bytes"] for name in plan.roles["holds"])
    first_bytes = held * 16 * constant.get("IN_CHUNKS", 0) * constant.get("IN_PLANE", 0)  # that all wait for
    return FITTED * (turns * turn + LAUNCH + first_bytes / STREAMING + held_bytes / HOLDING)


def _lacking(plan: Plan, threads: int) -> float:
    """Registers of a thread that a stage would need more, by those that it has. Of warpgroups, whose sums may not be
    spilled, more are asked for than they need."""
    words = [stage.roles["words"] for stage in plan.stages.values() if stage.roles["kind"] != "warpgroup"]
    return max(0.0, max(words, default=0) * threads / plan.target.registers_per_sm - 1)
