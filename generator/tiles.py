"""What `direct` and `stem` have in common: blocks that take tiles of output pixels in turn, on `mma.m16n8k32`. A warp
multiplies some of a tile's sixteens of pixels by one slab of channels, whose filters it keeps in registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from qconv.errors import Infeasible
from qconv.generator.convolution import SPREAD_THREADS
from qconv.generator.plan import Constant, Field, at_most, ceil_div
from qconv.instruction import MatrixInstruction
from qconv.problem import Conv2d
from qconv.target import Target

BATCH_SAYS = "sixteens of pixels that a warp has at a time"
RESIDENTS_SAYS = "blocks that a multiprocessor holds at a time"


class Tiled(Protocol):
    """A config of either family."""

    @property
    def tile_h(self) -> int: ...
    @property
    def tile_w(self) -> int: ...
    @property
    def slabs(self) -> int: ...
    @property
    def warps(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def residents(self) -> int: ...


@dataclass(frozen=True)
class Tiles:
    slab_k: int
    slabs: int  # of the problem
    slab_tiles: int
    tiles_h: int
    tiles_w: int
    count: int
    places: int
    threads: int

    @property
    def slab_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("SLAB_K", self.slab_k, "output channels of a slab"),
            Constant("ALL_SLABS", self.slabs),
        )

    @property
    def constants(self) -> tuple[Constant, ...]:
        return (
            Constant("TILES_H", self.tiles_h),
            Constant("TILES_W", self.tiles_w),
            Constant("SLAB_TILES", self.slab_tiles, "blocks that share pixels"),
            Constant("TILES", self.count),
            Constant("PLACES", self.places, "blocks, which have tiles in turn"),
        )


def instruction_of(target: Target) -> MatrixInstruction | None:
    return next((i for i in target.instructions if i.name == "mma_m16n8k32"), None)


def tiles_of(
    problem: Conv2d, config: Tiled, choices: dict[str, tuple[int, ...]], slab_k: int, slabs: int, target: Target
) -> Tiles:
    """How a config divides a problem of so many slabs, each of `slab_k` output channels."""
    at_most(config.slabs, max(1, 2 * slabs - 1), f"slabs (the problem has {slabs})")
    for name, size in (("tile_h", problem.oh), ("tile_w", problem.ow)):
        at_most(getattr(config, name), max(min(choices[name]), 2 * size - 1), f"{name} (the problem has {size})")
    if config.warps % config.slabs:
        raise Infeasible(f"warps={config.warps} must be a multiple of slabs={config.slabs}: each has one")
    pixels = config.tile_h * config.tile_w
    if pixels % (16 * config.batch):
        raise Infeasible(f"a tile of {pixels} pixels is no multiple of 16 by batch={config.batch}")
    at_most(config.warps // config.slabs, pixels // (16 * config.batch), "warps that share a tile's pixels")
    tiles_h, tiles_w = ceil_div(problem.oh, config.tile_h), ceil_div(problem.ow, config.tile_w)
    slab_tiles = ceil_div(slabs, config.slabs)
    count = problem.n * tiles_h * tiles_w * slab_tiles
    at_most(count, 2**30, "tiles")
    # A block keeps its slabs.
    places = min(count, ceil_div(config.residents * target.processors, slab_tiles) * slab_tiles)
    return Tiles(slab_k, slabs, slab_tiles, tiles_h, tiles_w, count, places, config.warps * target.warp_size)


def check_residents(residents: int, threads: int, smem_bytes: int, words: int, target: Target) -> None:
    """Whether a multiprocessor holds so many blocks at a time, each thread with so many words in registers."""
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    at_most(residents * (smem_bytes + 1024), target.smem_bytes_per_sm, "bytes of shared memory of all residents")
    at_most(residents * threads, target.threads_per_sm, "threads of all residents")
    if target.vendor != "cpu":
        at_most(residents * threads * words, target.registers_per_sm, "registers of all residents, about")


def fragments(words: int) -> Field:
    return Field("fragments", "int*", "workspace", "the filters as a warp's lanes hold them", None, words)


def matrix_roles(problem: Conv2d, instruction: MatrixInstruction, target: Target) -> dict[str, Any]:
    return {
        "instruction": instruction,
        "spelled": instruction.spell(problem.quantization.x_type, problem.quantization.w_type),
        "operation": f"instruction/{'emulated' if target.vendor == 'cpu' else instruction.name}.j2",
        "spread_threads": SPREAD_THREADS,
    }
