"""Plans shared by `direct` and `stem`: blocks that take tiles of output pixels one after the other, on `mma.m16n8k32`.
A warp multiplies groups of 16 pixels by one slab of output channels, whose filters it keeps in registers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

from qconv.errors import Infeasible
from qconv.generator.convolution import (
    REPACK_THREADS,
    ConvolutionPlan,
    argument_fields,
    fold_constants,
    fold_launches,
    problem_constants,
    repack_launch,
)
from qconv.generator.expect.features import filled, log, rounds
from qconv.generator.plan import Config, Constant, Field, Launch, Roles, at_most, ceil_div
from qconv.problem.convolution import Conv2d
from qconv.targets.instruction import MatrixInstruction
from qconv.targets.target import Target

BLOCKS_PER_SM_SAYS = "resident blocks per multiprocessor"


class TiledConfig(Config):
    """The fields that the configs of both families have, each family in its own order."""

    tile_h: int
    tile_w: int
    slabs: int
    warps: int
    batch: int
    blocks_per_sm: int


@dataclass(frozen=True)
class Tiles:
    slab_k: int
    slabs: int  # slabs of the whole problem
    slab_tiles: int
    tiles_h: int
    tiles_w: int
    count: int
    grid_blocks: int
    resident: int  # resident blocks per multiprocessor, at most as many as the grid has
    threads: int

    @property
    def turns(self) -> int:
        """Tiles per block, taken one after the other."""
        return ceil_div(self.count, self.grid_blocks)

    @property
    def slab_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("SLAB_K", self.slab_k, "output channels per slab"),
            Constant("ALL_SLABS", self.slabs, "slabs of the problem"),
        )

    @property
    def constants(self) -> tuple[Constant, ...]:
        return (
            Constant("TILES_H", self.tiles_h),
            Constant("TILES_W", self.tiles_w),
            Constant("SLAB_TILES", self.slab_tiles, "tiles that have the same pixels"),
            Constant("TILES", self.count),
            Constant("GRID_BLOCKS", self.grid_blocks, "persistent blocks; each takes every GRID_BLOCKS-th tile"),
        )


def instruction_of(target: Target) -> MatrixInstruction | None:
    return next((i for i in target.instructions if i.name == "mma_m16n8k32"), None)


def instruction_for(problem: Conv2d, target: Target) -> MatrixInstruction | None:
    """Return the instruction with these fragments that multiplies the problem's types, or None."""
    t = problem.quantization.types
    like = (i for i in target.instructions if (i.file or i.name) == "mma_m16n8k32")
    return next((i for i in like if i.serves(t.x, t.w)), None)


def tiles_of(
    problem: Conv2d, config: TiledConfig, choices: dict[str, tuple[int, ...]], slab_k: int, slabs: int, target: Target
) -> Tiles:
    """Divide a problem of `slabs` slabs, each of `slab_k` output channels, into the config's tiles."""
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
    # Lanes compute the address of their outputs even for tiles that reach past the image's last row or column.
    outputs = problem.n * (problem.oh + config.tile_h) * (problem.ow + config.tile_w) * problem.k
    at_most(outputs, 2**31 - 1, "outputs of whole tiles")
    # A block keeps its slabs, so the grid is a multiple of the slab tiles.
    grid_blocks = min(count, ceil_div(config.blocks_per_sm * target.processors, slab_tiles) * slab_tiles)
    return Tiles(
        slab_k=slab_k,
        slabs=slabs,
        slab_tiles=slab_tiles,
        tiles_h=tiles_h,
        tiles_w=tiles_w,
        count=count,
        grid_blocks=grid_blocks,
        resident=min(config.blocks_per_sm, ceil_div(grid_blocks, target.processors)),
        threads=config.warps * target.warp_size,
    )


def check_blocks_per_sm(blocks_per_sm: int, threads: int, smem_bytes: int, words: int, target: Target) -> None:
    """Check that `blocks_per_sm` blocks fit a multiprocessor, with `words` registers per thread."""
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    at_most(
        blocks_per_sm * (smem_bytes + 1024), target.smem_bytes_per_sm, "bytes of shared memory of all resident blocks"
    )
    at_most(blocks_per_sm * threads, target.threads_per_sm, "threads of all resident blocks")
    if target.vendor != "cpu":
        at_most(blocks_per_sm * threads * words, target.registers_per_sm, "registers of all resident blocks, about")


