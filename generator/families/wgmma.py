"""The `wgmma` family: implicit GEMM by persistent, warp-specialized blocks. A producer warpgroup issues the TMA copies
of pixels (in im2col order) and weights; consumers multiply them by `wgmma`, with output channels as the rows of the
product and pixels as its columns. docs/hopper has the measurements behind each of these choices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, Literal

from qconv.errors import Infeasible
from qconv.generator import tensor_map
from qconv.generator.convolution import argument_fields, problem_constants, repack_launch
from qconv.generator.cost_units import MEMORY, at_once, moved_bytes, of_activation, of_parameters, of_residual
from qconv.generator.expect.features import filled, log, rounds
from qconv.generator.families import Family
from qconv.generator.persistent import (
    MBARRIER_BYTES,
    SLAB,
    Products,
    SlabPlan,
    of_staged,
    slab_maps,
    warpgroup_of,
    why_not,
)
from qconv.generator.plan import Config, Constant, Field, Launch, at_most, ceil_div, check_choices
from qconv.generator.tensor_map import CHUNK, TensorMap
from qconv.problem.convolution import Conv2d
from qconv.targets.instruction import WarpgroupInstruction
from qconv.targets.target import Target

GROUP_THREADS = 128
# Output channels per consumer: two instructions of 64 channels for each 32 bytes of the reduction.
CHANNELS = 128
# Pixels per consumer that leave registers for residuals and border offsets beside the sums, with outputs of several
# bytes.
MOST_WITH_BORDERS = 128
# Pixels per consumer whose sums, promoted, leave registers: a slab has sums of its own.
MOST_PROMOTED = 96
# Registers per thread after setmaxnreg. Three warpgroups share 65536.
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 40, 232


@dataclass(frozen=True)
class Wgmma(Config):
    family: ClassVar[str] = "wgmma"
    consumers: int  # warpgroups that multiply
    split_pixels: int  # 1: two consumers divide a tile's pixels; 0: its channels
    pixels: int  # output pixels per consumer
    weight_slots: int  # slots per ring of weights; the rings of pixels get the rest of shared memory
    lag: int  # slabs by which the second consumer follows the first

    @property
    def pixel_rings(self) -> int:
        return 2 if self.split_pixels else 1

    @property
    def weight_rings(self) -> int:
        return self.consumers // self.pixel_rings

    @property
    def ahead(self) -> int:
        return 0 if self.split_pixels else self.lag


CHOICES: dict[str, tuple[int, ...]] = {
    "consumers": (1, 2),
    "split_pixels": (0, 1),
    "pixels": (16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192),
    "weight_slots": (2, 3, 4, 6, 7, 9),
    "lag": (0, 1, 2, 3),
}


@dataclass(frozen=True, kw_only=True)
class WgmmaRoles(Products):
    residual_in_smem: bool
    repack: str  # template file of the kernel that rearranges the weights
    residual_as: str = "int"  # type in which the epilogue receives a residual
    residual_byte: str = ""  # function that makes it of a staged one
    tile_at_once: bool = False  # all products of a tile are in flight together
    taps: str  # C++ expression: taps of a filter, each of which is a pixel of a frame
    load_residual: str  # template file that reads the residuals of four channels from shared memory
    offsets: str = "nothing.j2"  # template file with the offsets of classes of pixels
    order: str = "nothing.j2"  # template file with the order of a frame's slabs
    zeros: str = "nothing.j2"  # template file with what is asserted of them
    zeros_behind: bool = False  # the last slab of a pixel ends in instructions that would only multiply zeros
    sums: Literal["in_place", "promoted"] = "in_place"


# Slots of pixels beyond those of the weights. More would not allow more fetches in flight.
MORE_PIXEL_SLOTS = 2
# With at most this many slabs, a tile is multiplied before the next tile of residuals arrives, so two are in flight.
FEW_SLABS = 4


@dataclass(frozen=True)
class Slots:
    """Slots per ring. Each consumer has its own ring of residuals."""

    pixels: int
    residuals: int
    smem_bytes: int


def slots(problem: Conv2d, config: Wgmma, slabs: int, target: Target) -> Slots:
    """Divide shared memory. Pixels get the slots that fit beside those of weights and residuals."""
    residuals = 1 if why_residual_is_not_staged(problem) is None else 0
    pixels = _pixel_slots(config, residuals, target)
    if residuals and slabs <= FEW_SLABS and _pixel_slots(config, 2, target) >= max(2, config.ahead + 1):
        residuals, pixels = 2, _pixel_slots(config, 2, target)
    if pixels < 2:
        least = _bytes_of_slots(config, 2, residuals) + 1024
        at_most(least, target.smem_bytes, f"bytes of shared memory on {target.name}")
    whole = ceil_div(_bytes_of_slots(config, pixels, residuals) + MBARRIER_BYTES, 1024) * 1024
    return Slots(pixels, residuals, whole)


def _pixel_slots(config: Wgmma, residuals: int, target: Target) -> int:
    # The 1024 bytes: one more mbarrier, and rounding up to the period of the swizzle.
    left = target.smem_bytes - 1024 - _bytes_of_slots(config, 0, residuals)
    return min(left // (config.pixel_rings * _slot(config.pixels)), config.weight_slots + MORE_PIXEL_SLOTS)


def _slot(rows: int) -> int:
    return rows * SLAB + 2 * MBARRIER_BYTES


def _bytes_of_slots(config: Wgmma, pixels: int, residuals: int) -> int:
    as_pixels = config.pixel_rings * pixels + config.consumers * residuals
    return as_pixels * _slot(config.pixels) + config.weight_rings * config.weight_slots * _slot(CHANNELS)


@dataclass(frozen=True)
class WgmmaPlan(SlabPlan):
    page: ClassVar[str] = "families/wgmma/page.j2"

    config: Wgmma
    instruction: WarpgroupInstruction
    pixel_slots: int
    residual_slots: int  # 0 where the epilogue reads the residual from device memory, or there is none

    @property
    def tile(self) -> tuple[int, int]:
        """Output channels and pixels per tile."""
        return CHANNELS * self.config.weight_rings, self.config.pixels * self.config.pixel_rings

    @property
    def consumers(self) -> int:
        return self.config.consumers

    @property
    def slots(self) -> int:
        """Slabs in flight."""
        return min(self.pixel_slots, self.config.weight_slots)

    @property
    def lag(self) -> int:
        return self.config.lag

    @property
    def waits_for_residuals(self) -> bool:
        return self.problem.quantization.types.residual is not None and self.residual_slots == 0

    @property
    def threads(self) -> int:
        return GROUP_THREADS * (self.config.consumers + 1)

    @property
    def weight_rows(self) -> int:
        """Output channels, rounded up to 128 with rows of zeros."""
        return CHANNELS * ceil_div(self.problem.k, CHANNELS)

    @property
    def weight_words(self) -> int:
        return self.weight_rows * self.problem.reduction * self.problem.quantization.types.w.bytes // 4

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        main = Launch("conv2d_wgmma", (self.blocks, 1, 1), self.threads, self.smem_bytes)
        return (*self.fold_launches, repack_launch(self.weight_words), main)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        says = "weights, with the rows of each 128 channels in the order of the lanes"
        weights = Field("weights", "int*", "workspace", says, None, self.weight_words)
        pixel_map, weight_map = maps(self.problem, self.config.pixels, self.weight_rows)
        of_residual: tuple[Field, ...] = ()
        if self.residual_slots:
            made = residual_map(self.problem, self.config.pixels)
            of_residual = (
                Field("residual_map", "tile::TensorMap", "tensor_map", "map of the residual", tensor_map=made),
            )
        return argument_fields(
            self.problem,
            (
                weights,
                *self.border_fields,
                Field("pixel_map", "tile::TensorMap", "tensor_map", "map of x", tensor_map=pixel_map),
                Field("weight_map", "tile::TensorMap", "tensor_map", "map of the weights", tensor_map=weight_map),
                *of_residual,
            ),
        )

    @cached_property
    def alignment(self) -> dict[str, int]:
        return self.aligned(self.vector_k, residual_in_chunks=self.residual_slots > 0)

    @property
    def vector_k(self) -> int:
        """Neighbouring channels of a pixel that a lane writes at once: all of them exist or none."""
        return 4 if self.problem.y_group % 4 == 0 else 1

    @property
    def wants(self) -> tuple[str, ...]:
        return (*super().wants, "tensors")

    @property
    def roles(self) -> WgmmaRoles:
        products = self.warpgroup_products(self.instruction, self.config.pixels, "wgmma_swizzled")
        staged = of_staged(self.problem)
        return WgmmaRoles(
            **vars(products),
            residual_in_smem=self.residual_slots > 0,
            repack=self.repack,
            taps="R * S" if self.problem.frames is None else "FRAME_TAPS * R * S",
            residual_as=staged.ctype if self.residual_slots > 0 else self.context.residual_type,
            residual_byte=staged.function,
            load_residual=f"families/wgmma/residual_{'inside' if self.borders is None else 'at_borders'}.j2",
            offsets="nothing.j2" if self.borders is None else "families/wgmma/offsets_at_borders.j2",
            order="nothing.j2" if self.problem.frames is None else "families/wgmma/order_of_frames.j2",
            zeros=f"families/wgmma/zeros_of_{self.context.x_is}.j2" if self.multiplies_by_function else "nothing.j2",
            zeros_behind=self.multiplies_by_function,
            sums="promoted" if self.problem.quantization.promoted_sums else "in_place",
        )

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": problem_constants(self.problem, filter_rows=True),
            "The config.": self._config_constants,
            "Derived values.": self._constants_that_follow,
        }

    @property
    def _config_constants(self) -> tuple[Constant, ...]:
        config = self.config
        return (
            Constant("CONSUMERS", config.consumers, "warpgroups that multiply"),
            Constant("TILE_N", config.pixels, "output pixels per consumer"),
            Constant("WEIGHT_SLOTS", config.weight_slots, "slots per ring of weights"),
            Constant("LAG", config.lag, "slabs by which the second consumer follows the first"),
        )

    @property
    def last_slab(self) -> int:
        """Bytes of a pixel's last slab that are multiplied. Only zeros follow them."""
        step = self.instruction.k_bytes
        return ceil_div((self.problem.frame_bytes - 1) % SLAB + 1, step) * step

    @property
    def multiplies_by_function(self) -> bool:
        """True where a function has the number of a slab's bytes: the last slab is short, or each has its own sums."""
        return self.last_slab < SLAB or self.problem.quantization.promoted_sums

    @property
    def _last_slab_constants(self) -> tuple[Constant, ...]:
        says = "bytes of a tap's last slab that are multiplied; only zeros follow"
        return (Constant("LAST_SLAB", self.last_slab, says),) * self.multiplies_by_function

    @property
    def _constants_that_follow(self) -> tuple[Constant, ...]:
        return (
            *self.role_constants(PRODUCER_REGISTERS, CONSUMER_REGISTERS),
            Constant("TILE_M", CHANNELS, "output channels per consumer"),
            *self.slab_constants,
            *self._last_slab_constants,
            Constant("PIXEL_RINGS", self.config.pixel_rings),
            Constant("WEIGHT_RINGS", self.config.weight_rings),
            Constant("PIXEL_SLOTS", self.pixel_slots, "slots per ring of pixels"),
            *(
                (Constant("RESIDUAL_SLOTS", self.residual_slots, "slots per consumer's ring of residuals"),)
                if self.residual_slots
                else ()
            ),
            *self.tile_constants,
            Constant("WEIGHT_ROWS", self.weight_rows, "output channels, padded with zeros to a multiple of 128"),
            Constant("VECTOR_K", self.vector_k, "neighbouring outputs that a lane writes at once"),
            *self.last_constants,
        )


