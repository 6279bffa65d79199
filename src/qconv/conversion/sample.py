"""Random data for a conversion: outputs that spread over their type with some saturation, and ties built on purpose.

A share of the scales are powers of two, and a share of the elements exact k + 1/2 multiples of their scale: random data
would almost never show the flags of the rounding.
"""

from __future__ import annotations

import numpy as np

from qconv.conversion.problem import REALS, Choose, Conversion, Dequantize, Quantize, Requantize
from qconv.conversion.reference import spread
from qconv.conversion.steps import Array
from qconv.dtypes import DATA_TYPES, RANGES

SPECIAL = (0.0, -0.0, 1e30, -1e30, np.nan, np.inf, -np.inf, 1e-40)


def draw(problem: Conversion, seed: int) -> tuple[Array, ...]:
    """The inputs of a call, in order. Same seed, same sample."""
    rng = np.random.default_rng(seed)
    if isinstance(problem, Choose):
        return (_ranges(problem, rng),)
    arrays: dict[str, Array] = {}
    for tensor in problem.inputs[1:]:
        if "zero" in tensor.name:
            arrays[tensor.name] = _zero_points(problem, tensor.name, tensor.shape, rng)
        else:
            arrays[tensor.name] = _scales(tensor.shape, rng).astype(DATA_TYPES[tensor.dtype].numpy)
    if isinstance(problem, Quantize):
        x = _reals(problem, arrays, rng)
    else:
        assert isinstance(problem, Dequantize | Requantize)
        x = rng.integers(*RANGES[problem.x_type], problem.shape, dtype=problem.x_type, endpoint=True)
        if problem.x_type == "int32":
            # Half of them small: full-range ones all saturate.
            x = np.where(rng.random(problem.shape) < 0.5, x >> 22, x).astype(np.int32)
    return (x, *arrays.values())


def _scales(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    powers = 2.0 ** rng.integers(-6, 3, shape)
    return np.where(rng.random(shape) < 0.4, powers, np.exp(rng.uniform(-5, 1, shape)))


def _zero_points(problem: Conversion, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """In the range of the type whose zero they are."""
    integers = "x_type" if name == "x_zero" or isinstance(problem, Dequantize) else "out_type"
    low, high = RANGES[getattr(problem, integers)]
    near = np.clip(rng.integers(-9, 10, shape), low, high)
    return np.where(rng.random(shape) < 0.5, near, rng.integers(low, high + 1, shape)).astype(np.int32)


def _reals(problem: Quantize, arrays: dict[str, Array], rng: np.random.Generator) -> Array:
    """In units of the scale: over the range and a tenth beyond, near zero, ties, and special values."""
    assert problem.low is not None
    assert problem.high is not None
    zero = spread(problem, arrays["zero_point"]).astype(np.float64) if problem.zero_point else 0.0
    width = problem.high - problem.low
    units = rng.uniform(problem.low - 0.1 * width, problem.high + 0.1 * width, problem.shape) - zero
    kind = rng.random(problem.shape)
    ties = np.where(kind < 0.1, np.rint(units) + 0.5, rng.integers(-9, 10, problem.shape) + 0.5)
    units = np.where(kind < 0.3, ties, units)
    with np.errstate(over="ignore"):
        x = units * spread(problem, arrays["scale"]).astype(np.float64)
        return _sprinkled(x, rng).astype(DATA_TYPES[problem.x_type].numpy)


def _sprinkled(x: Array, rng: np.random.Generator) -> Array:
    at = rng.random(x.shape) < 0.02
    return np.where(at, rng.choice(SPECIAL, x.shape), x)


def _ranges(problem: Choose, rng: np.random.Generator) -> Array:
    """Channels of every kind: of both signs, of one, constant, all zero, tiny, tie-making, with NaNs, infinite."""
    assert problem.x_type in REALS
    x = rng.normal(0, 1, problem.shape) * np.exp(rng.uniform(-6, 4, (1, problem.channels, 1)))
    for channel in range(problem.channels):
        part = x[:, channel]
        kind = (channel + int(rng.integers(0, 2))) % 10 if problem.channels > 1 else int(rng.integers(0, 10))
        if kind == 2:
            part[:] = np.abs(part)
        elif kind == 3:
            part[:] = -np.abs(part)
        elif kind == 4:
            part[:] = 0
        elif kind == 5:
            part[:] = part.flat[0]
        elif kind == 6:
            part *= 1e-9
        elif kind == 7:
            part[:] = np.where(rng.random(part.shape) < 0.2, np.nan, part)
        elif kind == 8:
            # A range of as many quarters as there are steps: the zero point is a tie.
            part[:] = rng.integers(-60, 60, part.shape) * 0.25
            part.flat[0], part.flat[-1] = -0.5 * 0.5, (int(problem.high or 0) - int(problem.low or 0)) * 0.5 - 0.25
        elif kind == 9:
            part.flat[int(rng.integers(part.size))] = rng.choice([np.inf, -np.inf])
    with np.errstate(over="ignore"):
        return x.astype(DATA_TYPES[problem.x_type].numpy)
