"""The op `conv2d_pool`: a convolution followed by a max pool. Its oracle computes one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from qconv.op import Array, Op, Option, Sample, read_key
from qconv.ops import convolution
from qconv.problem.pooled import KEY_FLAGS, PooledConv2d, read_pooled
from qconv.sampling.operands import Variety
from qconv.tensor_ops.pooling import compute_max

# The most additional draws, and the most operations of a problem whose outputs are checked for variety.
DRAWS, MOST_OPERATIONS = 4, 2**25
# Options of a convolution that this op lacks: the pool takes outputs as they lie, and there is no residual.
_SHAPES = ("layout", "pixel_shuffle", "crop", "frames")
_WITHOUT = (*_SHAPES, "residual", "residual_add", "residual_zero_point", "inner_zero_point", "constant")
_OF_POOL = (
    Option("window", "conv2d_pool: the pool's window: one, or height,width.", "extents", required=True),
    Option("window_stride", "conv2d_pool: the pool's stride: one, or vertical,horizontal. Default 1.", "extents"),
    Option("window_pad", "conv2d_pool: the pool's padding: one, or top,left,bottom,right. Default 0.", "extents"),
    Option("ceil_mode", "Pools: incomplete windows at the end count as well.", "switch"),
)


def read(key: str) -> PooledConv2d:
    _, given = read_key(key, KEY_FLAGS)
    return read_pooled(key, given)


def ask(given: dict[str, Any]) -> PooledConv2d:
    window = {option.name: given[option.name] for option in _OF_POOL if option.name in given}
    asked = convolution.ask({name: value for name, value in given.items() if name not in window})
    return PooledConv2d.over(asked, **window)


def draw(problem: PooledConv2d, seed: int, fixed: dict[str, int]) -> Sample:
    """Draw data for the convolution, and again where the pool's outputs lack variety. Only small problems are checked,
    because that runs the oracle."""
    drawn = convolution.draw(problem.first, seed, fixed)
    for again in range(DRAWS):
        if not (lacks := _lacks(problem, drawn)):
            return drawn
        own = int(np.random.default_rng((seed, again)).integers(2**31))
        drawn = convolution.draw(problem.first, own, fixed)
    lacks = _lacks(problem, drawn)
    return replace(drawn, forced=(*drawn.forced, f"{lacks} behind the pool, in {DRAWS + 1} draws")) if lacks else drawn


def _lacks(problem: PooledConv2d, drawn: Sample) -> str:
    if problem.operations > MOST_OPERATIONS or drawn.forced:
        return ""
    (y,) = compute(problem, drawn)
    return Variety.of(y.reshape(-1, problem.k)).lacks()


def compute(problem: PooledConv2d, drawn: Sample) -> tuple[Array, ...]:
    return compute_max(problem.rest, Sample(convolution.compute(problem.first, drawn)))


OP = Op(
    name="conv2d_pool",
    says="A convolution with a max pool behind it.",
    problems=(PooledConv2d,),
    read=read,
    ask=ask,
    options=(*(option for option in convolution.OPTIONS if option.name not in _WITHOUT), *_OF_POOL),
    draw=draw,
    compute=compute,
)
