"""The inputs of the cost models' corrections: numbers by name that describe the problem, the launch, the family and the
config of a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache

from qconv.generator.cost_units import CLOCK_MHZ, MEMORY, of_activation, of_parameters, of_residual
from qconv.generator.plan import Plan, ceil_div
from qconv.op import Problem
from qconv.problem.chain import Chain
from qconv.problem.convolution import Conv2d
from qconv.problem.pooled import PooledConv2d

# Channels are copied in units of 16 and multiplied in units of 64.
ALIGNED = 64


def features(plan: Plan, cost: float, of_family: Mapping[str, float]) -> dict[str, float]:
    """Return the features of a plan whose `cost` is in clocks. All plans of a family for the same op have the same
    names in the same order."""
    of_config = {f"config.{name}": log(1 + getattr(plan.config, name)) for name in _fields(plan)}
    return {**of_problem(plan.problem), **_of_launch(plan, cost), **of_family, **of_config}


def _fields(plan: Plan) -> tuple[str, ...]:
    family = plan.config.family
    if family not in _FIELDS:
        _FIELDS[family] = () if plan.parts else tuple(field.name for field in fields(plan.config))
    return _FIELDS[family]


_FIELDS: dict[str, tuple[str, ...]] = {}  # by family, cached because dataclasses.fields is slow


@lru_cache(maxsize=64)
def of_problem(problem: Problem) -> Mapping[str, float]:
    every = _layers(problem)
    # the middle one of three layers is mostly depthwise
    if len(every) > 1:
        numbers = _of_layer(every[0], "_first") | _of_layer(every[-1], "_last")
    else:
        numbers = _of_layer(every[0], "")
    last = every[-1]
    return numbers | {
        "images": log(last.n),
        "pixels": log(last.oh * last.ow),
        "width": log(last.ow),
        "epilogue": sum(_epilogue(layer) for layer in every),
    }


def _layers(problem: Problem) -> tuple[Conv2d, ...]:
    if isinstance(problem, Chain):
        return tuple(layer for layer in problem.layers.values() if isinstance(layer, Conv2d))
    layer = problem.first if isinstance(problem, PooledConv2d) else problem
    assert isinstance(layer, Conv2d)
    return (layer,)


def _of_layer(layer: Conv2d, which: str) -> dict[str, float]:
    c, k = layer.c_group, layer.k_group
    numbers = {
        "c": log(c),
        "k": log(k),
        "taps": log(layer.r * layer.s),
        "groups": log(layer.groups),
        "c_aligned": log(math.gcd(c, ALIGNED)),
        "k_aligned": log(math.gcd(k, ALIGNED)),
        "c_filled": filled(c, ALIGNED),
        "k_filled": filled(k, ALIGNED),
        "stride": layer.stride[1],
        "residual": float(layer.quantization.residual != "none"),
    }
    return {f"{name}{which}": number for name, number in numbers.items()}


def _epilogue(layer: Conv2d) -> float:
    """Return the instructions per output beyond those that every output takes."""
    return of_activation(layer) + of_parameters(layer) + of_residual(layer)


def _of_launch(plan: Plan, cost: float) -> dict[str, float]:
    target, main = plan.target, plan.main
    blocks = math.prod(main.grid)
    by_smem = target.smem_bytes_per_sm // (main.smem_bytes + 1024)
    resident = max(1, min(by_smem, target.threads_per_sm // main.threads))
    waves = blocks / (resident * target.processors)
    return {
        "us": math.log(cost / CLOCK_MHZ),
        "of_bytes": plan.problem.io_bytes / target.processors / MEMORY / cost,
        "blocks_per_sm": log(blocks / target.processors),
        "waves": log(waves),
        "last_wave": waves / math.ceil(waves),
        "threads": log(main.threads),
        "smem": log(main.smem_bytes / 1024 + 1),
    }


def rounds(name: str, last: str, times: float) -> dict[str, float]:
    """Return how often something is repeated, and how full the last round is."""
    return {name: log(times), last: times / math.ceil(times)}


def filled(size: int, side: int) -> float:
    """Return the fraction that `size` fills of a whole number of `side`s."""
    return size / (side * ceil_div(size, side))


@lru_cache(maxsize=65536)
def log(value: float) -> float:
    return math.log2(value) if value > 0 else -1.0
