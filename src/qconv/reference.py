"""The oracle: what one problem computes, exactly, in NumPy. It knows nothing of tiles, folding or vector loads."""

from __future__ import annotations

import numpy as np

from qconv.conversion import Conversion
from qconv.conversion import reference as conversion_reference
from qconv.epilogue import steps
from qconv.fused import FusedConv2d
from qconv.op import Problem
from qconv.problem import Conv2d
from qconv.quantization import Parameters
from qconv.sample import Sample
from qconv.step import Array, Values


def compute(problem: Problem, drawn: Sample) -> tuple[Array, ...]:
    """The outputs that every kernel must give, bit for bit."""
    if isinstance(problem, Conversion):
        return conversion_reference.compute(problem, drawn.arrays)
    if isinstance(problem, FusedConv2d):
        x, w1, w2, *residual = drawn.arrays
        values = problem.checked(drawn.parameters)
        mid = conv2d(problem.first, x, w1, values.first)
        return (conv2d(problem.second, mid, w2, values.second, *residual),)
    assert isinstance(problem, Conv2d)
    x, w, *residual = drawn.arrays
    return (conv2d(problem, x, w, problem.checked(drawn.parameters), *residual),)


def accumulate(problem: Conv2d, x: Array, w: Array, parameters: Parameters) -> Array:
    """sum (x - x_zero_point) * (w - w_zero_point) as int64, NHWK; padding is a real zero."""
    q = problem.quantization
    if problem.layout == "nchw":
        x, w = x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1)
    # Every partial sum is an integer below 2**53, so that float64 is exact, and BLAS makes it fast.
    real_x = x.astype(np.float64) - (float(parameters.x_zero_point) if q.x_zero_point else 0.0)
    real_w = w.astype(np.float64)
    if q.w_zero_point:
        real_w = real_w - np.asarray(parameters.w_zero_point, dtype=np.float64).reshape(-1, 1, 1, 1)
    top, left, bottom, right = problem.pad
    real_pad = -float(parameters.x_zero_point) if q.x_zero_point and q.mode.padding == "raw_zero" else 0.0
    padded = np.pad(real_x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=real_pad)
    (step_h, step_w), (gap_h, gap_w) = problem.stride, problem.dilation
    grouped_w = real_w.reshape(problem.groups, problem.k_group, problem.r, problem.s, problem.c_group)
    acc = np.zeros((problem.groups, problem.pixels, problem.k_group))
    for r in range(problem.r):
        for s in range(problem.s):
            rows = slice(r * gap_h, r * gap_h + (problem.oh - 1) * step_h + 1, step_h)
            columns = slice(s * gap_w, s * gap_w + (problem.ow - 1) * step_w + 1, step_w)
            window = padded[:, rows, columns, :].reshape(problem.pixels, problem.groups, problem.c_group)
            acc += window.transpose(1, 0, 2) @ grouped_w[:, :, r, s, :].transpose(0, 2, 1)
    total = acc.transpose(1, 0, 2).reshape(problem.n, problem.oh, problem.ow, problem.k)
    return np.ascontiguousarray(total, dtype=np.int64)


def conv2d(problem: Conv2d, x: Array, w: Array, parameters: Parameters, residual: Array | None = None) -> Array:
    q = problem.quantization
    acc = accumulate(problem, x, w, parameters)
    if np.abs(acc).max(initial=0) > 2**31 - 1:
        raise ValueError("the accumulator passed the int32 range: Conv2d should have refused this problem")
    chosen = steps(q)
    values: Values = {argument.name: argument.value(q, parameters) for step in chosen for argument in step.arguments}
    if residual is not None:
        channels_last = residual if problem.layout == "nhwc" else residual.transpose(0, 2, 3, 1)
        values["residual"] = channels_last.astype(np.int32)
    state: Array = acc.astype(np.int32)
    with np.errstate(over="ignore"):
        for step in chosen:
            state = step.numpy(state, values)
    return state if problem.layout == "nhwc" else np.ascontiguousarray(state.transpose(0, 3, 1, 2))
