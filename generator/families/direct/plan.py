"""The plan of `direct`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.convolution import input_span, pads_with_zero_point
from qconv.generator.families.direct.config import (
    CHOICES,
    CHUNK,
    Direct,
    Slab,
    converts_floats,
    filter_words,
    multiplies_floats,
    slab_of,
    why_none,
)
from qconv.generator.plan import Constant, WaitingPlan, at_most, ceil_div, check_choices
from qconv.generator.tiles import (
    TiledPlan,
    TiledRoles,
    check_blocks_per_sm,
    instruction_for,
    size_constants,
    tiles_of,
    warp_constants,
)
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# Registers of a thread beside filters and sums: of bytes, of floats, and of floats that are converted, whose filters
# the compiler converts before the loop, into twice as many words.
OF_BYTES, OF_FLOATS, OF_CONVERTED = 40, 48, 84


@dataclass(frozen=True, kw_only=True)
class DirectRoles(TiledRoles):
    elements: str  # folder of the template files that know the size of an element
    multiply: str
    fills: bool


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
    def per_pixel(self) -> int:
        """Copies per pixel of input."""
        return _pixel_bytes(self.config, self.slab) // self.x_bytes

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
            pack=f"convolution/pack/{'elements' if of_floats else 'bytes'}.j2",
            multiply=f"families/direct/{'floats/multiply_rows' if self.pairs_rows else 'multiply'}.j2",
            fills=self.fills,
        )

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
        queued = ceil_div(self.vectors, self.tiles.threads)
        if multiplies_floats(self.problem):
            team = min(self.per_pixel, self.tiles.threads)
            queued = ceil_div(self.per_pixel, team) * ceil_div(
                self.vectors // self.per_pixel, self.tiles.threads // team
            )
        return (Constant("COPIES_IN_FLIGHT", queued, "queued copies per thread"),)

    @property
    def sixteens(self) -> int:
        """Groups of 16 pixels of a tile, counted once per slab."""
        return ceil_div(self.config.tile_h * self.config.tile_w, 16) * self.config.slabs

    @property
    def pairs_rows(self) -> bool:
        """True where a warp's two groups of 16 floats lie one below the other, and a row of the windows of both is
        loaded once."""
        config, problem = self.config, self.problem
        below = config.batch == 2 and config.tile_w == 16 and problem.stride[0] == problem.tap_steps[0]
        return below and multiplies_floats(problem)

    @property
    def loads(self) -> float:
        """Loads of matrices per group of 16 pixels."""
        if not self.pairs_rows:
            return self.steps
        r, s, chunks = self.problem.r, self.problem.s, self.slab.chunks
        return (r + 1) * s * chunks / 4 if chunks % 2 == 0 else (r // 2 + 1) * s * chunks / 2

    @property
    def products(self) -> float:
        """Instructions that multiply, per group of 16 pixels."""
        if not self.pairs_rows or self.slab.chunks % 2 == 0:
            return self.steps * self.atoms
        # Both groups multiply every load but the last one of an even number of rows, which the upper one has not.
        loads = 2 * self.loads - (self.problem.r % 2 == 0) * self.problem.s * self.slab.chunks / 2
        return loads * self.atoms

    @property
    def out_bytes(self) -> int:
        """Bytes of output per tile."""
        config, y = self.config, self.problem.quantization.types.y
        return config.tile_h * config.tile_w * config.slabs * self.slab.k * y.bytes

    @property
    def stores(self) -> int:
        """Stores per tile of output."""
        return self.out_bytes // (self.vector_k * self.problem.quantization.types.y.bytes)


def plan(problem: Conv2d, config: Direct, target: Target) -> DirectPlan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(reason)
    instruction = instruction_for(problem, target)
    assert instruction is not None
    slab = slab_of(problem)
    if config.slabs % slab.parts:
        raise Infeasible(f"slabs={config.slabs} are not all {slab.parts} parts of a group's output channels")
    tiles = tiles_of(problem, config, CHOICES, slab.k, ceil_div(problem.c, slab.c) * slab.parts, target)
    in_rows, in_columns = input_span(problem, config.tile_h, config.tile_w)
    smem_bytes = _smem_bytes(problem, config, slab, in_rows * in_columns)
    registers = _registers(problem, config, slab, target)
    check_blocks_per_sm(config.blocks_per_sm, tiles.threads, smem_bytes, registers, target)
    y_bytes = problem.quantization.types.y.bytes
    return DirectPlan(
        problem=problem,
        config=config,
        target=target,
        instruction=instruction,
        tiles=tiles,
        steps=slab.steps,
        smem_bytes=smem_bytes,
        slab=slab,
        in_bytes=in_rows * in_columns * _pixel_bytes(config, slab),
        x_bytes=math.gcd(CHUNK, problem.pixel_bytes),
        vector_k=math.gcd(16 // y_bytes, math.gcd(problem.k, slab.k)),
    )


def _registers(problem: Conv2d, config: Direct, slab: Slab, target: Target) -> int:
    """Return the registers per thread, about."""
    words = filter_words(slab)
    sums = config.batch * slab.k // 2 * (1 + problem.quantization.w_zero_point)
    if not multiplies_floats(problem):
        return words + sums + OF_BYTES
    whole = target.generation.register_granule
    kept = 2 * words + OF_CONVERTED if converts_floats(problem, target) else words + OF_FLOATS
    registers = ceil_div(kept + sums, whole) * whole
    at_most(registers, target.generation.registers_per_thread, "registers of a thread, about")
    return registers


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
