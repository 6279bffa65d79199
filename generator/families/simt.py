"""The `simt` family: implicit GEMM on four-way dot products, for every problem on every target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.convolution import (
    ConvolutionPlan,
    argument_fields,
    dot_of,
    fold_constants,
    fold_launches,
    load_bytes,
    problem_constants,
)
from qconv.generator.cost_units import at_once, launched, of_residual
from qconv.generator.families import Family
from qconv.generator.plan import Config, Constant, Field, Launch, WaitingPlan, at_most, ceil_div, check_choices
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# Loads in flight per operand and thread. More only spill: each needs an address and up to four words in registers.
MOST_RUNS = 16
# Bytes per operand of a dot product.
WORD = 4


@dataclass(frozen=True)
class Simt(Config):
    family: ClassVar[str] = "simt"
    tile_m: int  # output pixels per block
    tile_n: int  # output channels per block
    tile_k: int  # bytes of the reduction staged at a time
    thread_m: int  # output pixels per thread
    thread_n: int  # output channels per thread
    pipeline_stages: int  # 1: staged in place, two barriers per step; 2: double buffer, one barrier


CHOICES: dict[str, tuple[int, ...]] = {
    "tile_m": (16, 32, 64, 128),
    "tile_n": (4, 16, 32, 64, 128),
    "tile_k": (16, 32, 64),
    "thread_m": (1, 2, 4, 8),
    "thread_n": (1, 2, 4, 8),
    "pipeline_stages": (1, 2),
}
# Choices among which `default` looks first. Between two otherwise equal configs, the cost model prefers two stages.
LIKELY: dict[str, tuple[int, ...]] = {"pipeline_stages": (2,)}
MOST_THREADS = 256


# Measured clocks over counted clocks, for 20 kernels on an H200 (root mean square error 13 %): more overlaps than the
# model describes. And clocks from one step to the next of a block that has little to multiply.
FITTED, LATENCY = 0.46, 1000


@dataclass(frozen=True)
class SimtPlan(WaitingPlan, ConvolutionPlan):
    page: ClassVar[str] = "families/simt.j2"

    problem: Conv2d
    config: Simt
    threads: int
    smem_bytes: int
    steps: int  # along the reduction
    tiles_m: int
    tiles_n: int  # along the channels of a group
    x_bytes: int  # bytes per load of x; below a word, one element
    x_runs: int  # loads of x that a thread has in flight
    x_parts: int  # threads that load a row of x
    w_bytes: int
    w_runs: int

    @property
    def vector_n(self) -> int:
        """Neighbouring channels that a thread writes at once."""
        return min(4, self.config.thread_n)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        grid = (self.tiles_m, self.tiles_n * self.problem.groups, 1)
        return (*fold_launches(self.problem), Launch("conv2d_simt", grid, self.threads, self.smem_bytes))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return argument_fields(self.problem)

    @cached_property
    def alignment(self) -> dict[str, int]:
        t = self.problem.quantization.types
        # Outputs and residuals are accessed in vectors of channels where every vector is whole.
        whole = self.problem.layout == "nhwc" and self.problem.y_group % self.vector_n == 0
        outputs = self.vector_n if whole else 1
        alignment = {"x": self.x_bytes, "w": self.w_bytes, "y": outputs * t.y.bytes}
        if t.residual is not None:
            alignment["residual"] = outputs * t.residual.bytes
        return alignment

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        config = self.config
        x_parts = (Constant("X_PARTS", self.x_parts, "threads that load a row of x"),)
        return {
            "The problem.": problem_constants(self.problem),
            "The config.": (
                Constant("TILE_M", config.tile_m, "output pixels per block"),
                Constant("TILE_N", config.tile_n, "output channels per block"),
                Constant("TILE_K", config.tile_k, "bytes of the reduction staged at a time"),
                Constant("THREAD_M", config.thread_m, "output pixels per thread"),
                Constant("THREAD_N", config.thread_n, "output channels per thread"),
                Constant(
                    "PIPELINE_STAGES",
                    config.pipeline_stages,
                    "1: in place, two barriers per step; 2: double buffer, one barrier",
                ),
            ),
            "Derived values.": (
                Constant("THREADS", self.threads),
                Constant("STEPS", self.steps, "steps along the reduction"),
                Constant("TILES_N", self.tiles_n, "tiles along the channels of a group"),
                Constant("VECTOR_M", min(4, config.thread_m), "neighbouring pixels per access"),
                Constant("VECTOR_N", self.vector_n, "neighbouring channels per access"),
                Constant("X_BYTES", self.x_bytes, "bytes per load of x; below a word, one element"),
                Constant("X_RUNS", self.x_runs, "loads of x that a thread has in flight"),
                *x_parts * self.problem.quantization.w_zero_point,
                Constant("W_BYTES", self.w_bytes, "bytes per load of w; below a word, one element"),
                Constant("W_RUNS", self.w_runs, "loads of w that a thread has in flight"),
                Constant("SMEM_BYTES", self.smem_bytes),
                *fold_constants(self.problem),
            ),
        }

    def cost(self) -> float:
        config, target = self.config, self.target
        # A warp's 16-byte loads cost as much as 16 of its dot products (64 bytes and 64 dot products per clock). Where
        # elements are loaded one by one, the addresses cost more than the loads.
        loads = ((self.x_runs, self.x_bytes), (self.w_runs, self.w_bytes))
        fetch = sum(runs * (60 // width if width < WORD else width) for runs, width in loads)
        words = config.tile_k / WORD
        multiply = config.thread_m * config.thread_n + 2 * (config.thread_m + config.thread_n)
        step = words * multiply + fetch + (20 if config.pipeline_stages == 2 else 40)
        blocks = self.tiles_m * self.tiles_n * self.problem.groups
        of_output = 20 + of_residual(self.problem)
        work = self.threads * (self.steps * step + of_output * config.thread_m * config.thread_n)
        # one thread runs after the other
        if target.vendor == "cpu":
            return blocks * work / 64
        # A multiprocessor is busy with its resident blocks, or waits for the bytes of a step.
        per_sm = min(self._resident, ceil_div(blocks, target.processors))
        rounds = ceil_div(blocks, target.processors * per_sm)
        issued = rounds * at_once(FITTED * per_sm * work / 64, self.steps * LATENCY, 4)
        return launched(self.problem, target, issued)

    @property
    def _resident(self) -> int:
        """Resident blocks per multiprocessor, estimated."""
        config, target = self.config, self.target
        registers = 48 + config.thread_m * config.thread_n + 2 * (config.thread_m + config.thread_n)
        of_each = (
            target.registers_per_sm // (registers * self.threads),
            target.smem_bytes_per_sm // self.smem_bytes,
            target.threads_per_sm // self.threads,
        )
        return max(1, min(of_each))


def plan(problem: Conv2d, config: Simt, target: Target) -> SimtPlan:
    check_choices(config, CHOICES)
    threads = _threads(config, target)
    t = problem.quantization.types
    if dot_of(problem, target) is None:
        raise Infeasible(
            f"{t.x.name} by {t.w.name} with sums in {t.sum.name}: {target.name} has no dot product of these types; it "
            f"has {', '.join(dot.name for dot in target.dots)}"
        )
    # In NCHW, neighbours along the reduction are not contiguous.
    x_bytes = load_bytes(problem.c_group, t.x) if problem.layout == "nhwc" else t.x.bytes
    w_bytes = load_bytes(problem.reduction, t.w)
    x_parts = config.tile_k // max(x_bytes, WORD)
    smem_bytes = config.pipeline_stages * config.tile_k * (config.tile_m + 4 + config.tile_n + 4)
    if problem.quantization.w_zero_point:
        smem_bytes += WORD * config.tile_m * x_parts
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    _check_useful(problem, config)
    x_runs = ceil_div(config.tile_m * config.tile_k, max(x_bytes, WORD) * threads)
    w_runs = ceil_div(config.tile_n * config.tile_k, max(w_bytes, WORD) * threads)
    at_most(x_runs, MOST_RUNS, f"loads of x a thread has in flight at {x_bytes} bytes each")
    at_most(w_runs, MOST_RUNS, f"loads of w a thread has in flight at {w_bytes} bytes each")
    tiles_n = ceil_div(problem.k_group, config.tile_n)
    at_most(tiles_n * problem.groups, target.grid_y_max, f"blocks along y on {target.name}")
    return SimtPlan(
        problem=problem,
        config=config,
        target=target,
        threads=threads,
        smem_bytes=smem_bytes,
        steps=ceil_div(problem.reduction * t.x.bytes, config.tile_k),
        tiles_m=ceil_div(problem.pixels, config.tile_m),
        tiles_n=tiles_n,
        x_bytes=x_bytes,
        x_runs=x_runs,
        x_parts=x_parts,
        w_bytes=w_bytes,
        w_runs=w_runs,
    )


def _threads(config: Simt, target: Target) -> int:
    """Return the threads per block. Raises Infeasible where threads do not divide its tile."""
    for tile, thread in (("tile_m", "thread_m"), ("tile_n", "thread_n")):
        whole, part = getattr(config, tile), getattr(config, thread)
        if whole % part:
            raise Infeasible(f"{tile}={whole} must be a multiple of {thread}={part}")
        if part < 4 and config.tile_m * config.tile_n > 256:
            raise Infeasible(
                f"{thread}={part} reads more than it multiplies; only tiles of at most 256 outputs need it"
            )
    threads = (config.tile_m // config.thread_m) * (config.tile_n // config.thread_n)
    if threads % target.warp_size:
        raise Infeasible(
            f"{threads} threads are not whole warps of {target.warp_size}; change tile_m, tile_n, thread_m or thread_n"
        )
    at_most(threads, min(target.threads_per_block, MOST_THREADS), "threads of a block")
    return threads


def _check_useful(problem: Conv2d, config: Simt) -> None:
    """Reject tiles for which another tile does the same work faster: mostly past the end of the problem, or too
    narrow."""
    reduction_bytes = problem.reduction * problem.quantization.types.x.bytes
    for name, size in (
        ("tile_m", problem.pixels),
        ("tile_n", problem.k_group),
        ("tile_k", reduction_bytes),
    ):
        at_most(getattr(config, name), max(min(CHOICES[name]), 2 * size - 1), f"{name} (the problem has {size})")
    for name, size, least in (("tile_n", problem.k_group, 16), ("tile_k", reduction_bytes, 32)):
        if size >= 2 * least > 2 * getattr(config, name):
            raise Infeasible(f"{name}={getattr(config, name)} is too narrow for the problem's {size}: at least {least}")


FAMILY = Family(
    ops=("conv2d",),
    shuffles=True,
    adds_to_shuffled=True,
    config=Simt,
    choices=CHOICES,
    plan=plan,
    cost=SimtPlan.cost,
    likely=LIKELY,
)
