"""The `pointwise` family: 1x1 filters at every pixel, as a copy with arithmetic hidden in it. Input and output are
contiguous arrays. Each warp streams units of pixels through its own shared memory, in 16-byte vectors whatever the
number of channels, and multiplies them by weights that stay with the block.

The cost model counts the work of each unit of a multiprocessor. It is fitted to 813 kernels of 34 problems on an H200
(standard deviation of the logarithm: 0.13) and has since been scaled to 1,670 kernels of all layers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

from qconv.arithmetic.step import Argument
from qconv.errors import Infeasible
from qconv.generator.convolution import (
    ConvolutionPlan,
    argument_fields,
    channel_arguments,
    fold_constants,
    fold_launches,
    problem_constants,
    repack_launch,
    why_not_bytes,
)
from qconv.generator.cost_units import at_once, of_activation, of_parameters, of_residual
from qconv.generator.expect.features import filled, log, rounds
from qconv.generator.families import Family
from qconv.generator.plan import Config, Constant, Field, Launch, WaitingPlan, at_most, ceil_div, check_choices
from qconv.generator.tiles import BLOCKS_PER_SM_SAYS, TiledRoles, check_blocks_per_sm, instruction_of
from qconv.problem.convolution import Conv2d
from qconv.targets.instruction import MatrixInstruction
from qconv.targets.target import Target

# Clocks: of a launch, including the latency of its first and last bytes; per instruction where all warps have some to
# issue; per instruction of one warp's dependency chain; per access to shared memory; per product.
LAUNCHED, ISSUED, CHAINED, ACCESSED, MULTIPLIED = 3780, 0.25, 2.6, 1.0, 3.5
# Bytes per clock to and from device memory, per multiprocessor.
MEMORY = 17.3
POWER = 2.5
# Cost, in instructions, of a parameter of eight channels, which is loaded from the L1 cache each time.
PARAMETER = 10


@lru_cache(maxsize=4096)
def wavefronts(pixel_bytes: int, vector_bytes: int, quarter_bytes: int, swapped: int) -> int:
    """Return the shared memory wavefronts per warp instruction. The lanes access eight pixels, four lanes each; every
    lane reads a vector, `quarter_bytes` after its neighbour's. `swapped` is the bit of the row that is exchanged with
    bit 0."""
    at_once_lanes = 32 if vector_bytes <= 4 else 128 // vector_bytes
    words_of_banks: list[dict[int, set[int]]] = [defaultdict(set) for _ in range(32 // at_once_lanes)]
    for lane in range(32):
        row = lane // 4
        low, high = row & 1, row >> swapped & 1
        pixel = row ^ ((low ^ high) << swapped | (low ^ high)) if swapped else row
        first = pixel * pixel_bytes + lane % 4 * quarter_bytes
        for word in range(first // 4, (first + vector_bytes - 1) // 4 + 1):
            words_of_banks[lane // at_once_lanes][word % 32].add(word)
    return sum(max(len(words) for words in banks.values()) for banks in words_of_banks)


def swapped_bit(pixel_bytes: int, vector_bytes: int) -> int:
    """Return the bit that `pixel_of_lane` of the page exchanges with bit 0 of a row. 0: rows are in order."""
    if vector_bytes != 16:
        return 0
    return 2 if pixel_bytes * 4 % 128 == 64 else 1 if pixel_bytes * 2 % 128 == 64 else 0


def clocks(issued: float, multiplied: float, chained: float, bytes_of_processor: float, weight_words: int) -> float:
    """Return the clocks of a launch. Its parts overlap: the instructions or shared memory accesses of all warps, the
    products, one warp's dependency chain, and the bytes. The longest counts, and more where several are about as
    long."""
    body = at_once(at_once(max(issued, multiplied), bytes_of_processor / MEMORY, POWER), chained, POWER)
    return LAUNCHED + body + weight_words / 4.4


# Registers per lane: for resident weights, and for these with sums and fragments.
MOST_FILTER_WORDS = 96
MOST_WORDS = 200
# Bytes per unit. With more, too few units are in flight for a multiprocessor's warps.
MOST_UNIT_BYTES = 16384


@dataclass(frozen=True)
class Pointwise(Config):
    family: ClassVar[str] = "pointwise"
    batch: int  # groups of 16 pixels that a warp multiplies together
    batches: int  # batches per unit, which is copied at once
    atoms: int  # groups of 8 output channels whose sums a warp has at a time
    pipeline_stages: int  # units of a warp in shared memory
    warps: int
    blocks_per_sm: int  # resident blocks per multiprocessor
    weights_in_smem: int  # 1: weights in shared memory; 0: in registers


CHOICES: dict[str, tuple[int, ...]] = {
    "batch": (1, 2, 4),
    "batches": (1, 2, 4),
    "atoms": (1, 2, 3, 4, 6, 8, 10, 12, 16),
    "pipeline_stages": (2, 3, 4),
    "warps": (4, 8, 12, 16),
    "blocks_per_sm": (1, 2, 3),
    "weights_in_smem": (0, 1),
}
LIKELY: dict[str, tuple[int, ...]] = {
    "batches": (1, 2),
    "atoms": (2, 4, 8, 10),
    "pipeline_stages": (2, 3),
    "warps": (4, 8, 12),
}


@lru_cache(maxsize=64)  # every config asks
def why_none(problem: Conv2d, target: Target) -> str | None:
    """Return why no config is feasible, or None."""
    if instruction_of(target) is None or not target.async_copies:
        return f"{target.name} has no mma.m16n8k32 with asynchronous copies"
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: the channels of a pixel must lie side by side, as in nhwc"
    if problem.r * problem.s != 1 or any(problem.pad) or problem.stride != (1, 1):
        return "only a 1x1 filter at every pixel, without padding, reads the input as one array without holes"
    if problem.groups != 1:
        return f"groups={problem.groups}: the weights of groups would be spread over a matrix of zeros"
    return why_not_bytes(problem)


@dataclass(frozen=True, kw_only=True)
class PointwiseRoles(TiledRoles):
    shifts: bool  # pixels may begin within a word
    outputs_in_place: bool  # outputs overwrite their residuals in shared memory, which are as large
    channels: str  # constant with the channels of the pixels that load_unit loads
    residuals: str  # member of Stream that receives the residuals
    channel_arguments: tuple[Argument, ...]
    load_channel: str = "nothing.j2"  # lanes load their channels together


@dataclass(frozen=True)
class PointwisePlan(WaitingPlan, ConvolutionPlan):
    page: ClassVar[str] = "families/pointwise.j2"

    problem: Conv2d
    config: Pointwise
    instruction: MatrixInstruction
    steps: int  # steps of 32 channels along the reduction
    slabs: int  # slabs of output channels
    x_bytes: int  # neighbouring channels that a lane reads at once
    vector_k: int  # neighbouring outputs that a lane writes at once
    stage_bytes: int  # bytes of a unit of the input, including those read past its last pixel
    smem_bytes: int
    units: int
    blocks: int

    @property
    def unit(self) -> int:
        return 16 * self.config.batch * self.config.batches

    @property
    def threads(self) -> int:
        return self.config.warps * self.target.warp_size

    @property
    def fragment_words(self) -> int:
        return fragment_words(self.steps, self.slabs, self.config.atoms)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        main = Launch("conv2d_pointwise", (self.blocks, 1, 1), self.threads, self.smem_bytes)
        return (*fold_launches(self.problem), repack_launch(self.fragment_words), main)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        says = "filters, in the order in which a warp's lanes hold them"
        fragments = Field("fragments", "int*", "workspace", says, None, self.fragment_words)
        return argument_fields(self.problem, (fragments,))

    @cached_property
    def alignment(self) -> dict[str, int]:
        residual = self.problem.quantization.types.residual
        aligned = {"x": 16, "w": 1, "y": 16}
        return aligned | ({} if residual is None else {"residual": 16})

    @property
    def roles(self) -> PointwiseRoles:
        q, emulated = self.problem.quantization, self.target.vendor == "cpu"
        return PointwiseRoles(
            instruction=self.instruction,
            spelled=self.instruction.spell(q.x_type, q.w_type),
            operation=f"instruction/{'emulated' if emulated else self.instruction.name}.j2",
            weights_in_smem=bool(self.config.weights_in_smem),
            shifts=self.problem.c % 4 != 0,
            outputs_in_place=_outputs_in_place(self.problem),
            channels="C" if self.problem.quantization.residual == "none" else "CHANNELS",
            residuals="y" if _outputs_in_place(self.problem) else "residual",
            channel_arguments=channel_arguments(self.problem),
        )

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": problem_constants(self.problem),
            "The config.": self._config_constants,
            "Derived values.": self._constants_that_follow,
        }

    @property
    def _config_constants(self) -> tuple[Constant, ...]:
        config = self.config
        return (
            Constant("BATCH", config.batch, "groups of 16 pixels that a warp multiplies together"),
            Constant("BATCHES", config.batches, "batches per unit, which is copied at once"),
            Constant("ATOMS", config.atoms, "groups of 8 output channels whose sums a warp has at a time"),
            Constant("PIPELINE_STAGES", config.pipeline_stages, "units of a warp in shared memory"),
            Constant("WARPS", config.warps),
            Constant("BLOCKS_PER_SM", config.blocks_per_sm, BLOCKS_PER_SM_SAYS),
        )

    @property
    def _constants_that_follow(self) -> tuple[Constant, ...]:
        return (
            Constant("WARP_SIZE", self.target.warp_size),
            Constant("THREADS", self.threads),
            Constant("UNIT", self.unit, "pixels per unit"),
            Constant("UNITS", self.units),
            Constant("GRID_BLOCKS", self.blocks, "persistent blocks, whose warps take units one after the other"),
            Constant("STEPS", self.steps, "steps of 32 input channels"),
            Constant("SLAB_K", 8 * self.config.atoms, "output channels whose sums a warp has at a time"),
            Constant("ALL_SLABS", self.slabs, "slabs of the problem"),
            Constant(
                "HAS_K_REMAINDER",
                self.problem.k % (8 * self.config.atoms) != 0,
                "some computed channels do not exist",
            ),
            Constant("X_BYTES", self.x_bytes, "neighbouring channels that a lane reads at once"),
            Constant("VECTOR_K", self.vector_k, "neighbouring outputs that a lane writes at once"),
            Constant("STAGE_BYTES", self.stage_bytes, "bytes of a unit of x, including those read past its last pixel"),
            *self._copies_in_flight,
            Constant("SMEM_BYTES", self.smem_bytes),
            *fold_constants(self.problem),
        )

    @property
    def _copies_in_flight(self) -> tuple[Constant, ...]:
        """Return the length of a thread's queue of copies, which the CPU device needs."""
        if self.target.vendor != "cpu":
            return ()
        arrays = (self.problem.c, _residual_bytes(self.problem))
        of_unit = sum(ceil_div(self.unit * pixel, 16 * self.target.warp_size) for pixel in arrays)
        weights = ceil_div(self.fragment_words, 4 * self.threads)
        count = self.config.pipeline_stages * of_unit + weights
        return (Constant("COPIES_IN_FLIGHT", count, "queued copies per thread"),)

    def cost(self) -> float:
        config = self.config
        instructions, accesses, products = self._work_of_sixteen
        sixteens = self.units * config.batch * config.batches
        # one thread runs after the other
        if self.target.vendor == "cpu":
            return sixteens * instructions
        of_processor = sixteens / self.target.processors
        warps = min(config.blocks_per_sm, ceil_div(self.blocks, self.target.processors)) * config.warps
        return clocks(
            issued=of_processor * max(ISSUED * instructions, ACCESSED * accesses),
            multiplied=of_processor * MULTIPLIED * products,
            chained=of_processor / warps * CHAINED * instructions,
            bytes_of_processor=self.problem.io_bytes / self.target.processors,
            weight_words=self.fragment_words,
        )

    @property
    def _work_of_sixteen(self) -> tuple[float, float, float]:
        """Work of a warp per 16 pixels: instructions, shared memory accesses and products."""
        config, problem, steps = self.config, self.problem, self.steps
        y_bytes = problem.quantization.types.y.bytes
        atoms, lane_k = self.slabs * config.atoms, 2 * config.atoms
        residual_bytes = _residual_bytes(problem)
        copied = 16 * (problem.c + residual_bytes + problem.k * y_bytes) / 128
        swapped = swapped_bit(problem.c, self.x_bytes)
        loads = 2 * steps * max(0.5, 8 / self.x_bytes) * (2 if problem.c % 4 else 1)
        stores = 4 * atoms / self.vector_k
        residuals = stores if residual_bytes else 0.0
        weights = steps * atoms / config.batch * config.weights_in_smem
        products = steps * atoms * (1 + problem.quantization.w_zero_point)
        outputs = atoms * 4 * (3.7 + of_activation(problem) + of_parameters(problem) + of_residual(problem))
        parameters = PARAMETER * atoms * len(channel_arguments(problem)) / config.batch
        instructions = copied + loads + products + weights + outputs + 1.5 * stores + residuals + parameters
        instructions += 40 / config.batch
        accesses = (
            copied
            + loads * wavefronts(problem.c, self.x_bytes, self.x_bytes, swapped)
            + stores * wavefronts(problem.k * y_bytes, self.vector_k * y_bytes, lane_k * y_bytes, swapped)
            + residuals * wavefronts(residual_bytes, self.vector_k, lane_k, swapped)
            + 2 * weights
        )
        return instructions, accesses, products


