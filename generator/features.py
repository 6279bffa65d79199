"""What the corrections of the cost models look at: numbers of a problem, of a launch and of a config."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Any

from qconv.fused import Chain
from qconv.generator.cost_units import CLOCK_MHZ, MEMORY, of_activation, of_parameters, of_residual
from qconv.generator.depthwise import DepthwisePlan
from qconv.generator.direct import DirectPlan
from qconv.generator.gemv import GemvPlan
from qconv.generator.halo import HaloPlan
from qconv.generator.halo_windows import COLUMNS
from qconv.generator.mma import MmaPlan
from qconv.generator.plan import Plan, ceil_div
from qconv.generator.pointwise import PointwisePlan
from qconv.generator.stem import StemPlan
from qconv.generator.wgmma import WgmmaPlan
from qconv.op import Problem
from qconv.problem import Conv2d

# Channels are copied in sixteens and multiplied in 64s.
ALIGNED = 64
OF_LAYER = ("c", "k", "taps", "groups", "c_aligned", "k_aligned", "c_filled", "k_filled", "stride", "residual")
OF_PROBLEM = ("images", "pixels", "width", "epilogue")
OF_LAUNCH = ("us", "of_bytes", "blocks_per_sm", "waves", "last_wave", "threads", "smem")
OF_MMA = (
    *("m_filled", "n_filled", "steps", "warp_tile", "x_bytes", "vector_n"),
    *("warps", "warp_shape", "tile", "steps_filled", "threads_per_sm"),
)
OF_WGMMA = (
    *("tiles_per_sm", "last_round", "channels", "slabs"),
    *("pixels_filled", "tile_pixels", "tile_channels", "slots", "pixel_slots", "image_rows"),
)
OF_HALO = ("rounds", "last_round", "rows_filled", "columns_filled", "channels", "products", "slots", "zeros")
OF_DEPTHWISE = (
    *("rows_filled", "columns_filled", "registers", "outputs", "overlap", "gathers", "rounds", "last_round"),
    *("warps_per_sm", "threads_filled", "vectors"),
)
OF_TILED = ("rows_filled", "columns_filled", "turns", "last_turn", "slabs_filled", "warps_per_sm", "tile")
OF_POINTWISE = (
    *("turns", "last_turn", "atoms_filled", "steps_filled", "slabs", "warps_per_sm"),
    *("x_bytes", "vector_k", "unit", "staged"),
)
OF_GEMV = ("turns", "unroll", "outputs", "k_blocks", "gathers")


def names(plan: Plan) -> tuple[str, ...]:
    """What the numbers are called that `features` gives, in their order: the same for all plans of a family."""
    layers: tuple[tuple[str, ...], ...] = (OF_LAYER,)
    if isinstance(plan.problem, Chain):
        layers = tuple(tuple(f"{name}_{which}" for name in OF_LAYER) for which in ("first", "last"))
    own: tuple[str, ...] = next((known for kind, known, _ in OWN if isinstance(plan, kind)), ())
    return (
        *(name for layer in layers for name in layer),
        *OF_PROBLEM,
        *OF_LAUNCH,
        *own,
        *(f"config.{name}" for name in _fields(plan)),
    )


def features(plan: Plan, cost: float) -> list[float]:
    """`cost`: in clocks, which are asked for before."""
    own = [_log(1 + getattr(plan.config, name)) for name in _fields(plan)]
    return [*of_problem(plan.problem), *_of_launch(plan, cost), *_of_family(plan), *own]


def _fields(plan: Plan) -> tuple[str, ...]:
    family = plan.config.family
    if family not in _FIELDS:
        _FIELDS[family] = () if plan.parts else tuple(field.name for field in fields(plan.config))
    return _FIELDS[family]


_FIELDS: dict[str, tuple[str, ...]] = {}  # by family: asking dataclasses takes long


@lru_cache(maxsize=64)
def of_problem(problem: Problem) -> tuple[float, ...]:
    every = tuple(problem.layers.values()) if isinstance(problem, Chain) else (problem,)
    # The second of three is depthwise in most.
    layers = (every[0], every[-1]) if len(every) > 1 else every
    numbers: list[float] = []
    for layer in layers:
        assert isinstance(layer, Conv2d)
        c, k = layer.c_group, layer.k_group
        numbers += [_log(c), _log(k), _log(layer.r * layer.s), _log(layer.groups)]
        numbers += [_log(math.gcd(c, ALIGNED)), _log(math.gcd(k, ALIGNED)), _filled(c, ALIGNED), _filled(k, ALIGNED)]
        numbers += [layer.stride[1], float(layer.quantization.residual != "none")]
    last = layers[-1]
    assert isinstance(last, Conv2d)
    epilogue = sum(_epilogue(layer) for layer in layers if isinstance(layer, Conv2d))
    return (*numbers, _log(last.n), _log(last.oh * last.ow), _log(last.ow), epilogue)


def _epilogue(layer: Conv2d) -> float:
    """Instructions of an output beside those that every output takes."""
    return of_activation(layer) + of_parameters(layer) + of_residual(layer)


def _of_launch(plan: Plan, cost: float) -> tuple[float, ...]:
    target, main = plan.target, plan.main
    blocks = math.prod(main.grid)
    by_smem = target.smem_bytes_per_sm // (main.smem_bytes + 1024)
    held = max(1, min(by_smem, target.threads_per_sm // main.threads))
    waves = blocks / (held * target.processors)
    return (
        math.log(cost / CLOCK_MHZ),
        plan.problem.io_bytes / target.processors / MEMORY / cost,
        _log(blocks / target.processors),
        _log(waves),
        waves / math.ceil(waves),
        _log(main.threads),
        _log(main.smem_bytes / 1024 + 1),
    )


def _of_family(plan: Plan) -> tuple[float, ...]:
    """What tiles leave empty, and how long a block goes on."""
    return next((numbers(plan) for kind, _, numbers in OWN if isinstance(plan, kind)), ())


def _of_mma(plan: MmaPlan) -> tuple[float, ...]:
    problem, config, shape, main = plan.problem, plan.config, plan.shape, plan.main
    held = plan.target.smem_bytes_per_sm // (main.smem_bytes + 1024)
    return (
        _filled(problem.pixels, config.tile_m),
        _filled(problem.k_group, config.tile_n),
        _log(shape.steps * shape.tiles / plan.blocks),
        _log(config.warp_m * config.warp_n),
        _log(shape.x_bytes),
        _log(plan.vector_n),
        _log((config.tile_m // config.warp_m) * (config.tile_n // config.warp_n)),
        _log(config.warp_m / config.warp_n),
        _log(config.tile_m * config.tile_n),
        _filled(problem.reduction, config.tile_k),
        _log(max(1, min(held, plan.target.threads_per_sm // main.threads)) * main.threads),
    )


def _of_wgmma(plan: WgmmaPlan) -> tuple[float, ...]:
    channels, pixels = plan.tile
    return (
        *_rounds(plan.tiles / plan.target.processors),
        _filled(plan.problem.k, channels),
        _log(plan.slabs),
        _filled(plan.problem.pixels, pixels),
        _log(pixels),
        _log(channels),
        _log(plan.slots),
        float(plan.pixel_slots),
        pixels / plan.problem.ow,
    )


def _of_halo(plan: HaloPlan) -> tuple[float, ...]:
    problem, config = plan.problem, plan.config
    return (
        *_rounds(plan.tiles / plan.blocks),
        _filled(problem.oh, config.rows),
        _filled(problem.ow, COLUMNS),
        _filled(problem.k, config.channels),
        _log(plan.products),
        _log(plan.slots),
        float(plan.windows.row - plan.seen.c),
    )


def _of_depthwise(plan: DepthwisePlan) -> tuple[float, ...]:
    problem, config, processors = plan.problem, plan.config, plan.target.processors
    of_thread = config.rows * config.columns
    return (
        _filled(problem.oh, config.rows),
        _filled(problem.ow, config.columns),
        _log(plan.register_words),
        _log(of_thread * config.vector),
        plan.in_rows * plan.in_columns / of_thread,
        float(plan.gathers),
        *_rounds(plan.blocks / (plan.resident * processors)),
        _log(plan.units / processors / plan.target.warp_size),
        _filled(plan.units, config.threads),
        _log(plan.vectors),
    )


def _of_tiled(plan: DirectPlan | StemPlan) -> tuple[float, ...]:
    problem, config, tiles = plan.problem, plan.config, plan.tiles
    return (
        _filled(problem.oh, config.tile_h),
        _filled(problem.ow, config.tile_w),
        *_rounds(tiles.count / tiles.grid_blocks),
        _filled(tiles.slabs, config.slabs),
        _log(config.warps * tiles.resident),
        _log(config.tile_h * config.tile_w),
    )


def _of_pointwise(plan: PointwisePlan) -> tuple[float, ...]:
    problem, config = plan.problem, plan.config
    return (
        *_rounds(plan.units / (plan.blocks * config.warps)),
        _filled(problem.k, 8 * config.atoms),
        _filled(problem.c, 32),
        _log(plan.slabs),
        _log(config.warps * config.blocks_per_sm),
        float(plan.x_bytes),
        float(plan.vector_k),
        _log(plan.unit),
        _log(plan.stage_bytes * config.pipeline_stages),
    )


def _of_gemv(plan: GemvPlan) -> tuple[float, ...]:
    return (_log(plan.turns), _log(plan.unroll), _log(plan.outputs), _log(plan.k_blocks), float(plan.gathers))


# What is asked of the plans of a kind, and what gives it.
OWN: tuple[tuple[type[Plan], tuple[str, ...], Callable[[Any], tuple[float, ...]]], ...] = (
    (MmaPlan, OF_MMA, _of_mma),
    (WgmmaPlan, OF_WGMMA, _of_wgmma),
    (HaloPlan, OF_HALO, _of_halo),
    (DepthwisePlan, OF_DEPTHWISE, _of_depthwise),
    (DirectPlan, OF_TILED, _of_tiled),
    (StemPlan, OF_TILED, _of_tiled),
    (PointwisePlan, OF_POINTWISE, _of_pointwise),
    (GemvPlan, OF_GEMV, _of_gemv),
)


def _rounds(times: float) -> tuple[float, float]:
    """How often something is done, and the share of its last time that is used."""
    return _log(times), times / math.ceil(times)


def _filled(size: int, side: int) -> float:
    """The share of it in what whole sides reach over."""
    return size / (side * ceil_div(size, side))


@lru_cache(maxsize=65536)
def _log(value: float) -> float:
    return math.log2(value) if value > 0 else -1.0
