"""The `mma` family: implicit GEMM on matrix instructions. One page; the instruction, the way to shared memory, the
division of the work and the way of the outputs are roles that the plan chooses."""

from __future__ import annotations

import math
from functools import lru_cache

from qconv.dtypes import DATA_TYPES
from qconv.epilogue import steps as epilogue_steps
from qconv.generator import mma_amd
from qconv.generator.convolution import (
    aliases,
    argument_fields,
    fold_constants,
    fold_launches,
    pads_with_zero_point,
    problem_constants,
)
from qconv.generator.measure import at_once, launched, of_activation
from qconv.generator.mma_space import Mma, Shape, checked, in_cluster, whole_tiles
from qconv.generator.plan import Constant, Field, Launch, at_most, ceil_div
from qconv.generator.plan import Untyped as Plan
from qconv.problem import Conv2d
from qconv.target import Target

# All blocks read it: 128 cache lines, on many parts of the second-level cache.
PADDING_WORDS = 4096


def plan(problem: Conv2d, config: Mma, target: Target) -> Plan:
    shape = checked(problem, config, target)
    q, steps = problem.quantization, shape.steps
    tiles = shape.tiles
    vector_n = _vector(problem, config, shape)
    combine = "cluster" if in_cluster(config, target) else "scratch" if config.split > 1 or config.stream else "none"
    smem_bytes = _smem_bytes(problem, config, target, shape, combine, vector_n)
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    whole = whole_tiles(config, target, tiles)
    blocks = config.persist * target.processors or whole + (tiles - whole) * config.split
    at_most(blocks, 2**31 - 1, "blocks")
    own: list[Field] = []
    reads_padding = _reads_padding(problem, target, shape)
    if reads_padding:
        own.append(Field("padding", "int*", "workspace", "x_zero in every byte", None, PADDING_WORDS))
    if combine == "scratch":
        shared = tiles - whole
        sums = shared * config.tile_m * config.tile_n
        if q.w_zero_point:
            sums += shared * config.tile_m * shape.atom.channels * (config.tile_n // config.warp_n)
        at_most(4 * sums, 2**30, "bytes of scratch memory")
        own.append(Field("sums", "int*", "scratch", "of tiles that several blocks share", None, sums))
        own.append(Field("arrived", "int*", "scratch", "steps added to each of those tiles", None, shared))
    alignment = {"x": shape.x_bytes, "w": shape.w_bytes}
    alignment["y"] = 16 if config.staged else vector_n * DATA_TYPES[q.out_type].bytes
    if q.residual != "none":
        alignment["residual"] = vector_n * DATA_TYPES[q.residual].bytes
    cluster = config.split if combine == "cluster" else 1
    constants = {
        "The problem.": problem_constants(problem, filter_rows=True),
        "The config.": (
            Constant("TILE_M", config.tile_m, "output pixels of a block"),
            Constant("TILE_N", config.tile_n, "output channels of a block"),
            Constant("TILE_K", config.tile_k, "bytes of the reduction in a step"),
            Constant("WARP_M", config.warp_m, "output pixels of a warp"),
            Constant("WARP_N", config.warp_n, "output channels of a warp"),
            Constant("STAGES", config.stages, "steps in shared memory: one is multiplied, the others on their way"),
            *((Constant("SPLIT", config.split, "blocks that share a tile"),) if config.split > 1 else ()),
            *((Constant("WHOLE", whole, "tiles that are not shared"),) if config.tail else ()),
            *((Constant("BAND", config.band, "tiles of pixels that are worked on together"),) * (config.band > 1)),
        ),
        "What follows.": (
            Constant("WARP_SIZE", target.warp_size),
            Constant("THREADS", shape.threads),
            Constant("ATOM_M", shape.atom.pixels, "output pixels of one instruction"),
            Constant("ATOM_N", shape.atom.channels, "output channels of one instruction"),
            Constant("ATOM_K", shape.atom.instruction.k, "bytes of the reduction in one instruction"),
            Constant("K_BLOCK", shape.atom.block_k, "bytes of the reduction in one fragment"),
            Constant("STEPS", steps, "along the reduction"),
            Constant("TAIL", problem.reduction % config.tile_k != 0, "the last step reaches beyond the reduction"),
            Constant("TILES_M", shape.tiles_m, "along the pixels"),
            Constant("TILES_N", shape.tiles_n, "along the channels of a group"),
            *((Constant("TILES", tiles), Constant("BLOCKS", blocks)) if config.persist else ()),
            Constant("X_BYTES", shape.x_bytes, "one copy of x (1: byte by byte)"),
            Constant("W_BYTES", shape.w_bytes, "one copy of w (1: byte by byte)"),
            Constant("VECTOR_N", vector_n, "channels that are written at once"),
            *_copies_in_flight(problem, config, target, shape),
            *_buffer_sizes(problem, target),
            Constant("SMEM_BYTES", smem_bytes),
            *fold_constants(problem),
            *((Constant("PADDING_WORDS", PADDING_WORDS, "of four times x_zero"),) * reads_padding),
        ),
    }
    return Plan(
        problem=problem,
        config=config,
        target=target,
        page="conv2d/mma.j2",
        constants=constants,
        launches=(
            *fold_launches(problem),
            Launch("conv2d_mma", (blocks, 1, 1), shape.threads, smem_bytes, cluster=cluster),
        ),
        fields=argument_fields(problem, tuple(own)),
        alignment=alignment,
        aliases=aliases(problem),
        roles=_roles(problem, config, target, shape, combine),
        wants=_wants(target, shape, combine),
        overlaps=target.overlaps_launches,
    )


def _reads_padding(problem: Conv2d, target: Target, shape: Shape) -> bool:
    """Whether padding is something else than the zeros that an asynchronous copy leaves where there is nothing to
    copy."""
    return pads_with_zero_point(problem) and target.async_copies and shape.x_bytes > 1


def _copies_in_flight(problem: Conv2d, config: Mma, target: Target, shape: Shape) -> tuple[Constant, ...]:
    """The CPU device keeps a thread's copies in a queue."""
    if target.vendor != "cpu" or not target.async_copies:
        return ()
    rows = ((config.tile_m, shape.x_bytes), (config.tile_n, shape.w_bytes))
    pieces = sum(ceil_div(side * config.tile_k, max(width, 4) * shape.threads) for side, width in rows)
    known = ceil_div(config.tile_n, shape.threads) * len(_channel_arguments(problem))
    return (Constant("COPIES_IN_FLIGHT", config.stages * pieces + known, "of a thread"),)


def _buffer_sizes(problem: Conv2d, target: Target) -> tuple[Constant, ...]:
    if target.buffer_word is None:
        return ()
    x, w = (math.prod(tensor.shape) for tensor in problem.inputs[:2])
    return Constant("X_SIZE", x, "bytes of x"), Constant("W_SIZE", w, "bytes of w")


def _roles(problem: Conv2d, config: Mma, target: Target, shape: Shape, combine: str) -> dict[str, object]:
    one_tap = problem.r * problem.s == 1 and not any(problem.pad)
    return {
        **shape.atom.roles(problem.quantization, target, "tiles"),
        "loader": "async" if target.async_copies else "registers" if target.buffer_word is None else "buffers",
        # Where no byte of x is outside of its buffer but padding, and that is no zero.
        "fills_padding": target.buffer_word is not None and pads_with_zero_point(problem) and shape.x_bytes > 1,
        "gathers_x": shape.x_bytes == 1,
        "gathers_w": shape.w_bytes == 1,
        "reads_padding": _reads_padding(problem, target, shape),
        "combine": combine,
        "split": config.split,
        "tail": bool(config.tail),
        "band": config.band,
        "persist": bool(config.persist),
        "stream": bool(config.stream),
        "schedule": "persist" if config.persist else "tile",
        "ahead": bool(config.ahead),
        "gemm": one_tap and problem.stride == (1, 1),
        "one_tap": one_tap,
        # All taps of a run of channels before the next run: a step finds most of its input where the last one left it.
        "taps_first": (
            problem.layout == "nhwc"
            and problem.c_group % config.tile_k == 0
            and problem.r * problem.s > 1
            and problem.c_group > config.tile_k
            # The few steps of a part read runs of the weights instead, which come from device memory.
            and (config.split == 1 or config.tail > 0)
        ),
        "staged": bool(config.staged),
        "store": "staged" if config.staged else "direct",
        "channel_arguments": _channel_arguments(problem),
        "known_is_late": _known_is_late(problem, config, target, shape),
    }


def _known_is_late(problem: Conv2d, config: Mma, target: Target, shape: Shape) -> bool:
    """Whether what is known of the channels may be under way when the last step has been multiplied: it comes with
    step `stages - 1`, and `ahead` waits for one step more than there are."""
    if not (target.async_copies and _channel_arguments(problem)):
        return False
    fewest = 1 if config.stream else shape.steps // config.split
    return fewest + config.ahead < config.stages


@lru_cache(maxsize=256)
def _channel_arguments(problem: Conv2d) -> list[object]:
    return [a for step in epilogue_steps(problem.quantization) for a in step.arguments if a.per_channel]


def _wants(target: Target, shape: Shape, combine: str) -> tuple[str, ...]:
    wants = ["warp"]
    if target.async_copies:
        wants.append("copies")
    if target.buffer_word is not None:
        wants.append("buffers")
    if shape.atom.is_nvidia:
        wants.append("matrices")
    if combine != "none":
        wants.append({"cluster": "cluster", "scratch": "atomics"}[combine])
    if target.overlaps_launches:
        wants.append("overlap")
    return tuple(wants)


def _vector(problem: Conv2d, config: Mma, shape: Shape) -> int:
    """Channels that a lane writes at once: neighbours of one pixel, all of which exist or none."""
    lane = config.warp_n // shape.atom.channels * shape.atom.lane_channels
    widest = min(lane & -lane, 16 // DATA_TYPES[problem.quantization.out_type].bytes)
    return math.gcd(widest, problem.k_group)


def _smem_bytes(problem: Conv2d, config: Mma, target: Target, shape: Shape, combine: str, vector_n: int) -> int:
    q = problem.quantization
    known = ceil_div(4 * config.tile_n * len(_channel_arguments(problem)), 16) * 16 * (2 if config.persist else 1)
    phases = [config.stages * config.tile_k * (config.tile_m + config.tile_n)]
    if config.staged:
        staged = config.tile_m * (config.tile_n * DATA_TYPES[q.out_type].bytes + 16)
        if config.persist:
            known += staged
        else:
            phases.append(staged)
    if combine == "cluster":
        of_lane = config.warp_m * config.warp_n // target.warp_size
        slots = ceil_div(of_lane // vector_n, config.split)
        known += config.split * slots * shape.threads * 4 * (vector_n + q.w_zero_point)
    return known + max(phases) + 16 * (combine != "none")


# Fitted to 74 kernels that an H200 timed and to 52 pairs of them, 14 % off (root mean square). Clocks of a
# multiprocessor: of a step of a block that is alone, until a step's bytes come, of an output that goes to other blocks
# of a cluster. In one clock: products, and bytes of the second-level cache, and of those that come once they begin to.
STEP, LATENCY, SHARED_OUTPUT = 310, 1115, 0.41
PRODUCTS, CACHE, ARRIVING = 2420, 40, 50
# A step that copies 32 bytes or less of each longer row leaves the rest of a cache line to other steps. Ten such
# kernels took 1.1 to 4 times the prediction without this factor, which is fitted to the five without a remainder.
SHORT_RUN, SHORT_RUN_FACTOR = 32, 1.5
# Clocks for which a multiprocessor begins and ends a block, beside all others: 1x1 of 32 to 32 channels in tiles of 64
# rows took twice what bytes and instructions say, in tiles of 32x8 five times. Fitted to 290 configs of 29 layers.
BLOCK = 140


def cost(plan: Plan) -> float:
    """About how long the launch takes, in clocks of a multiprocessor."""
    config, problem, target = plan.config, plan.problem, plan.target
    assert isinstance(config, Mma)
    assert isinstance(problem, Conv2d)
    if target.buffer_word is not None:
        return mma_amd.cost(plan)
    constant = {c.name: c.value for c in plan.constants["What follows."]}
    threads, steps = plan.main.threads, constant["STEPS"]
    warps = threads // target.warp_size
    tile_bytes = (config.tile_m + config.tile_n) * config.tile_k
    multiply = config.tile_m * config.tile_n * config.tile_k / PRODUCTS
    shared = (warps * (config.warp_m + config.warp_n) * config.tile_k + tile_bytes) / 128
    narrow = 16 / max(1, constant["X_BYTES"])
    fetch = tile_bytes / CACHE * max(1.0, narrow / 4)
    registers = 40 + config.warp_m * config.warp_n * 3 // (2 * target.warp_size)
    if not target.async_copies:  # what is fetched waits in registers
        registers += tile_bytes // (4 * threads)
    spilled = max(0, registers - 255)
    registers = min(255, registers)
    resident = max(
        1,
        min(
            target.registers_per_sm // (registers * threads),
            target.smem_bytes_per_sm // (plan.main.smem_bytes + 1024),
            target.threads_per_sm // threads,
        ),
    )
    blocks = plan.main.grid[0]
    tiles = constant["TILES_M"] * constant["TILES_N"] * problem.groups
    held = min(resident, ceil_div(blocks, target.processors))
    # A step takes what the busiest unit needs, or until the bytes come that the stages ask for ahead.
    exposed = (STEP if config.ahead else STEP + 30) / held
    arrives = (LATENCY + tile_bytes / ARRIVING) / (config.stages - 1)
    step = at_once(held * max(multiply, shared, fetch) + exposed, arrives, 4)
    if min(config.tile_k, problem.c_group) <= SHORT_RUN < problem.c and constant["X_BYTES"] == 16:
        step *= SHORT_RUN_FACTOR
    outputs = config.tile_m * config.tile_n
    epilogue = outputs * (8 + of_activation(problem)) / 128
    rounds: float = ceil_div(blocks, held * target.processors)
    of_block = steps * tiles / blocks
    if config.tail:
        rounds, of_block = tiles // (held * target.processors) + 1 / config.split, steps
    issued = rounds * (of_block * step + max(1.0, tiles / blocks) * held * epilogue)
    if config.split > 1 or config.stream:  # sums go through a cluster, or through device memory and back
        issued += SHARED_OUTPUT * held * outputs if in_cluster(config, target) else 3000.0
    # What a default spills is never worth it; a search may find otherwise.
    clocks = launched(problem, target, issued) + BLOCK * blocks / target.processors
    return clocks * (2 if spilled else 1)
