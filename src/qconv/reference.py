"""The oracle: what one problem computes, exactly, in NumPy. It knows nothing of tiles, folding or vector loads."""

from __future__ import annotations

import numpy as np

from qconv.conversion import Conversion
from qconv.conversion import reference as conversion_reference
from qconv.epilogue import computed
from qconv.fused import Chain
from qconv.op import Problem
from qconv.problem import Conv2d
from qconv.quantization import Parameters
from qconv.sample import Sample
from qconv.step import Array

# Outputs: as int64 and fp32 they are a few megabytes.
AT_A_TIME = 2**20


def compute(problem: Problem, drawn: Sample) -> tuple[Array, ...]:
    """The outputs that every kernel must give, bit for bit."""
    if isinstance(problem, Conversion):
        return conversion_reference.compute(problem, drawn.arrays)
    if isinstance(problem, Chain):
        values = problem.checked(drawn.parameters)
        x, *others = drawn.arrays
        for stage, one in problem.stages.items():
            w, *others = others
            x = conv2d(one, x, w, getattr(values, stage), *(others if one is problem.last else ()))
        return (x,)
    assert isinstance(problem, Conv2d)
    x, w, *residual = drawn.arrays
    return (conv2d(problem, x, w, problem.checked(drawn.parameters), *residual),)


def accumulate(problem: Conv2d, x: Array, w: Array, parameters: Parameters) -> Array:
    """sum (x - x_zero_point) * (w - w_zero_point) as int64, NHWK; padding is a real zero."""
    q = problem.quantization
    if problem.layout == "nchw":
        x, w = x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1)
    real_x = x.astype(np.float32) - np.float32(parameters.x_zero_point if q.x_zero_point else 0)
    real_w = w.astype(np.float32)
    if q.w_zero_point:
        real_w = real_w - np.asarray(parameters.w_zero_point, dtype=np.float32).reshape(-1, 1, 1, 1)
    top, left, bottom, right = problem.pad
    real_pad = -float(parameters.x_zero_point) if q.x_zero_point and q.mode.padding == "raw_zero" else 0.0
    padded = np.pad(real_x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=real_pad)
    # Every partial sum is an integer below 2**53, so that float64 is exact, and BLAS makes it fast; float32 is exact
    # below 2**24, and faster.
    largest = problem.r * problem.s * problem.c_group * _magnitude(padded) * _magnitude(real_w)
    exact = np.float32 if largest < 2**24 else np.float64
    padded, real_w = padded.astype(exact, copy=False), real_w.astype(exact, copy=False)
    (step_h, step_w), (gap_h, gap_w) = problem.stride, problem.dilation
    grouped_w = real_w.reshape(problem.groups, problem.k_group, problem.r, problem.s, problem.c_group)
    acc = np.zeros((len(x), problem.oh, problem.ow, problem.groups, problem.k_group), exact)
    for r in range(problem.r):
        for s in range(problem.s):
            rows = slice(r * gap_h, r * gap_h + (problem.oh - 1) * step_h + 1, step_h)
            columns = slice(s * gap_w, s * gap_w + (problem.ow - 1) * step_w + 1, step_w)
            _add_products(acc, padded[:, rows, columns, :], grouped_w[:, :, r, s, :])
    return acc.reshape(len(x), problem.oh, problem.ow, problem.k).astype(np.int64)


def _magnitude(values: Array) -> float:
    return max(float(values.max()), -float(values.min()))


def _add_products(acc: Array, window: Array, w: Array) -> None:
    """Of pixels, in groups of channels, with one tap of the filters."""
    groups, _, c_group = w.shape
    if c_group == 1:  # matrices of one number: an image after the other, for one stays in the cache
        for sums, image in zip(acc, window, strict=True):
            sums += image[..., np.newaxis] * w[..., 0]
        return
    matrices = window.reshape(-1, groups, c_group).transpose(1, 0, 2) @ w.transpose(0, 2, 1)
    acc += matrices.transpose(1, 0, 2).reshape(acc.shape)


def conv2d(problem: Conv2d, x: Array, w: Array, parameters: Parameters, residual: Array | None = None) -> Array:
    """A few images at a time, so that what a step leaves to the next stays in a cache."""
    images = max(1, AT_A_TIME // (problem.oh * problem.ow * problem.k))
    parts = [slice(begin, begin + images) for begin in range(0, problem.n, images)]
    residuals = [None if residual is None else residual[part] for part in parts]
    return np.concatenate(
        [_of_images(problem, x[part], w, parameters, of_part) for part, of_part in zip(parts, residuals, strict=True)]
    )


def _of_images(problem: Conv2d, x: Array, w: Array, parameters: Parameters, residual: Array | None) -> Array:
    q = problem.quantization
    acc = accumulate(problem, x, w, parameters)
    if np.abs(acc).max(initial=0) > 2**31 - 1:
        raise ValueError("the accumulator passed the int32 range: Conv2d should have refused this problem")
    if residual is not None:
        channels_last = residual if problem.layout == "nhwc" else residual.transpose(0, 2, 3, 1)
        residual = channels_last.astype(np.int32)
    y = computed(q, parameters, acc.astype(np.int32), residual)
    return y if problem.layout == "nhwc" else np.ascontiguousarray(y.transpose(0, 3, 1, 2))
