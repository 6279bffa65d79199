"""The `tcgen05` family: implicit GEMM by persistent blocks, for GPUs with tensor memory. One thread issues the TMA
copies of pixels (in im2col order) and weights, another one the products; warpgroups write one accumulator while the
other is multiplied. Pixels are the rows of the product and output channels its columns, so that an epilogue thread has
neighbouring channels of a pixel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.arithmetic.step import Argument
from qconv.errors import Infeasible
from qconv.generator.convolution import argument_fields, channel_arguments, problem_constants
from qconv.generator.cost_units import MEMORY, at_once
from qconv.generator.families import Family
from qconv.generator.families.wgmma import LATENCY, SHARED, START, fetched, written
from qconv.generator.persistent import MBARRIER_BYTES, BorderRoles, SlabPlan, slab_maps, why_not
from qconv.generator.plan import Config, Constant, Field, Launch, at_most, ceil_div, check_choices
from qconv.generator.tensor_map import CHUNK, TensorMap
from qconv.problem.convolution import Conv2d
from qconv.targets.instruction import TensorMemoryInstruction
from qconv.targets.target import Target

# Output channels that an epilogue thread reads at once.
STRIP = 32
ACCUMULATORS = 2
# Widest store of a thread.
STORE_BYTES = 16


@dataclass(frozen=True)
class Tcgen05(Config):
    family: ClassVar[str] = "tcgen05"
    pixels: int  # output pixels per tile
    channels: int  # output channels per tile
    writers: int  # warpgroups of the epilogue
    slab: int  # bytes of the reduction per slab
    slots: int  # slots of the ring of slabs

    @property
    def strips(self) -> int:
        """Strips that the epilogue's warpgroups divide: 128 pixels by 32 channels each."""
        return self.pixels // 128 * (self.channels // STRIP)


CHOICES: dict[str, tuple[int, ...]] = {
    "pixels": (128, 256),
    "channels": (32, 64, 96, 128, 192, 256),
    "writers": (1, 2),
    "slab": (64, 128),
    "slots": (2, 3, 4, 6, 8),
}


@dataclass(frozen=True, kw_only=True)
class Tcgen05Roles(BorderRoles):
    operation: str  # template file with the products
    spelled: str  # mnemonic in PTX
    channel_arguments: tuple[Argument, ...]
    load_channel: str = "nothing.j2"  # threads load the channels of a vector together


@dataclass(frozen=True)
class Tcgen05Plan(SlabPlan):
    page: ClassVar[str] = "families/tcgen05/page.j2"

    config: Tcgen05
    instruction: TensorMemoryInstruction
    columns: int  # allocated columns of tensor memory

    @property
    def threads(self) -> int:
        """Threads of the epilogue's warpgroups, of the warp that issues copies and of the warp that issues products."""
        return 128 * self.config.writers + 64

    @property
    def slab(self) -> int:
        return self.config.slab

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        main = Launch("conv2d_tcgen05", (self.blocks, 1, 1), self.threads, self.smem_bytes)
        return (*self.fold_launches, main)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        pixel_map, weight_map = maps(self.problem, self.config)
        return argument_fields(
            self.problem,
            (
                *self.border_fields,
                Field("pixel_map", "tile::TensorMap", "tensor_map", "map of x", tensor_map=pixel_map),
                Field("weight_map", "tile::TensorMap", "tensor_map", "map of w", tensor_map=weight_map),
            ),
        )

    @cached_property
    def alignment(self) -> dict[str, int]:
        t = self.problem.quantization.types
        written = {"y": t.y} if t.residual is None else {"y": t.y, "residual": t.residual}
        at_once = {name: min(STORE_BYTES, self.vector_k * element.bytes) for name, element in written.items()}
        return {"x": CHUNK, "w": CHUNK} | at_once

    @property
    def vector_k(self) -> int:
        """Neighbouring channels of a pixel that a thread writes at once: all of them exist or none."""
        return next(vector for vector in (16, 4, 1) if self.problem.k % vector == 0)

    @property
    def wants(self) -> tuple[str, ...]:
        return (*super().wants, "tensors", "tensor_memory")

    @property
    def roles(self) -> Tcgen05Roles:
        return Tcgen05Roles(
            **vars(self.border_roles),
            operation="instruction/tcgen05.j2",
            spelled=self.instruction.mnemonic,
            channel_arguments=channel_arguments(self.problem),
        )

    @property
    def border_of(self) -> str:
        return "nothing.j2" if self.borders is None else "families/tcgen05/offset_at_borders.j2"

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        config = self.config
        return {
            "The problem.": problem_constants(self.problem, filter_rows=True),
            "The config.": (
                Constant("TILE_M", config.pixels, "output pixels per tile"),
                Constant("TILE_N", config.channels, "output channels per tile"),
                Constant("WRITERS", config.writers, "warpgroups of the epilogue"),
                Constant("SLOTS", config.slots, "slots of the ring of slabs"),
            ),
            "Derived values.": self._constants_that_follow,
        }

    @property
    def _constants_that_follow(self) -> tuple[Constant, ...]:
        return (
            Constant("WARP_SIZE", self.target.warp_size),
            Constant("THREADS", self.threads),
            *self.slab_constants,
            Constant("COLUMNS", self.columns, "allocated columns of tensor memory"),
            *self.tile_constants,
            Constant("VECTOR_K", self.vector_k, "neighbouring outputs that a thread writes at once"),
            *self.last_constants,
        )