def plan(problem: Conv2d, config: Pointwise, target: Target) -> PointwisePlan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(reason)
    instruction = instruction_of(target)
    assert instruction is not None
    unit = 16 * config.batch * config.batches
    steps, slabs = ceil_div(problem.c, 32), ceil_div(problem.k, 8 * config.atoms)
    _check_useful(problem, config, unit, slabs)
    words = _words_in_registers(problem, config, steps, slabs)
    stage_bytes = _stage_bytes(problem, unit, steps)
    smem_bytes = _smem_bytes(problem, config, stage_bytes, unit, fragment_words(steps, slabs, config.atoms))
    threads = config.warps * target.warp_size
    check_blocks_per_sm(config.blocks_per_sm, threads, smem_bytes, words, target)
    units = ceil_div(problem.pixels, unit)
    return PointwisePlan(
        problem=problem,
        config=config,
        target=target,
        instruction=instruction,
        steps=steps,
        slabs=slabs,
        x_bytes=max(4, math.gcd(16 if steps > 1 else 8, problem.c)),
        vector_k=_vector_k(problem, config),
        stage_bytes=stage_bytes,
        smem_bytes=smem_bytes,
        units=units,
        blocks=min(units, config.blocks_per_sm * target.processors),
    )


def fragment_words(steps: int, slabs: int, atoms: int) -> int:
    return slabs * steps * atoms * 64


