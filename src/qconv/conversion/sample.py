"""Random data for conversions: outputs that spread over their type with some saturation, and deliberate ties.

Each function draws the inputs of a call of its op, in order. It says why the outputs cannot have, or are not meant to
have, the variety of `qconv.sampling.operands`. A conversion has no parameters, so the caller fixes nothing.

Some scales are powers of two, and some elements are exact k + 1/2 multiples of their scale: uniform data would almost
never exercise the rounding flags.
"""

from __future__ import annotations

import numpy as np

from qconv.conversion.problem import REALS, Choose, Conversion, Dequantize, Dynamic, Quantize, Requantize
from qconv.conversion.reference import broadcast
from qconv.conversion.steps import Array
from qconv.dtypes import ELEMENT_TYPES, FLOAT8, RANGES
from qconv.op import Sample
from qconv.sampling.operands import LEAST_VALUES

SPECIAL = (0.0, -0.0, 1e30, -1e30, np.nan, np.inf, -np.inf, 1e-40)
POWERS_OF_TWO = 0.4
# Kinds of channels with nearly constant outputs: all zero, all equal, below eps, with an infinite end.
FLAT = {4: "all zero", 5: "all alike", 6: "tiny", 9: "infinite"}
FLAT_ALONE = 0.1


def choose(problem: Choose, seed: int, fixed: dict[str, int]) -> Sample:
    x, flat = _ranges(problem, np.random.default_rng(seed))
    return Sample((x,), forced=(*flat, *_few_codes(problem), *_one_element(problem)))


def requantize(problem: Requantize, seed: int, fixed: dict[str, int]) -> Sample:
    return Sample(_requantized(problem, np.random.default_rng(seed)), forced=_few_codes(problem))


def quantize(problem: Quantize, seed: int, fixed: dict[str, int]) -> Sample:
    rng = np.random.default_rng(seed)
    arrays = {"scale": _scales(problem, rng)}
    if problem.zero_point:
        zeros = _zero_points(problem.out_type, (problem.scales,), rng)
        if ELEMENT_TYPES[problem.x_type].bytes == 2:
            # In 16 bits, codes far from the range could not be told apart.
            zeros = np.clip(zeros, problem.low, problem.high).astype(np.int32)
        arrays["zero_point"] = zeros
    return Sample((_reals(problem, arrays, rng), *arrays.values()), forced=_few_codes(problem))


def dequantize(problem: Dequantize, seed: int, fixed: dict[str, int]) -> Sample:
    rng = np.random.default_rng(seed)
    arrays = {"scale": _scales(problem, rng)}
    if problem.zero_point:
        arrays["zero_point"] = _zero_points(problem.x_type, (problem.scales,), rng)
    if problem.x_type in FLOAT8:
        x = rng.choice(_finite(problem.x_type), problem.shape)
    else:
        x = rng.integers(*RANGES[problem.x_type], problem.shape, dtype=problem.x_type, endpoint=True)
    if problem.x_type == "int32":
        # Values of every magnitude around the zero point: beside full-range values, all others round to zero.
        around = (x >> rng.integers(0, 24, problem.shape)).astype(np.int64)
        zero = broadcast(problem, arrays["zero_point"]) if problem.zero_point else 0
        x = np.clip(around + zero, *RANGES["int32"]).astype(np.int32)
    if problem.is_turned:
        x = np.ascontiguousarray(x.transpose(0, 2, 1))
    return Sample((x, *arrays.values()))


def _finite(dtype: str) -> Array:
    """Return every number of an 8-bit float. The bits of a NaN that is multiplied are those of the device."""
    every = np.arange(256, dtype=np.uint8).view(ELEMENT_TYPES[dtype].numpy)
    finite: Array = every[np.isfinite(every)]
    return finite


def _few_codes(problem: Conversion) -> tuple[str, ...]:
    low, high = getattr(problem, "low", None), getattr(problem, "high", None)
    if low is None or high is None or high - low + 1 >= 2 * LEAST_VALUES:
        return ()
    return (f"low={low} and high={high} leave {high - low + 1} values",)


def _one_element(problem: Choose) -> tuple[str, ...]:
    if problem.outer * problem.inner > 2:
        return ()
    return ("a channel of two elements or fewer: they are the ends of its range",)


def _scales(problem: Quantize | Dequantize, rng: np.random.Generator) -> Array:
    scales = _some_scales(problem.scales, rng)
    if isinstance(problem, Dequantize) and problem.out_type == "float16" and problem.x_type != "int32":
        # Keep most products finite.
        if problem.x_type in FLOAT8:
            most = ELEMENT_TYPES[problem.x_type].largest_finite
        else:
            low, high = RANGES[problem.x_type]
            most = high - low
        scales = np.minimum(scales, 2.0 ** np.floor(np.log2(65504 / most)))
    return scales.astype(ELEMENT_TYPES[problem.scale_type].numpy)


