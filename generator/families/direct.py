"""The `direct` family: grouped convolutions with few channels per group, on matrix instructions. A tile of the input is
loaded into shared memory once for all taps. One matrix contains the filters of several groups, with zeros between the
groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.convolution import input_span, pads_with_zero_point, why_not_bytes
from qconv.generator.cost_units import launched, of_activation
from qconv.generator.families import Family
from qconv.generator.plan import Constant, WaitingPlan, at_most, ceil_div, check_choices
from qconv.generator.tiles import (
    TiledConfig,
    TiledPlan,
    TiledRoles,
    check_blocks_per_sm,
    features,
    instruction_for,
    instruction_of,
    size_constants,
    tiles_of,
    warp_constants,
)
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# Bytes per chunk: a row of an 8x8 matrix of the instruction.
CHUNK = 16
# Words of filters that a lane has in registers while its warp works on its slab.
MOST_FILTER_WORDS = 128
# Output channels per slab. A lane cannot hold the sums and filters of more.
MOST_SLAB_K = 64
# Slabs that divide a group's output channels among them.
PARTS = (1, 2, 4, 8)
# Bytes of a group's channels, of floats.
MOST_GROUP_BYTES = 64


@dataclass(frozen=True)
class Direct(TiledConfig):
    family: ClassVar[str] = "direct"
    tile_h: int  # output rows per block
    tile_w: int  # output columns per block
    slabs: int  # slabs of channels per block
    warps: int
    batch: int  # groups of 16 pixels that a warp computes together
    blocks_per_sm: int  # resident blocks per multiprocessor


CHOICES: dict[str, tuple[int, ...]] = {
    "tile_h": (2, 4, 8, 14),
    "tile_w": (8, 16),
    "slabs": (1, 2, 4, 8),
    "warps": (1, 2, 4, 8),
    "batch": (1, 2),
    "blocks_per_sm": (2, 3, 4, 6, 8),
}
LIKELY: dict[str, tuple[int, ...]] = {"warps": (4, 8), "batch": (2,), "blocks_per_sm": (2, 3, 4, 6)}


def why_none(problem: Conv2d, target: Target) -> str | None:
    """Return why no config is feasible, or None."""
    of_floats, t = multiplies_floats(problem), problem.quantization.types
    instruction = instruction_for(problem, target) if of_floats else instruction_of(target)
    if instruction is None or not target.async_copies:
        multiplies = f"mma.sync of {t.x.name} by {t.w.name}" if of_floats else "mma.m16n8k32"
        return f"{target.name} has no {multiplies} with asynchronous copies"
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: neighbouring channels must lie side by side, as in nhwc"
    if of_floats:
        return _why_not_groups(problem)
    if problem.c_group not in (1, 2, 4, 8, 16, 32):
        return f"groups of {problem.c_group} channels do not divide 16 and are not 32"
    if problem.c % 4:
        return f"c={problem.c} is no multiple of 4, the narrowest asynchronous copy"
    return why_not_bytes(problem)


def _why_not_groups(problem: Conv2d) -> str | None:
    """Return why no slab of floats has whole groups, or None."""
    group_bytes, x = problem.c_group * problem.quantization.types.x.bytes, problem.quantization.types.x.name
    if group_bytes > MOST_GROUP_BYTES or (CHUNK % group_bytes and group_bytes % CHUNK):
        return (
            f"groups of {problem.c_group} channels of {x}: {group_bytes} bytes neither divide {CHUNK} nor are a "
            f"multiple of it up to {MOST_GROUP_BYTES}"
        )
    if problem.pixel_bytes % 4:
        return f"c={problem.c} of {x}: pixels are no multiple of 4 bytes, the narrowest asynchronous copy"
    return None


def multiplies_floats(problem: Conv2d) -> bool:
    return not problem.quantization.types.sum.is_integer


# Measured clocks over counted clocks, for 15 kernels on an H200: more overlaps than the model describes.
FITTED = 0.79


@dataclass(frozen=True, kw_only=True)
class DirectRoles(TiledRoles):
    elements: str  # folder of the template files that know the size of an element
    repack: str
    fills: bool
    splits: bool  # several slabs have the same input channels


@dataclass(frozen=True)
class Slab:
    """The input channels of whole groups, whose filters share a matrix, and the output channels of a warp."""

    chunks: int  # chunks of 16 bytes of input channels
    c: int  # input channels
    k: int  # output channels
    parts: int  # slabs that have the same input channels


@dataclass(frozen=True)
class DirectPlan(WaitingPlan, TiledPlan):
    page: ClassVar[str] = "families/direct/page.j2"

    config: Direct
    slab: Slab
    in_bytes: int  # bytes of input per tile
    x_bytes: int  # bytes per copy of x
    vector_k: int  # output channels per store

    @property
    def taps(self) -> int:
        return self.problem.r * self.problem.s

    @property
    def vectors(self) -> int:
        """Copies per tile of input."""
        return self.in_bytes // self.x_bytes

    @property
    def fills(self) -> bool:
        """True where the kernel writes the padding, because a copy can only fill with zeros."""
        return pads_with_zero_point(self.problem)

    @cached_property
    def alignment(self) -> dict[str, int]:
        t = self.problem.quantization.types
        return self._aligned(self.x_bytes, self.vector_k * t.y.bytes) | {"w": t.w.bytes}

    @property
    def roles(self) -> DirectRoles:
        t, of_floats = self.problem.quantization.types, multiplies_floats(self.problem)
        return DirectRoles(
            instruction=self.instruction,
            spelled=self.spelled,
            operation=self.operation,
            a_word=t.x.word,
            b_word=t.w.word,
            elements=f"families/direct/{'floats' if of_floats else 'bytes'}",
            repack=f"convolution/repack_{'elements' if of_floats else 'weights'}.j2",
            fills=self.fills,
            splits=self.slab.parts > 1,
        )

    @property
    def wants(self) -> tuple[str, ...]:
        return ("warp", "copies", "matrices", *("fill",) * self.fills, *super().wants)

    @property
    def _config_constants(self) -> tuple[Constant, ...]:
        slabs = Constant("SLABS", self.config.slabs, "slabs of channels per block")
        return (*size_constants(self.config), slabs, *warp_constants(self.config))

    @property
    def _own_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("TAPS", self.taps, "taps per filter"),
            Constant("CHUNKS", self.slab.chunks, f"chunks of 16 {self._in_chunks} per slab"),
            *self._of_floats,
            *self.tiles.slab_constants,
            Constant("STEPS", self.steps, "steps along the reduction"),
            Constant("ATOMS", self.atoms, "instructions per step"),
            *self.tiles.constants,
            Constant("X_BYTES", self.x_bytes, "bytes per copy of x"),
            Constant("VECTOR_K", self.vector_k, "channels per store"),
            *self._copies_in_flight,
        )

    @property
    def _in_chunks(self) -> str:
        return "bytes of input channels" if multiplies_floats(self.problem) else "input channels"

    @property
    def _of_floats(self) -> tuple[Constant, ...]:
        if not multiplies_floats(self.problem):
            return ()
        return (
            Constant("CHANNEL_BYTES", self.problem.quantization.types.x.bytes, "bytes per input channel of a pixel"),
            Constant("PARTS", self.slab.parts, "slabs that have the same input channels"),
        )

    @property
    def _copies_in_flight(self) -> tuple[Constant, ...]:
        """Return the length of a thread's queue of copies, which the CPU device needs."""
        if self.target.vendor != "cpu":
            return ()
        return (Constant("COPIES_IN_FLIGHT", ceil_div(self.vectors, self.tiles.threads), "queued copies per thread"),)

    def cost(self) -> float:
        config, problem, tiles, steps, atoms = self.config, self.problem, self.tiles, self.steps, self.atoms
        sixteens = ceil_div(config.tile_h * config.tile_w, 16) * config.slabs
        sums = 1 + problem.quantization.w_zero_point
        # Warp instructions: the copies, then loads, products and epilogue per 16 pixels of a slab.
        of_output = 6 + of_activation(problem)
        of_sixteen = steps * (3 + 2.5 * atoms * sums) + atoms * 4 * of_output + 30
        work = self.vectors / 32 * 14 + sixteens * of_sixteen
        # one thread runs after the other
        if self.target.vendor == "cpu":
            return tiles.count * work * 32 / 64
        per_sm = tiles.resident
        # The warps issue few instructions per clock, because each waits for its own results.
        at_a_time = min(2.5, per_sm * tiles.threads / 32 * (1 + config.batch) / 24)
        step = max(per_sm * work / at_a_time, per_sm * self.in_bytes / 24)
        return launched(problem, self.target, FITTED * (tiles.turns * (step + 250) + 3000 + 3 * steps * atoms))


