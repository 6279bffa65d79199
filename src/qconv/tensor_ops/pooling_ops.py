"""The ops `max_pool`, `average_pool` and `global_average_pool`: options, random data, oracles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from qconv import operands
from qconv.dtypes import RANGES
from qconv.op import Array, Op, Sample
from qconv.option import Option
from qconv.step import Values
from qconv.tensor_ops.averages import OF_IMAGE, OF_WINDOW, REAL, arguments
from qconv.tensor_ops.pooling import AveragePool, GlobalAveragePool, MaxPool, Pool

# Outputs per standard deviation of the average of a window of independent elements.
LEAST_SPREAD, MOST_SPREAD = 25.0, 60.0
POWERS_OF_TWO = 0.25

_IMAGE = (
    Option("n", "images", "integer", required=True),
    Option("h", "input height", "integer", required=True),
    Option("w", "input width", "integer", required=True),
    Option("c", "input channels", "integer", required=True),
)
_X_TYPE = Option("x_type", "Pools: int8 (default), uint8.", metavar="TYPE")
_OUT_TYPE = Option("out_type", "Average pools: int8 (default), uint8.", metavar="TYPE")
_WINDOW = (
    Option("r", "filter height", "integer", required=True),
    Option("s", "filter width", "integer", required=True),
    Option("stride", "One, or vertical,horizontal. Default 1.", "extents"),
    Option("pad", "One, or top,left,bottom,right. Default 0.", "extents"),
    Option("ceil_mode", "Pools: windows at the end that are not whole count as well.", "switch"),
)


def compute_max(problem: MaxPool, drawn: Sample) -> tuple[Array, ...]:
    (x,) = drawn.arrays
    y = np.full(problem.outputs[0].shape, RANGES[problem.x_type][0], problem.x_type)
    for tap in _taps(problem, x, RANGES[problem.x_type][0]):
        y = np.maximum(y, tap)
    return (y,)


def compute_average(problem: AveragePool, drawn: Sample) -> tuple[Array, ...]:
    """Added up in fp32, in the order of the window's rows; that of the padding's zeros changes nothing."""
    (x,) = drawn.arrays
    values = _values(problem, drawn.parameters)
    real = REAL.numpy(x, values)
    sums = np.zeros(problem.outputs[0].shape, np.float32)
    for tap in _taps(problem, real, 0):
        sums = sums + tap
    if problem.count_include_pad:
        taps = np.asarray(problem.r * problem.s)
    else:
        taps = sum(_taps(problem, np.ones((1, problem.h, problem.w, 1), np.int32), 0), np.zeros((), np.int32))
    for step in OF_WINDOW:
        sums = step.numpy(sums, values | {"taps": taps})
    return (sums.astype(problem.out_type),)


def compute_global(problem: GlobalAveragePool, drawn: Sample) -> tuple[Array, ...]:
    (x,) = drawn.arrays
    values, sums = _values(problem, drawn.parameters), x.sum(axis=1, dtype=np.int32)
    for step in OF_IMAGE:
        sums = step.numpy(sums, values)
    return (sums.astype(problem.out_type),)


def _values(problem: AveragePool | GlobalAveragePool, parameters: dict[str, Any]) -> Values:
    p = problem.checked(parameters)
    return {one.name: np.asarray(one.value(problem, p), one.dtype) for one in arguments(problem)}


def _taps(problem: Pool, x: Array, padding: int) -> Iterator[Array]:
    """For each element of the window, row by row, what every window has there."""
    (top, left, _, _), (down, across) = problem.pad, problem.stride
    heights = (problem.oh - 1) * down + problem.spans[0] - top - problem.h
    widths = (problem.ow - 1) * across + problem.spans[1] - left - problem.w
    pads = ((0, 0), (top, max(heights, 0)), (left, max(widths, 0)), (0, 0))
    padded = np.pad(x, pads, constant_values=padding)
    for r in range(problem.r):
        for s in range(problem.s):
            row, column = r * problem.steps[0], s * problem.steps[1]
            rows = slice(row, row + (problem.oh - 1) * down + 1, down)
            yield padded[:, rows, column : column + (problem.ow - 1) * across + 1 : across]


def draw_max(problem: MaxPool, seed: int, fixed: dict[str, int]) -> Sample:
    """Bytes that are mostly small, so that the largest of many is not always the end of the range."""
    rng = np.random.default_rng(seed)
    low, high = RANGES[problem.x_type]
    uniform = rng.random(problem.inputs[0].shape) ** np.sqrt(problem.r * problem.s)
    return Sample(((low + np.floor(uniform * (high - low + 1))).astype(problem.x_type),))


def draw_average(problem: AveragePool | GlobalAveragePool, seed: int, fixed: dict[str, int]) -> Sample:
    """Full-range bytes, and scales with which the averages spread over the output's type. A quarter of the scales are
    powers of two, and as many hundredths, which make ties."""
    rng = np.random.default_rng(seed)
    x = operands.uniform(problem.x_type, problem.inputs[0].shape, rng)
    window = problem.pixels if isinstance(problem, GlobalAveragePool) else problem.r * problem.s
    x_zero = int(operands.zero_points(problem.x_type, (), rng, False))
    (x_low, x_high), (low, high) = RANGES[problem.x_type], RANGES[problem.out_type]
    ratio = rng.uniform(LEAST_SPREAD, MOST_SPREAD) / 74 * np.sqrt(window)
    kind = rng.random()
    y_scale = 2.0 ** rng.integers(-6, 3) if kind < POWERS_OF_TWO else round(float(rng.uniform(0.02, 0.6)), 2)
    ratio = 2.0 ** np.rint(np.log2(ratio)) if kind < POWERS_OF_TWO else ratio
    x_scale = ratio * y_scale
    if POWERS_OF_TWO <= kind < 2 * POWERS_OF_TWO:
        x_scale = max(round(float(x_scale), 2), 0.01)
    # The mean of x lies where the output's range has room.
    mean = ((x_low + x_high) / 2 - x_zero) * x_scale / y_scale
    y_zero = np.clip(np.rint((low + high) / 2 + rng.uniform(-20, 20) - mean), low, high)
    if not low < y_zero + mean < high:
        x_zero = int((x_low + x_high + 1) // 2)
        y_zero = (low + high + 1) // 2
    scales = {"x_scale": float(np.float32(x_scale)), "y_scale": float(np.float32(y_scale))}
    return Sample((x,), scales | {"x_zero_point": x_zero, "y_zero_point": int(y_zero)})


def _asked_global(given: dict[str, Any]) -> GlobalAveragePool:
    rest = {name: value for name, value in given.items() if name not in ("h", "w")}
    return GlobalAveragePool(pixels=given["h"] * given["w"], **rest)


OPS = (
    Op(
        name="max_pool",
        says="The largest element of each window, by channel.",
        problems=(MaxPool,),
        read=MaxPool.read,
        ask=lambda given: MaxPool(**given),
        options=(
            *(*_IMAGE, *_WINDOW, _X_TYPE),
            Option("dilation", "One, or vertical,horizontal. Default 1.", "extents"),
        ),
        draw=draw_max,
        compute=compute_max,
    ),
    Op(
        name="average_pool",
        says="The average of each window, by channel.",
        problems=(AveragePool,),
        read=AveragePool.read,
        ask=lambda given: AveragePool(**given),
        options=(
            *(*_IMAGE, *_WINDOW, _X_TYPE, _OUT_TYPE),
            Option("count_include_pad", "average_pool: the padding counts as well.", "switch"),
        ),
        draw=draw_average,
        compute=compute_average,
    ),
    Op(
        name="global_average_pool",
        says="The average of each image, by channel.",
        problems=(GlobalAveragePool,),
        read=GlobalAveragePool.read,
        ask=_asked_global,
        options=(*_IMAGE, _X_TYPE, _OUT_TYPE),
        draw=draw_average,
        compute=compute_global,
    ),
)