@lru_cache(maxsize=64)  # the same for all configs with as many pixels
def maps(problem: Conv2d, pixels: int, weight_rows: int) -> tuple[TensorMap, TensorMap]:
    return slab_maps(problem, pixels, "weights", weight_rows, CHANNELS)


@lru_cache(maxsize=64)
def residual_map(problem: Conv2d, pixels: int) -> TensorMap:
    """Return the map of the residuals of a consumer's tile. Those past the last pixel or channel are zeros."""
    residual = problem.quantization.types.residual
    assert residual is not None
    return tensor_map.matrix("residual", residual.name, problem.pixels, problem.k, pixels, CHANNELS, swizzle=SLAB)


def why_residual_is_not_staged(problem: Conv2d) -> str | None:
    """Return why the epilogue has to read the residual from device memory, in vectors or single elements, instead of
    through a staged tile. None where it can be staged."""
    residual = problem.quantization.types.residual
    if residual is None:
        return "there is none"
    if residual.bytes > 1:
        return f"residual={residual.name}: a row of {CHANNELS} of them is wider than the swizzle"
    if problem.k * residual.bytes % CHUNK:
        return f"k={problem.k}: TMA copies rows of multiples of {CHUNK} bytes; pad the output channels"
    return None


@lru_cache(maxsize=64)  # every config asks
def why_none(problem: Conv2d, target: Target) -> str | None:
    """Return why no config is feasible, or None."""
    t = problem.quantization.types
    instruction = target.warpgroup_for(t.w, t.x)
    if instruction is None or not target.tensor_maps:
        return f"{target.name} has no matrix instruction of warpgroups with copies by tensor maps; mma serves it"
    return why_not(problem, instruction)