def _check_useful(problem: Conv2d, config: Pointwise, unit: int, slabs: int) -> None:
    """Reject configs most of whose channels or pixels do not exist in the problem."""
    at_most(8 * config.atoms, max(8, 2 * ceil_div(problem.k, 8) * 8 - 8), "output channels of a warp")
    at_most(unit * max(problem.c, problem.k), max(MOST_UNIT_BYTES, 16 * max(problem.c, problem.k)), "bytes of a unit")
    at_most(unit, max(16, 2 * problem.pixels - 1), f"pixels of a unit (the problem has {problem.pixels})")
    if config.weights_in_smem == 0:
        at_most(slabs, 16, "slabs whose weights stay in registers")


def _words_in_registers(problem: Conv2d, config: Pointwise, steps: int, slabs: int) -> int:
    """Estimate the registers per lane. Raises Infeasible where they do not fit."""
    filters = 4 * config.atoms if config.weights_in_smem else 2 * steps * slabs * config.atoms
    at_most(filters, MOST_FILTER_WORDS, "registers of a lane for weights")
    words = filters + config.batch * (4 * steps + 4 * config.atoms)
    at_most(words, MOST_WORDS, "registers of a lane for weights, pixels and sums")
    # Channel parameters are as resident as the weights of a slab.
    parameters = 2 * config.atoms * (1 if config.weights_in_smem else slabs) * len(channel_arguments(problem))
    return words + parameters + 44