def plan(problem: Conv2d, config: Direct, target: Target) -> DirectPlan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(reason)
    instruction = instruction_for(problem, target)
    assert instruction is not None
    slab = _slab(problem)
    steps, atoms = _steps(problem, slab.chunks), slab.k // 8
    filter_words = 2 * steps * atoms
    at_most(filter_words, MOST_FILTER_WORDS, "registers of a lane for filters")
    if config.slabs % slab.parts:
        raise Infeasible(f"slabs={config.slabs} are not all {slab.parts} parts of a group's output channels")
    tiles = tiles_of(problem, config, CHOICES, slab.k, ceil_div(problem.c, slab.c) * slab.parts, target)
    in_rows, in_columns = input_span(problem, config.tile_h, config.tile_w)
    smem_bytes = _smem_bytes(problem, config, slab, in_rows * in_columns)
    registers = filter_words + config.batch * 4 * atoms * (1 + problem.quantization.w_zero_point) + 40
    check_blocks_per_sm(config.blocks_per_sm, tiles.threads, smem_bytes, registers, target)
    y_bytes = problem.quantization.types.y.bytes
    return DirectPlan(
        problem=problem,
        config=config,
        target=target,
        instruction=instruction,
        tiles=tiles,
        steps=steps,
        smem_bytes=smem_bytes,
        slab=slab,
        in_bytes=in_rows * in_columns * _pixel_bytes(config, slab),
        x_bytes=math.gcd(CHUNK, problem.pixel_bytes),
        vector_k=math.gcd(16 // y_bytes, math.gcd(problem.k, slab.k)),
    )


def _slab(problem: Conv2d) -> Slab:
    """Return the slab of the problem. Where a lane cannot hold the filters of a group of floats, several warps divide
    the group's output channels among them."""
    chunk_c = CHUNK // problem.quantization.types.x.bytes
    c = max(chunk_c, problem.c_group)
    chunks, k = c // chunk_c, c // problem.c_group * problem.k_group
    if k % 8:
        raise Infeasible(f"{c} input channels have {k} output channels, no multiple of 8")
    parts = 1
    if multiplies_floats(problem) and c == problem.c_group:
        words = 2 * _steps(problem, chunks) * k // 8
        parts = next((p for p in PARTS if k % (8 * p) == 0 and k <= p * MOST_SLAB_K and words <= p * MOST_FILTER_WORDS), 1)
    at_most(k // parts, MOST_SLAB_K, f"output channels of {c} input channels")
    return Slab(chunks=chunks, c=c, k=k // parts, parts=parts)


def _steps(problem: Conv2d, chunks: int) -> int:
    """Return the instructions along the reduction, of two chunks each."""
    return ceil_div(problem.r * problem.s * chunks, 2)


def _pixel_bytes(config: Direct, slab: Slab) -> int:
    """Return the bytes of a pixel that a block loads."""
    return config.slabs // slab.parts * slab.chunks * CHUNK


def _smem_bytes(problem: Conv2d, config: Direct, slab: Slab, in_pixels: int) -> int:
    """Return the bytes of shared memory: the input of two tiles, in planes of 16 bytes of channels, and the outputs of
    one tile."""
    plane = (in_pixels + 6) // 8 * 8 + 1
    y_bytes = problem.quantization.types.y.bytes
    outputs = config.tile_h * config.tile_w * (config.slabs * slab.k * y_bytes + 16)
    return ceil_div(2 * _pixel_bytes(config, slab) * plane + outputs, 16) * 16


FAMILY = Family(
    ops=("conv2d",),
    config=Direct,
    choices=CHOICES,
    plan=plan,
    cost=DirectPlan.cost,
    features=features,
    why_none=why_none,
    likely=LIKELY,
)