def plan(problem: Conv2d, config: Wgmma, target: Target) -> WgmmaPlan:
    check_choices(config, CHOICES)
    instruction = warpgroup_of(problem, target, why_none(problem, target))
    if config.consumers == 1 and (config.split_pixels or config.lag):
        raise Infeasible("consumers=1: a single consumer divides no tile and is behind nobody; split_pixels=0 lag=0")
    _check_useful(problem, config)
    slabs = ceil_div(problem.frame_bytes, SLAB) * problem.taps
    chosen = slots(problem, config, slabs, target)
    shared_slots = config.weight_slots if config.split_pixels else chosen.pixels
    if config.lag >= shared_slots:
        raise Infeasible(
            f"lag={config.lag}: a slot that both consumers read is full until the second has read it, and there are "
            f"{shared_slots}; a lag below that serves it"
        )
    tile_pixels = config.pixels * (2 if config.split_pixels else 1)
    channel_tiles = ceil_div(problem.k, CHANNELS * (1 if config.split_pixels else config.consumers))
    tiles = channel_tiles * ceil_div(problem.pixels, tile_pixels)
    made = WgmmaPlan(
        problem=problem,
        config=config,
        target=target,
        instruction=instruction,
        pixel_slots=chosen.pixels,
        residual_slots=chosen.residuals,
        smem_bytes=chosen.smem_bytes,
        channel_tiles=channel_tiles,
        tiles=tiles,
        blocks=min(tiles, target.processors),
    )
    made.check_sizes(tile_pixels)
    maps(problem, config.pixels, made.weight_rows)
    if made.residual_slots:
        residual_map(problem, config.pixels)
        # The epilogue computes the address of a lane's outputs even for a tile past the last.
        at_most((problem.pixels + 2 * tile_pixels) * problem.k, 2**31 - 1, "outputs of whole tiles")
    if made.residual_slots and made.borders is not None and problem.quantization.types.y.bytes > 1:
        at_most(config.pixels, MOST_WITH_BORDERS, "pixels of a consumer with registers for borders and wide outputs")
    if problem.quantization.promoted_sums:
        at_most(config.pixels, MOST_PROMOTED, "pixels of a consumer with registers for promoted sums")
    at_most(made.weight_words, 2**29 - 1, "words of weights")
    return made