def size_constants(config: TiledConfig) -> tuple[Constant, ...]:
    """Return the constants that come first in both families."""
    return (
        Constant("TILE_H", config.tile_h, "output rows per tile"),
        Constant("TILE_W", config.tile_w, "output columns per tile"),
    )


def warp_constants(config: TiledConfig) -> tuple[Constant, ...]:
    """Return the constants that come last in both families."""
    return (
        Constant("WARPS", config.warps),
        Constant("BATCH", config.batch, "groups of 16 pixels that a warp computes together"),
        Constant("BLOCKS_PER_SM", config.blocks_per_sm, BLOCKS_PER_SM_SAYS),
    )


@dataclass(frozen=True, kw_only=True)
class TiledRoles(Roles):
    instruction: MatrixInstruction
    spelled: str  # the instruction's mnemonic for these types
    operation: str  # template file that defines the instruction as a function
    repack_threads: int = REPACK_THREADS
    weights_in_smem: bool = False  # otherwise they are in registers
    filter_word: str = "convolution/filter_word.j2"  # packs a word of a filter


@dataclass(frozen=True)
class TiledPlan(ConvolutionPlan):
    """The plan of either family. Each adds where a tile's input is read from."""

    problem: Conv2d
    config: TiledConfig
    instruction: MatrixInstruction
    tiles: Tiles
    steps: int  # instructions along the reduction
    smem_bytes: int

    @property
    def atoms(self) -> int:
        """Instructions per step for the channels of a slab."""
        return self.tiles.slab_k // 8

    @property
    def fragment_words(self) -> int:
        """Words of all filters in the order in which lanes hold them."""
        return self.tiles.slabs * self.steps * self.atoms * 64

    @property
    def spelled(self) -> str:
        return self.instruction.spell(self.problem.quantization.x_type, self.problem.quantization.w_type)

    @property
    def operation(self) -> str:
        name = self.instruction.file or self.instruction.name
        return f"instruction/{'emulated' if self.target.vendor == 'cpu' else name}.j2"

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        grid = (self.tiles.grid_blocks, 1, 1)
        main = Launch(f"conv2d_{self.config.family}", grid, self.tiles.threads, self.smem_bytes)
        return (*fold_launches(self.problem), repack_launch(self.fragment_words), main)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        says = "filters, in the order in which a warp's lanes hold them"
        fragments = Field("fragments", "int*", "workspace", says, None, self.fragment_words)
        return argument_fields(self.problem, (fragments,))

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": problem_constants(self.problem, filter_rows=True),
            "The config.": self._config_constants,
            "Derived values.": (
                Constant("WARP_SIZE", self.target.warp_size),
                Constant("THREADS", self.tiles.threads),
                *self._own_constants,
                Constant("SMEM_BYTES", self.smem_bytes),
                *fold_constants(self.problem),
            ),
        }

    @property
    @abstractmethod
    def _config_constants(self) -> tuple[Constant, ...]: ...

    @property
    @abstractmethod
    def _own_constants(self) -> tuple[Constant, ...]:
        """Derived constants of this family, those of the tiles included."""

    def _aligned(self, x: int, y: int) -> dict[str, int]:
        """Return the alignment of the arrays. Weights and a residual are read element by element."""
        residual = self.problem.quantization.types.residual
        return {"x": x, "w": 1, "y": y} | ({} if residual is None else {"residual": residual.bytes})


def features(plan: TiledPlan) -> dict[str, float]:
    """Return the inputs for the cost model's correction: how full the tiles are, and how long a block runs."""
    problem, config, tiles = plan.problem, plan.config, plan.tiles
    return {
        "rows_filled": filled(problem.oh, config.tile_h),
        "columns_filled": filled(problem.ow, config.tile_w),
        **rounds("turns", "last_turn", tiles.count / tiles.grid_blocks),
        "slabs_filled": filled(tiles.slabs, config.slabs),
        "warps_per_sm": log(config.warps * tiles.resident),
        "tile": log(config.tile_h * config.tile_w),
    }