def _vector_k(problem: Conv2d, config: Pointwise) -> int:
    """Return the outputs that a lane writes at once: neighbours of one pixel, all of which exist or none."""
    # a power of two of them is an aligned vector
    neighbours = math.gcd(2 * config.atoms, problem.k)
    return min(neighbours & -neighbours, 16 // problem.quantization.types.y.bytes)


def _stage_bytes(problem: Conv2d, unit: int, steps: int) -> int:
    """Return the bytes of a stage. Lanes read whole words of one or two whole steps, some of which lie past the last
    pixel."""
    behind = 64 * ceil_div(steps, 2) - problem.c + 4
    return ceil_div(unit * problem.c + behind, 16) * 16


def _smem_bytes(problem: Conv2d, config: Pointwise, stage_bytes: int, unit: int, words: int) -> int:
    """Return the bytes of shared memory: the weights, and per warp its input units and one output unit."""
    y_bytes = 0 if _outputs_in_place(problem) else unit * problem.k * problem.quantization.types.y.bytes
    weights = 4 * words if config.weights_in_smem else 0
    stage_bytes += unit * _residual_bytes(problem)
    return weights + config.warps * (config.pipeline_stages * stage_bytes + y_bytes)


def _residual_bytes(problem: Conv2d) -> int:
    """Return the bytes of residuals per pixel."""
    residual = problem.quantization.types.residual
    return 0 if residual is None else problem.k * residual.bytes


def _outputs_in_place(problem: Conv2d) -> bool:
    types = problem.quantization.types
    return types.residual is not None and types.residual.bytes == types.y.bytes


def features(plan: PointwisePlan) -> dict[str, float]:
    """Return the inputs for the cost model's correction: how full the tiles are, and how long a block runs."""
    problem, config = plan.problem, plan.config
    return {
        **rounds("turns", "last_turn", plan.units / (plan.blocks * config.warps)),
        "atoms_filled": filled(problem.k, 8 * config.atoms),
        "steps_filled": filled(problem.c, 32),
        "slabs": log(plan.slabs),
        "warps_per_sm": log(config.warps * config.blocks_per_sm),
        "x_bytes": float(plan.x_bytes),
        "vector_k": float(plan.vector_k),
        "unit": log(plan.unit),
        "staged": log(plan.stage_bytes * config.pipeline_stages),
    }


FAMILY = Family(
    ops=("conv2d",),
    config=Pointwise,
    choices=CHOICES,
    plan=plan,
    cost=PointwisePlan.cost,
    features=features,
    why_none=why_none,
    likely=LIKELY,
)