def _check_useful(problem: Conv2d, config: Wgmma) -> None:
    """Reject configs that leave a consumer idle."""
    if config.consumers == 2 and not config.split_pixels and problem.k <= CHANNELS:
        raise Infeasible(f"k={problem.k}: the second consumer would have no channel; split_pixels=1 serves it")
    pixels = config.pixels * (2 if config.split_pixels else 1)
    at_most(pixels, max(16, 2 * problem.pixels - 1), f"pixels of a tile (the problem has {problem.pixels})")


def structure(config: Wgmma) -> tuple[int, ...]:
    return config.consumers, config.split_pixels


def features(plan: WgmmaPlan) -> dict[str, float]:
    """Return the inputs for the cost model's correction: how full the tiles are, and how long a block runs."""
    channels, pixels = plan.tile
    return {
        **rounds("tiles_per_sm", "last_round", plan.tiles / plan.target.processors),
        "channels": filled(plan.problem.k, channels),
        "slabs": log(plan.slabs),
        "pixels_filled": filled(plan.problem.pixels, pixels),
        "tile_pixels": log(pixels),
        "tile_channels": log(channels),
        "slots": log(plan.slots),
        "pixel_slots": float(plan.pixel_slots),
        "image_rows": pixels / plan.problem.ow,
    }


