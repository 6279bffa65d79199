"""What the corrections of the cost models look at: numbers of a problem, of a launch and of a config."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import lru_cache

from qconv.fused import Chain
from qconv.generator.cost_units import CLOCK_MHZ, MEMORY, of_activation
from qconv.generator.mma import MmaPlan
from qconv.generator.plan import Plan, ceil_div
from qconv.generator.wgmma import WgmmaPlan
from qconv.op import Problem
from qconv.problem import Conv2d

# Channels are copied in sixteens and multiplied in 64s.
ALIGNED = 64
OF_LAYER = ("c", "k", "taps", "groups", "c_aligned", "k_aligned", "c_filled", "k_filled", "stride", "residual")
OF_PROBLEM = ("images", "pixels", "width", "activation")
OF_LAUNCH = ("us", "of_bytes", "blocks_per_sm", "waves", "last_wave", "threads", "smem")
OF_MMA = ("m_filled", "n_filled", "steps", "warp_tile", "x_bytes", "vector_n")
OF_WGMMA = ("tiles_per_sm", "last_round", "channels", "slabs")


def names(plan: Plan) -> tuple[str, ...]:
    """What the numbers are called that `features` gives, in their order: the same for all plans of a family."""
    layers: tuple[tuple[str, ...], ...] = (OF_LAYER,)
    if isinstance(plan.problem, Chain):
        layers = tuple(tuple(f"{name}_{which}" for name in OF_LAYER) for which in ("first", "last"))
    own = OF_MMA if isinstance(plan, MmaPlan) else OF_WGMMA if isinstance(plan, WgmmaPlan) else ()
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
    activations = sum(of_activation(layer) for layer in layers if isinstance(layer, Conv2d))
    return (*numbers, _log(last.n), _log(last.oh * last.ow), _log(last.ow), activations)


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
    if isinstance(plan, MmaPlan):
        problem, config, shape = plan.problem, plan.config, plan.shape
        return (
            _filled(problem.pixels, config.tile_m),
            _filled(problem.k_group, config.tile_n),
            _log(shape.steps * shape.tiles / plan.blocks),
            _log(config.warp_m * config.warp_n),
            _log(shape.x_bytes),
            _log(plan.vector_n),
        )
    if isinstance(plan, WgmmaPlan):
        channels, _ = plan.tile
        per_sm = plan.tiles / plan.target.processors
        return (_log(per_sm), per_sm / math.ceil(per_sm), _filled(plan.problem.k, channels), _log(plan.slabs))
    return ()


def _filled(size: int, side: int) -> float:
    """The share of it in what whole sides reach over."""
    return size / (side * ceil_div(size, side))


@lru_cache(maxsize=65536)
def _log(value: float) -> float:
    return math.log2(value) if value > 0 else -1.0