def _some_scales(count: int, rng: np.random.Generator) -> Array:
    powers = 2.0 ** rng.integers(-6, 3, count)
    return np.where(rng.random(count) < POWERS_OF_TWO, powers, np.exp(rng.uniform(-5, 1, count)))


def _zero_points(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    low, high = RANGES[dtype]
    near = np.clip(rng.integers(-9, 10, shape), low, high)
    return np.where(rng.random(shape) < 0.5, near, rng.integers(low, high + 1, shape)).astype(np.int32)


def _requantized(problem: Requantize, rng: np.random.Generator) -> tuple[Array, ...]:
    """Draw the arrays of a requantize. The ratio of the scales maps the input's range to the output's; most elements
    are computed from the codes that they should become, the others are full-range."""
    assert problem.low is not None
    assert problem.high is not None
    (x_low, x_high), (y_low, y_high), count = RANGES[problem.x_type], RANGES[problem.out_type], problem.scales
    x_zero = _zero_points(problem.x_type, (count,), rng) if problem.x_zero_point else np.zeros(count, np.int32)
    y_zero = _zero_points(problem.out_type, (count,), rng) if problem.y_zero_point else np.zeros(count, np.int32)
    if problem.x_zero_point and not problem.y_zero_point:
        # On the side of its range that leaves room for outputs of the available sign.
        x_zero = np.where(rng.random(count) < 0.5, x_low + (x_high - x_low) // 4, 0).astype(np.int32)
        x_zero = np.clip(x_zero + rng.integers(-9, 10, count), x_low, x_high).astype(np.int32)
    if problem.y_zero_point:
        # Outputs have both signs where the inputs do, else the inputs' sign.
        below = (x_zero - float(x_low)) / (x_high - x_low)
        place = problem.low + (problem.high - problem.low) * np.clip(below + rng.uniform(-0.2, 0.2, count), 0, 1)
        y_zero = np.clip(np.rint(place), y_low, y_high).astype(np.int32)
    above = _ratio(problem.high - y_zero.astype(np.float64), x_high - x_zero.astype(np.float64))
    below = _ratio(y_zero.astype(np.float64) - problem.low, x_zero.astype(np.float64) - x_low)
    ratio = np.maximum(above, below) * np.exp(rng.uniform(-1.0, 0.2, count))
    x_scale = _some_scales(count, rng)
    powers = np.log2(x_scale) == np.rint(np.log2(x_scale))
    ratio = np.where(powers, 2.0 ** np.rint(np.log2(ratio)), ratio)
    scale_type = ELEMENT_TYPES[problem.scale_type].numpy
    width = float(problem.high - problem.low)
    codes = rng.uniform(problem.low - 0.05 * width, problem.high + 0.05 * width, problem.shape)
    wanted = (codes - broadcast(problem, y_zero)) / broadcast(problem, ratio) + broadcast(problem, x_zero)
    found = np.clip(np.rint(wanted), x_low, x_high).astype(np.int64)
    anything = rng.integers(x_low, x_high, problem.shape, endpoint=True)
    # An unreachable code gets an input between the zero point and the nearer end, or the other end if that is too near.
    out_of_reach = (wanted < x_low) | (wanted > x_high)
    end, zero = np.where(wanted < x_low, x_low, x_high), broadcast(problem, x_zero)
    end = np.where(np.abs(end - zero) < LEAST_VALUES, x_low + x_high - end, end)
    between = np.rint(zero + (end - zero) * rng.random(problem.shape)).astype(np.int64)
    x = np.where(out_of_reach, between, np.where(rng.random(problem.shape) < 0.2, anything, found))
    x = x.astype(problem.x_type)
    arrays = [x, x_scale.astype(scale_type)]
    arrays += [x_zero] if problem.x_zero_point else []
    arrays += [(x_scale / ratio).astype(scale_type)]
    arrays += [y_zero] if problem.y_zero_point else []
    return tuple(arrays)


def _ratio(codes: Array, elements: Array) -> Array:
    """Return the ratio of scales that maps `elements` inputs on one side of the zero point to `codes` outputs, or a
    tiny one if either is too few."""
    return np.where((codes > LEAST_VALUES) & (elements > LEAST_VALUES), codes / np.maximum(elements, 1), 2.0**-24)


def _reals(problem: Quantize, arrays: dict[str, Array], rng: np.random.Generator) -> Array:
    """Draw real numbers in units of the scale, and special values."""
    units = (
        _units_of_float8(problem.out_type, problem.shape, rng)
        if problem.out_type in FLOAT8
        else _codes(problem, arrays, rng)
    )
    with np.errstate(over="ignore"):
        x = units * broadcast(problem, arrays["scale"]).astype(np.float64)
        return _sprinkled(x, rng).astype(ELEMENT_TYPES[problem.x_type].numpy)


def _units_of_float8(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draw numbers of the type, what lies midway between two neighbours, and numbers between those; up to a quarter
    beyond the largest."""
    numbers = np.sort(_finite(dtype).astype(np.float64))
    numbers = np.concatenate([1.25 * numbers[:1], numbers, 1.25 * numbers[-1:]])
    at = rng.integers(0, len(numbers) - 1, shape)
    part = np.where(rng.random(shape) < 0.5, rng.choice([0, 0.5], shape), rng.random(shape))
    return numbers[at] + part * (numbers[at + 1] - numbers[at])


def _codes(problem: Quantize, arrays: dict[str, Array], rng: np.random.Generator) -> Array:
    """Draw codes of integers over the range and a tenth beyond, less the zero point: near zero, and ties as well."""
    assert problem.low is not None
    assert problem.high is not None
    zero = broadcast(problem, arrays["zero_point"]).astype(np.float64) if problem.zero_point else 0.0
    width = problem.high - problem.low
    units = rng.uniform(problem.low - 0.1 * width, problem.high + 0.1 * width, problem.shape) - zero
    if problem.out_type == "int32":
        # Half of them fit 16 bits in units of any scale.
        units = np.where(rng.random(problem.shape) < 0.5, units, rng.uniform(-8000, 8000, problem.shape))
    kind = rng.random(problem.shape)
    ties = np.where(kind < 0.1, np.rint(units) + 0.5, rng.integers(-9, 10, problem.shape) + 0.5)
    return np.where(kind < 0.3, ties, units)


def _sprinkled(x: Array, rng: np.random.Generator) -> Array:
    at = rng.random(x.shape) < 0.02
    return np.where(at, rng.choice(SPECIAL, x.shape), x)


def _ranges(problem: Choose, rng: np.random.Generator) -> tuple[Array, tuple[str, ...]]:
    """Draw channels of every kind: of both signs, of one, constant, all zero, tiny, with ties, with NaNs, infinite."""
    assert problem.x_type in REALS
    x = np.clip(rng.normal(0, 1, problem.shape), -2.5, 2.5)
    # In fp16, the inverse of the scale of a smaller range would be infinite.
    least = 1.0 if isinstance(problem, Dynamic) and problem.precision == "float16" else -6.0
    x = x * np.exp(rng.uniform(least, 4, (1, problem.channels, 1)))
    kinds = _kinds(problem, rng)
    for channel, kind in enumerate(kinds):
        part = x[:, channel]
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
        elif kind == 8 and problem.out_type in FLOAT8:
            # The largest number is an element, so that the scale is 1: the others may be ties.
            most = ELEMENT_TYPES[problem.out_type].largest_finite
            part[:] = np.clip(_units_of_float8(problem.out_type, part.shape, rng), -most, most)
            part.flat[0] = most
        elif kind == 8:
            # A range of 0.5 * `steps` that begins at -0.25, so that the zero point is a tie.
            steps = int(problem.high or 0) - int(problem.low or 0)
            part[:] = rng.integers(0, min(2 * steps, 2**20), part.shape) * 0.25
            part.flat[0], part.flat[-1] = -0.25, steps * 0.5 - 0.25
        elif kind == 9:
            part.flat[int(rng.integers(part.size))] = rng.choice([np.inf, -np.inf])
    flat = [channel for channel, kind in enumerate(kinds) if kind in FLAT]
    says = (f"{len(flat)} of {problem.channels} channels are {' or '.join(FLAT.values())}, on purpose",) if flat else ()
    with np.errstate(over="ignore"):
        return x.astype(ELEMENT_TYPES[problem.x_type].numpy), says


def _kinds(problem: Choose, rng: np.random.Generator) -> list[int]:
    """Return the kind of each channel, in turn. Few channels of a dynamic problem are flat, because those show no
    differences."""
    shown = [kind for kind in range(10) if kind not in FLAT]
    if problem.channels == 1:
        is_flat = rng.random() < (FLAT_ALONE if isinstance(problem, Dynamic) else 0.4)
        return [int(rng.choice(list(FLAT) if is_flat else shown))]
    first = int(rng.integers(0, 2))
    kinds = [(channel + first) % 10 for channel in range(problem.channels)]
    if problem.channels < 10 and isinstance(problem, Dynamic):
        kinds = [kind if at == 1 or kind in shown else int(rng.choice(shown)) for at, kind in enumerate(kinds)]
    return kinds