def maps(problem: Conv2d, config: Tcgen05) -> tuple[TensorMap, TensorMap]:
    return slab_maps(problem, config.pixels, "w", problem.k, config.channels, config.slab)


def why_none(problem: Conv2d, target: Target) -> str | None:
    """Return why no config is feasible, or None."""
    instruction = target.tensor_memory
    if instruction is None or not target.tensor_maps:
        return f"{target.name} has no products of bytes in tensor memory; wgmma or mma serves it"
    return why_not(problem, instruction)


def plan(problem: Conv2d, config: Tcgen05, target: Target) -> Tcgen05Plan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(reason)
    instruction = target.tensor_memory
    assert instruction is not None
    _check_useful(problem, config)
    columns = ACCUMULATORS * config.pixels // instruction.m * config.channels
    at_most(columns, instruction.columns, f"columns of tensor memory for {ACCUMULATORS} accumulators")
    smem_bytes = _smem_bytes(config)
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    channel_tiles = ceil_div(problem.k, config.channels)
    tiles = channel_tiles * ceil_div(problem.pixels, config.pixels)
    made = Tcgen05Plan(
        problem=problem,
        config=config,
        target=target,
        instruction=instruction,
        columns=instruction.allocated(columns),
        smem_bytes=smem_bytes,
        channel_tiles=channel_tiles,
        tiles=tiles,
        blocks=min(tiles, target.processors),
    )
    made.check_sizes(config.pixels)
    maps(problem, config)
    return made


def _smem_bytes(config: Tcgen05) -> int:
    """Return the bytes of shared memory: the slots of both operands, the mbarriers of both rings, and four bytes for
    the address of the allocation in tensor memory; rounded up to the period of the swizzle."""
    slot = (config.pixels + config.channels) * config.slab + 2 * MBARRIER_BYTES
    return ceil_div(config.slots * slot + ACCUMULATORS * 2 * MBARRIER_BYTES + 4, 1024) * 1024


def _check_useful(problem: Conv2d, config: Tcgen05) -> None:
    """Reject configs that leave a warpgroup of the epilogue, or most of a tile, idle."""
    if config.strips % config.writers:
        raise Infeasible(
            f"writers={config.writers}: warpgroups divide the tile's {config.strips} strips of 32 channels evenly; "
            "writers=1 serves it"
        )
    at_most(config.slab, max(64, 2 * problem.c - 1), f"bytes of a slab (a pixel has {problem.c})")
    at_most(config.channels, max(STRIP, 2 * problem.k - 1), f"channels of a tile (the problem has {problem.k})")
    at_most(config.pixels, max(128, 2 * problem.pixels - 1), f"pixels of a tile (the problem has {problem.pixels})")


def structure(config: Tcgen05) -> tuple[int, ...]:
    return config.writers, config.slab


# The cost model is not fitted: no GPU has run the family. The rate of the tensor cores is from the data sheet (4.5 POPS
# of dense int8 on a B200); everything else is taken from `wgmma` on an H200.
#
# Products of bytes per clock and multiprocessor: 4.5e15 operations per second, 148 multiprocessors, 1.85 GHz.
PRODUCTS = 8192
# Exposed clocks per slab. An assumption, so that among configs with the same bytes the longer slab wins.
OF_SLAB = 8
# Speed-up of the epilogue from a second warpgroup. The warps of a single one are stalled half of the time.
OF_TWO = 1.8


def cost(plan: Tcgen05Plan) -> float:
    multiplied, written = plan.slabs * _slab(plan), _epilogue(plan)
    rounds = ceil_div(plan.tiles, plan.target.processors)
    # A pipeline of two stages: the longer one counts in every round, the shorter one once.
    issued = rounds * max(multiplied, written) + min(multiplied, written)
    return at_once(issued, plan.problem.io_bytes / plan.target.processors / MEMORY, 3) + START


def _epilogue(plan: Tcgen05Plan) -> float:
    config = plan.config
    outputs = config.pixels * config.channels / 128 / (1 if config.writers == 1 else OF_TWO)
    clocks = written(plan.problem, outputs)
    if plan.problem.quantization.residual != "none":
        clocks += config.strips / config.writers * LATENCY
    return clocks


def _slab(plan: Tcgen05Plan) -> float:
    config = plan.config
    # Per 128 pixels and 32 bytes of the reduction: clocks of the multiplication, and of reading its operands.
    rate, read = 128 * config.channels * 32 / PRODUCTS, (128 + config.channels) * 32 / SHARED
    multiplied = config.pixels // 128 * (config.slab // 32) * max(rate, read)
    # A slot is free once the products of its slab are complete.
    came = fetched(plan.problem, config.pixels + config.channels, config.slots, config.slab)
    return at_once(multiplied, came, 8) + OF_SLAB


FAMILY = Family(
    ops=("conv2d",),
    config=Tcgen05,
    choices=CHOICES,
    plan=plan,
    cost=cost,
    why_none=why_none,
    structure=structure,
)