# The cost model is fitted to 249 kernels of 29 layers of the suite `dense`, timed on an H200, with a root mean square
# error of 10 %.
#
# Clocks per launch: its start, the latency of the first slabs, and its end.
START = 4400
# Clocks per output pixel of a consumer's 128 channels in an epilogue of 8 instructions per output.
OF_PIXEL = 17.7
# Factor for a residual's instructions.
OF_RESIDUAL = 1.7
# Clocks per pixel of 128 channels that lanes store one at a time, with a single consumer. With two, each takes four
# times as long. Without this, 1x1 layers of 128 to 255 channels were predicted at 30 us and took 100.
STORED = 20
# Bytes per clock and multiprocessor: of shared memory, and of L2.
SHARED, CACHE = 128, 74
# Clocks from the request for a slab until it arrives.
LATENCY = 900
# Clocks from the last product of a slab until its sums are in registers. Not measured: about the length of a product.
WAIT = 150
# Output pixels whose residuals a consumer loads together, where it reads them from device memory.
WAITED_FOR = 4
# The fetch of a short last slab, of n < 128 channels, counts as (128 / n) ** SHORT whole ones.
SHORT = 0.86
# Fraction of every epilogue but the last that a lag of two slabs between the consumers hides, and delay of the end per
# slab of lag.
HIDDEN, DELAYED = 0.25, 0.5


def cost(plan: WgmmaPlan) -> float:
    channels, pixels = plan.tile
    of_consumer = channels * pixels // (128 * plan.consumers)
    slab = _slab(plan, of_consumer)
    epilogue = written(plan.problem, of_consumer)
    if plan.vector_k == 1:
        epilogue += of_consumer * STORED * plan.consumers**2 * min(1.0, plan.problem.k / 128)
    if plan.waits_for_residuals:
        epilogue += of_consumer / WAITED_FOR * LATENCY
    rounds = ceil_div(plan.tiles, plan.target.processors)
    issued = rounds * (plan.slabs * slab + epilogue)
    issued += plan.lag * DELAYED * slab - (rounds - 1) * min(plan.lag, 2) / 2 * HIDDEN * epilogue
    return at_once(issued, moved_bytes(plan.problem) / plan.target.processors / MEMORY, 3) + START


def _slab(plan: WgmmaPlan, of_consumer: int) -> float:
    # Two instructions of 64 channels per 32 bytes, four times per slab: half a clock per pixel, or the time to read the
    # operands.
    multiplied = 8 * plan.consumers * max(of_consumer / 2, (2048 + 32 * of_consumer) / SHARED)
    # The average over the slabs of a tap, of which the last may be short.
    whole = ceil_div(plan.problem.frame_bytes, SLAB) * SLAB
    multiplied *= (whole - SLAB + plan.last_slab) / whole
    # A slot is free once the products of the next slab have been issued.
    clocks = at_once(multiplied, fetched(plan.problem, sum(plan.tile), plan.slots), 8)
    if not plan.problem.quantization.promoted_sums:
        return clocks
    # A consumer waits for a slab's products and adds its sums before it goes on; meanwhile the other one multiplies.
    return max(clocks, multiplied / plan.consumers + WAIT + of_consumer)


def written(problem: Conv2d, pixels: float) -> float:
    """Return the clocks for a warpgroup to write `pixels` pixels of 128 channels, excluding stalls."""
    instructions = 8 + of_activation(problem) + of_parameters(problem) + OF_RESIDUAL * of_residual(problem)
    return pixels * OF_PIXEL * instructions / 8


def fetched(problem: Conv2d, rows: int, slots: int, slab: int = 128) -> float:
    """Return the clocks to fetch one slab of `rows` pixels and channels, when `slots - 1` fetches overlap the
    multiplication."""
    clocks = slab * rows / CACHE
    whole, rest = divmod(problem.frame_bytes, slab)
    if rest:
        clocks *= (whole + (slab / rest) ** SHORT) / (whole + 1)
    return max(clocks, (LATENCY + clocks) / (slots - 1))


FAMILY = Family(
    ops=("conv2d",),
    shuffles=True,
    reads_frames=True,
    config=Wgmma,
    choices=CHOICES,
    plan=plan,
    cost=cost,
    features=features,
    why_none=why_none,
    structure=structure,
)
