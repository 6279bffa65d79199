"""One of several convolutions in one kernel: a plan whose page is a namespace of that kernel's source. The first finds
its inputs in the image, the last leaves its outputs there; between two lies a tile of pixels in shared memory."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from qconv.dtypes import DATA_TYPES
from qconv.epilogue import has_offset
from qconv.epilogue import steps as epilogue_steps
from qconv.errors import Infeasible
from qconv.fused import MIDS, FusedBlock
from qconv.generator.convolution import (
    FOLD_THREADS,
    SPREAD_THREADS,
    aliases,
    argument_fields,
    fold_constants,
    input_span,
    load_bytes,
    pads_with_zero_point,
    problem_constants,
)
from qconv.generator.depthwise import MOST_WORDS, held_words
from qconv.generator.plan import Constant, Field, Launch, at_most, ceil_div
from qconv.generator.plan import Untyped as Plan
from qconv.generator.share import (
    INBOX_BYTES,
    RUN_PIXELS,
    Share,
    atom_of,
    chunks,
    fetches,
    is_depthwise,
    is_wide,
    plane,
    ring,
    ring_bytes,
    row_places,
)
from qconv.instruction import SHORT_TYPES
from qconv.problem import Conv2d
from qconv.target import Target

# Of a lane: more do not fit its registers.
MOST_SUMS = 128
# Steps of a loop that is written out: of more, the compiler would load the weights ahead and spill them. Of a longer
# one so many are that divide it: where it could be left half-way, ptxas 13.0 loads from an address before it is set.
MOST_UNROLLED = 4
# The same for warpgroups, which load nothing into registers.
MOST_UNROLLED_OF_GROUP = 36
# Words of pixels of the image that a thread asks for together, before its filters.
MOST_EARLY = 32
WEIGHTS = "a set of weights"
STAGES = FusedBlock.STAGES


@lru_cache(maxsize=1024)
def stage_plan(problem: Conv2d, share: Share, target: Target) -> Plan:
    kind = "depthwise" if is_depthwise(problem) else "warpgroup" if share.wide else "matrix"
    make = {"depthwise": _depthwise, "warpgroup": _warpgroup, "matrix": _matrix}[kind]
    constants, words, roles, wants = make(problem, target, share)
    source_rows, source_columns = input_span(problem, share.rows, share.columns)
    by_turns = share.stage == "first" and kind != "depthwise" and problem.stride != (1, 1)
    source_row = row_places(problem, share.columns) if by_turns else source_columns
    name = "taps" if kind == "depthwise" else "fragments"
    says = "the weights as the lanes read them"
    own = Field(name, "int*", "workspace", says, None, words)
    elsewhere = ("x",) * (share.stage != "first") + ("y",) * (not share.last)  # in shared memory
    fields = [f for f in argument_fields(problem, (own,)) if f.name not in elsewhere]
    of_both = math.gcd(roles["lane_k"], problem.k)
    at_once = of_both & -of_both
    out_bytes = DATA_TYPES[problem.quantization.out_type].bytes
    width = load_bytes(problem.c)
    alignment = {"w": 1}
    if share.stage == "first":
        alignment["x"] = roles["lane_k"] if kind == "depthwise" else width
    if share.last:
        alignment["y"] = min(16, at_once * out_bytes)
        if problem.quantization.residual != "none":
            alignment["residual"] = min(16, at_once * DATA_TYPES[problem.quantization.residual].bytes)
    folds = problem.quantization.x_zero_point
    loads = share.stage == "first" and kind != "depthwise"
    launches = [Launch(f"{share.stage}_spread", (ceil_div(words, SPREAD_THREADS), 1, 1), SPREAD_THREADS, 0, WEIGHTS)]
    if folds:
        fold = Launch(f"{share.stage}_fold", (problem.k, 1, 1), FOLD_THREADS, 4 * FOLD_THREADS, WEIGHTS)
        launches.insert(0, fold)
    stage_constants = {
        "The problem.": problem_constants(problem, filter_rows=True),
        "The config.": constants[0],
        "What follows.": (
            *constants[1],
            Constant("SOURCE_ROWS", source_rows, "of input pixels that a tile looks at"),
            Constant("SOURCE_COLUMNS", source_columns),
            *((Constant("SOURCE_ROW", source_row, "places of a row"),) * by_turns),
            *((Constant("SOURCE_PLANE", plane(source_rows * source_row)),) if kind != "depthwise" else ()),
            Constant("GRID_ROWS", share.rows, "of output pixels of a tile"),
            Constant("GRID_COLUMNS", share.columns),
            Constant("GRID_PIXELS", share.pixels),
            *((Constant("WIDTH", max(4, width), "bytes of the input at a time"),) * loads),
            Constant("K_TAIL", problem.k % roles["slab_k"] != 0, "some channels that are computed do not exist"),
            *((Constant("VECTOR_K", at_once, "channels that are written at once"),) * share.last),
            *fold_constants(problem),
        ),
    }
    return Plan(
        problem=problem,
        config=share,
        target=target,
        page="fused/stage.j2",
        constants=stage_constants,
        launches=tuple(launches),
        fields=tuple(replace(f, stage=share.stage, role=_role(f, share.stage)) for f in fields),
        alignment=alignment,
        aliases=aliases(problem),
        roles={
            **roles,
            "stage": share.stage,
            "kind": kind,
            **_between(share),
            "divided": share.blocks > 1,
            "by_turns": by_turns,
            "offset_in_sums": kind != "matrix" and has_offset(problem.quantization),
            "holds": False,
            "fetches": fetches(share, target),
            "does": ("spread", "fold") if folds else ("spread",),
            "sink": f"fused/into_{'image' if share.last else 'tile'}.j2",
            "spread_threads": SPREAD_THREADS,
            "asynchronous": target.async_copies and width >= 4,
            "gathers": width == 1,
            "fills_input": pads_with_zero_point(problem),
        },
        wants=(*wants, "warp"),
    )


def _role(field: Field, stage: str) -> str:
    return f"w{STAGES.index(stage) + 1}" if field.role == "w" else field.role


def _between(share: Share) -> dict[str, str]:
    """The stages before and behind, and what lies between: as the source calls it."""
    at = STAGES.index(share.stage)
    before = {"before": STAGES[at - 1], "takes": MIDS[at - 1]} if at else {"before": "", "takes": ""}
    return before | ({"behind": "", "gives": ""} if share.last else {"behind": STAGES[at + 1], "gives": MIDS[at]})


def _check_piece(problem: Conv2d, share: Share, slab_k: int, pixels: int, sums: int) -> None:
    """Of a warp or a warpgroup."""
    if share.n > 1:
        at_most(slab_k, 2 * problem.k - 1, f"output channels at a time (the problem has {problem.k})")
    if share.m > 1:
        at_most(pixels, 2 * share.pixels - 1, f"pixels at a time (a tile has {share.pixels})")
    at_most(sums, MOST_SUMS, f"sums of a lane of the {share.stage} convolution")


def _check_blocks(share: Share, slabs: int, block_slabs: int) -> None:
    at_most(share.blocks, ceil_div(slabs, block_slabs), f"shares (the {share.stage} convolution has {slabs} slabs)")


_Made = tuple[tuple[tuple[Constant, ...], tuple[Constant, ...]], int, dict[str, Any], tuple[str, ...]]


def _matrix(problem: Conv2d, target: Target, share: Share) -> _Made:
    atom, q = atom_of(problem, target), problem.quantization
    if atom is None:
        raise Infeasible(f"{target.name} has no matrix instruction that multiplies {q.x_type} by {q.w_type}")
    slab_k = share.n * atom.channels
    sums = slab_k * share.m * atom.pixels // target.warp_size * (1 + q.w_zero_point)
    _check_piece(problem, share, slab_k, share.m * atom.pixels, sums)
    slabs, all_chunks, step_chunks = ceil_div(problem.k, slab_k), chunks(problem.c), atom.block_k // 16
    of_slab = max(_chunks_of(problem, slab, slab_k, all_chunks) for slab in range(slabs))
    taps = problem.r * problem.s
    steps = ceil_div(taps * of_slab, step_chunks)
    whole_taps = of_slab % step_chunks == 0
    turns = of_slab // step_chunks if whole_taps else steps
    block_slabs = ceil_div(slabs, share.blocks)
    _check_blocks(share, slabs, block_slabs)
    step_words = share.n * atom.lane_words * target.warp_size * (1 + q.w_zero_point)
    # Behind the last step another is loaded, and not used.
    words = (block_slabs * share.blocks * steps + 1) * step_words
    at_most(words, 2**28, "words of weights")
    config = (
        Constant("ATOMS", share.n, "of channels, of a warp"),
        Constant("BATCH", share.m, "atoms of pixels that it has at a time"),
    )
    follows = (
        Constant("ATOM_M", atom.pixels, "pixels of one instruction"),
        Constant("ATOM_N", atom.channels, "channels of one instruction"),
        Constant("SLAB_K", slab_k, "output channels of a warp"),
        Constant("ALL_SLABS", slabs),
        Constant("BLOCK_SLABS", block_slabs, "of a block"),
        Constant("TAPS", taps),
        Constant("CHUNKS", of_slab, "of 16 input channels that a slab looks at"),
        Constant("ALL_CHUNKS", all_chunks),
        Constant("UNITS", taps * of_slab, "chunks of a slab's reduction"),
        Constant("STEP_CHUNKS", step_chunks, "of one instruction or more"),
        Constant("STEPS", steps, "along the reduction"),
    )
    roles = {
        **atom.roles(q, target, "windows"),
        "lane_k": share.n * atom.lane_channels,
        "slab_k": slab_k,
        "block_k": block_slabs * slab_k,
        "words": sums + max(2 * share.n * atom.lane_words + 4 * share.m, 3 * share.n * atom.lane_channels) + 24,
        "whole_taps": whole_taps,
        "rolled": steps > MOST_UNROLLED,
        "unroll": max(n for n in range(1, MOST_UNROLLED + 1) if turns % n == 0),
        # What a block's slabs take in shared memory, and the copies that each loop makes of it.
        "held_bytes": 4 * (block_slabs * steps + 1) * step_words + INBOX_BYTES * fetches(share, target),
        "held_copies": () if fetches(share, target) else (block_slabs * steps * step_words // 4,),
    }
    return (config, follows), words, roles, ("matrices",) if atom.is_nvidia else ()


def _warpgroup(problem: Conv2d, target: Target, share: Share) -> _Made:
    q, lane_k = problem.quantization, 2 * share.n
    if not is_wide(problem, target):
        raise Infeasible(
            f"wide: warpgroups of {target.name} do not multiply the {share.stage} convolution: it must have one group, "
            f"more than 4 output channels and no w_zero_point; leave it to warps"
        )
    if problem.stride != (1, 1) and (share.stage != "first" or share.columns != 8):
        raise Infeasible(
            f"wide: warpgroups multiply a convolution of stride {problem.stride[0]}x{problem.stride[1]} if it is the "
            f"first, on {share.stage} tiles 8 pixels across (here {share.columns}); leave it to warps"
        )
    if share.n % 2 and share.n > 3:
        raise Infeasible(f"{share.stage}_n={share.n}: warpgroups multiply by 8, 16, 24 or a multiple of 16 channels")
    if share.m > 1:
        raise Infeasible(f"{share.stage}_m={share.m}: a warpgroup has {RUN_PIXELS} pixels at a time; 1 serves it")
    slab_k, sums = 8 * share.n, 4 * share.n
    _check_piece(problem, share, slab_k, RUN_PIXELS, sums)
    slabs = ceil_div(problem.k, slab_k)
    block_slabs = ceil_div(slabs, share.blocks)
    _check_blocks(share, slabs, block_slabs)
    taps, pairs = problem.r * problem.s, ceil_div(chunks(problem.c), 2)
    columns = row_places(problem, share.columns)
    without_gap = share.columns in (8, columns)
    positions = share.pixels if without_gap else (share.rows - 1) * columns + share.columns
    slab_bytes = taps * 2 * pairs * slab_k * 16
    of_slab, buffers = ring(share, ceil_div(positions, RUN_PIXELS), slabs, block_slabs)
    weight_bytes = (buffers or block_slabs) * slab_bytes
    per_channel = sum(argument.per_channel for step in epilogue_steps(q) for argument in step.arguments)
    words = block_slabs * slab_bytes // 4 * share.blocks
    at_most(words, 2**28, "words of weights")
    config = (Constant("ATOMS", share.n, "eights of channels, of a warpgroup"),)
    apart = problem.stride[0] * columns if share.columns == 8 else 8
    follows = (
        Constant("RUN", RUN_PIXELS, "pixels of one instruction"),
        Constant("SLAB_K", slab_k, "output channels of a warpgroup"),
        Constant("ALL_SLABS", slabs),
        Constant("BLOCK_SLABS", block_slabs, "of a block"),
        *((Constant("BUFFERS", buffers, "of slabs that are there or on their way"),) * (buffers > 0)),
        *((Constant("OF_SLAB", of_slab, "warpgroups that multiply a slab together"),) * (buffers > 0)),
        Constant("TAPS", taps),
        Constant("CHUNKS", 2 * pairs, "of 16 input channels, and of zeros"),
        Constant("UNITS", taps * 2 * pairs, "chunks of the reduction"),
        Constant("POSITIONS", positions, "of pixels of the input where windows begin"),
        Constant("EIGHTS_APART", apart, "pixels"),
    )
    rolled = taps * pairs > MOST_UNROLLED_OF_GROUP
    read = ceil_div(positions, RUN_PIXELS) * RUN_PIXELS
    roles = {
        "atoms": share.n,
        "types": f"{SHORT_TYPES[q.x_type]}.{SHORT_TYPES[q.w_type]}",
        "lane_k": lane_k,
        "slab_k": slab_k,
        "block_k": block_slabs * slab_k,
        "words": 3 * (sums + 2 * lane_k + 16) // 2,  # none of these sums can be spilled
        "rolled": rolled,
        "held_bytes": weight_bytes
        + per_channel * block_slabs * 4 * (lane_k + 4) * 4
        + (ring_bytes(buffers) if buffers else INBOX_BYTES * fetches(share, target)),
        "streams": buffers > 0,
        "held_copies": (
            *(weight_bytes // 16,) * (not fetches(share, target)),
            *(block_slabs * slab_k,) * per_channel,
        ),
        # How far the last 64 pixels reach past the end of its input.
        "past_bytes": 16 * (read - positions) * apart // 8,
    }
    return (config, follows), words, roles, ("warpgroup", *("stream",) * (buffers > 0))


def _chunks_of(problem: Conv2d, slab: int, slab_k: int, all_chunks: int) -> int:
    """Chunks from the first that a slab looks at to its last."""
    if problem.groups == 1:
        return all_chunks
    last_k = min(problem.k, (slab + 1) * slab_k) - 1
    first = slab * slab_k // problem.k_group * problem.c_group
    last = (last_k // problem.k_group + 1) * problem.c_group - 1
    return last // 16 - first // 16 + 1


def _depthwise(problem: Conv2d, target: Target, share: Share) -> _Made:
    vector, rows, columns, words = 4 * share.n, share.m, 2, ceil_div(problem.s, 4)
    if 16 % vector or problem.c % vector:
        raise Infeasible(f"{vector} channels of a thread do not divide {problem.c}, or 16; 4 does for any")
    at_most(rows, max(1, 2 * share.rows - 1), f"rows of a thread (a tile has {share.rows})")
    taken = problem.s + problem.stride[1]
    run = 2 if problem.dilation[1] == 1 and taken <= 4 * words else 1
    held = held_words(problem, rows, columns, vector, run)
    at_most(held, MOST_WORDS, "registers for filters, pixels and sums")
    vectors = problem.k // vector
    two_ways = share.stage == "first" and _inside(problem, rows, columns) >= 0.5
    # A second way would have to be chosen before the filters come: of two, none asks early.
    height, width = input_span(problem, rows, columns)
    asks_early = share.stage == "first" and not two_ways
    early_rows = min(height, MOST_EARLY // (width * share.n)) * asks_early
    config = (
        Constant("ROWS", rows, "of output pixels of a thread"),
        Constant("COLUMNS", columns),
        Constant("VECTOR", vector, "channels of a thread"),
        Constant("RUN", run, "neighbouring outputs that share the words of the first"),
    )
    block_chunks = ceil_div(chunks(problem.c), share.blocks)
    at_most(share.blocks, ceil_div(chunks(problem.c), block_chunks), "shares (each has 16 channels or more)")
    follows = (
        Constant("WORDS", words, "of four taps in a filter row"),
        Constant("VECTORS", vectors, "of channels"),
        *((Constant("EARLY_ROWS", early_rows, "of a place, asked for before the filters"),) * (early_rows > 0)),
        *((Constant("BLOCK_K", 16 * block_chunks, "channels of a block"),) * (share.blocks > 1)),
    )
    taps = problem.r * words * vectors * vector
    roles = {
        "lane_k": vector,
        "slab_k": vector,
        "block_k": 16 * block_chunks,
        "words": held + 16,
        "two_ways": two_ways,
        "early": bool(early_rows),
    }
    # Of the image: lines are asked for, and most places are inside.
    wants = ("bytes", *("near",) * (share.stage == "first"), *("agreed",) * roles["two_ways"])
    return (config, follows), taps, roles, wants


def _inside(problem: Conv2d, rows: int, columns: int) -> float:
    """How many of the places of so many outputs look at pixels of the image alone."""
    sides = []
    for axis, size in enumerate((rows, columns)):
        span = input_span(problem, rows, columns)[axis]
        firsts = range(0, (problem.oh, problem.ow)[axis], size)
        starts = [first * problem.stride[axis] - problem.pad[axis] for first in firsts]
        sides.append(sum(0 <= at <= (problem.h, problem.w)[axis] - span for at in starts) / len(starts))
    return sides[0] * sides[1]
