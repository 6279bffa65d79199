"""The op `conv2d`: its options, its random data, and its oracle, which is exact and independent of tiles, folding and
vector loads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from qconv.arithmetic.epilogue import computed
from qconv.arithmetic.mode import MODE_VALUES, PRESETS, Mode
from qconv.arithmetic.parameter import check_zero_point
from qconv.arithmetic.quantization import (
    ACTIVATIONS,
    BIASES,
    CONSTANTS,
    OUT_TYPES,
    RESIDUALS,
    X_TYPES,
    Parameters,
    Quantization,
)
from qconv.blas import one_thread
from qconv.dtypes import ElementType
from qconv.op import Array, Op, Option, Sample, read_key
from qconv.ops.draft import draw_layer
from qconv.ops.frames import beside_each_other
from qconv.ops.pixel_shuffle import to_channels, to_pixels
from qconv.ops.window import Windows, windows
from qconv.problem.convolution import FLAGS, LAYOUTS, Conv2d, read_conv2d
from qconv.sampling import calibration
from qconv.sampling.calibration import Style

# The fraction of samples whose scales are powers of two, and the fraction of those that also have coarse operands.
POWERS_OF_TWO, COARSE = 0.25, 0.75
# Outputs per batch of images: a few megabytes as int64 and fp32.
AT_A_TIME = 2**20
# Images with fewer channels have taps too narrow for matrix products of their own.
FEW = 16

_SIZES = {
    "n": "images",
    "h": "input height",
    "w": "input width",
    "c": "input channels",
    "k": "output channels",
    "r": "filter height",
    "s": "filter width",
}
_ZERO_POINTS = ("x_zero_point", "w_zero_point", "y_zero_point", "residual_zero_point", "inner_zero_point")
_GEOMETRY = ("stride", "dilation", "pad", "groups", "layout", "pixel_shuffle", "crop", "frames")
OPTIONS = (
    *(Option(name, says, "integer", required=True) for name, says in _SIZES.items()),
    Option("stride", "One, or vertical,horizontal. Default 1.", "extents"),
    Option("dilation", "One, or vertical,horizontal. Default 1.", "extents"),
    Option("pad", "One, or top,left,bottom,right. Default 0.", "extents"),
    Option("groups", "Default 1; as many as channels for depthwise.", "integer"),
    Option("pixel_shuffle", "Channels become blocks of one, or down,across, pixels. Default 1.", "extents"),
    Option("crop", "Outputs removed: one, or top,left,bottom,right. Default 0.", "extents"),
    Option("frames", "Of volumes: images,depth,taps,stride,dilation,before. Default: images.", "extents"),
    Option("layout", "Layout of activations; weights are KRSC or KCRS. Default nhwc.", choices=LAYOUTS),
    Option(
        "x_type",
        f"Input type. conv2d: int8 (default), {', '.join(X_TYPES[1:])}.",
        metavar="TYPE",
    ),
    Option("w_type", "Type of the weights. Default int8.", choices=X_TYPES),
    Option(
        "out_type",
        f"Output type. conv2d: int8 (default), {', '.join(OUT_TYPES[1:])}.",
        metavar="TYPE",
    ),
    Option("per_channel", "Weight scales per output channel.", "switch"),
    Option("bias", "Type of the bias. Without a value: int32.", choices=BIASES, alone="int32"),
    Option("mode", "The system whose arithmetic is used. Default: ort's.", choices=tuple(PRESETS)),
    Option("activation", "Default none.", choices=ACTIVATIONS),
    Option("residual", "Added before the activation. Default none.", choices=RESIDUALS),
    Option(
        "constant",
        "A byte per channel, added to the bytes of the output, or multiplied. Default none.",
        choices=CONSTANTS,
    ),
    Option("table", "Look outputs up by their byte in a table of 256.", "switch"),
    Option(
        "promoted_sums",
        "8-bit floats: add sums of at most 128 products in fp32. Default: what the instruction keeps.",
        "switch",
    ),
    Option("residual_add", "How the residual is added. Default multiply_add.", choices=MODE_VALUES["residual_add"]),
    *(
        Option(name, "The layer has one; run and bench use its value (default: random).", "zero_point")
        for name in _ZERO_POINTS
    ),
)


def read(key: str) -> Conv2d:
    _, given = read_key(key, FLAGS)
    return read_conv2d(key, given)


def ask(given: dict[str, Any]) -> Conv2d:
    """Return the convolution of the options. A zero point may have a value even for commands that draw no data."""
    geometry = {name: given[name] for name in (*_SIZES, *_GEOMETRY) if name in given}
    quantized = {name: value for name, value in given.items() if name not in (*geometry, "mode", "residual_add")}
    quantized |= {name: bool(quantized[name]) for name in _ZERO_POINTS if name in quantized}
    q = _quantization(given, quantized)
    problem = Conv2d(**geometry, quantization=q)
    types = {"x": q.x_type, "w": q.w_type, "y": q.out_type, "residual": q.residual, "inner": q.out_type}
    for name in _ZERO_POINTS:
        if given.get(name, True) is not True:
            check_zero_point(name, given[name], types[name.removesuffix("_zero_point")])
    return problem


def _quantization(given: dict[str, Any], spec: dict[str, Any]) -> Quantization:
    if "mode" not in given:
        flags = {name: given[name] for name in ("residual_add",) if name in given}
        return Quantization(mode=Mode(**flags), **spec)
    if "residual_add" in given:
        raise ValueError(
            f"residual_add={given['residual_add']!r} with mode={given['mode']!r}: that system has its own; give one of "
            "the two"
        )
    return Quantization.of(given["mode"], **spec)


def draw(problem: Conv2d, seed: int, fixed: dict[str, int]) -> Sample:
    rng = np.random.default_rng(seed)
    (seen,) = windows([problem], rng)
    drawn = draw_layer(seen, rng, fixed, style_of([seen], rng), towards(problem.quantization, fixed))
    forced = tuple(filter(None, [drawn.forced or drawn.lacks]))
    return Sample(drawn.arrays, drawn.parameters, forced, timed_arrays(drawn.arrays, rng))


def timed_arrays(arrays: tuple[Array, ...], rng: np.random.Generator) -> tuple[Array, ...]:
    """Return normal numbers of the shapes and types of these arrays, if they are floats whose sums are exact."""
    if all(array.dtype.kind in "iu" for array in arrays):
        return ()
    return tuple(
        array if array.dtype.kind in "iu" else rng.standard_normal(array.shape, np.float32).astype(array.dtype)
        for array in arrays
    )


def style_of(every: list[Windows], rng: np.random.Generator) -> Style:
    powers, coarse = rng.random(2) < (POWERS_OF_TWO, COARSE)
    return Style(bool(powers), bool(powers and coarse and all(seen.complete for seen in every)))


def towards(q: Quantization, fixed: dict[str, int]) -> int:
    """Return the sign that most values before the activation should have; 0 for any."""
    inner = 0
    if q.mode.requantizes_before_residual:
        inner = calibration.side(q, fixed.get("inner_zero_point") if q.inner_zero_point else 0)
    return inner or calibration.side(q, fixed.get("y_zero_point") if q.y_zero_point else 0)


def compute(problem: Conv2d, drawn: Sample) -> tuple[Array, ...]:
    x, w, *residual = drawn.arrays
    return (conv2d(problem, x, w, problem.checked(drawn.parameters), *residual),)


def accumulate(problem: Conv2d, x: Array, w: Array, parameters: Parameters) -> Array:
    """Return sum (x - x_zero_point) * (w - w_zero_point) as NHWK: int64 for integers, else float64. Padding is a real
    zero."""
    q = problem.quantization
    if problem.layout == "nchw":
        x, w = x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1)
    real_x = q.types.x.multiplied(x) - np.float32(parameters.x_zero_point if q.x_zero_point else 0)
    real_w = q.types.w.multiplied(w)
    if q.w_zero_point:
        real_w = real_w - np.asarray(parameters.w_zero_point, dtype=np.float32).reshape(-1, 1, 1, 1)
    top, left, bottom, right = problem.pad
    real_pad = -float(parameters.x_zero_point) if q.x_zero_point and q.mode.padding == "raw_zero" else 0.0
    padded = np.pad(real_x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=real_pad)
    # Partial sums of integers are below 2**53, where float64 is exact and BLAS fast; below 2**24, float32 is exact and
    # faster. Real sums are float64's, rounded once; a kernel adds in another order.
    largest = problem.r * problem.s * problem.c_group * _magnitude(padded) * _magnitude(real_w)
    whole = q.types.sum.is_integer
    exact = np.float32 if whole and largest < 2**24 else np.float64
    padded, real_w = padded.astype(exact, copy=False), real_w.astype(exact, copy=False)
    (step_h, step_w), (gap_h, gap_w) = problem.stride, problem.dilation
    grouped_w = real_w.reshape(problem.groups, problem.k_group, problem.r, problem.s, problem.c_group)
    taps = [
        padded[
            :,
            row : row + (problem.oh - 1) * step_h + 1 : step_h,
            column : column + (problem.ow - 1) * step_w + 1 : step_w,
        ]
        for row in range(0, problem.r * gap_h, gap_h)
        for column in range(0, problem.s * gap_w, gap_w)
    ]
    if whole and problem.groups == 1 and problem.c < FEW:
        # All taps in one product, because each tap alone gives narrow matrices.
        acc = np.concatenate(taps, axis=-1) @ real_w.reshape(problem.k, -1).T
    else:
        acc = np.zeros((len(x), problem.oh, problem.ow, problem.groups, problem.k_group), exact)
        filters = grouped_w.reshape(problem.groups, problem.k_group, len(taps), problem.c_group)
        for tap, window in enumerate(taps):
            _add_products(acc, window, filters[:, :, tap])
    sums: Array = acc.reshape(len(x), problem.oh, problem.ow, problem.k)
    return sums.astype(np.int64) if whole else sums


def _as_sums(acc: Array, sum_type: ElementType) -> Array:
    if sum_type.is_integer and np.abs(acc).max(initial=0) > sum_type.range[1]:
        raise ValueError(f"the accumulator passed the {sum_type.name} range: Conv2d should have refused this problem")
    return acc.astype(sum_type.numpy)


def _magnitude(values: Array) -> float:
    return max(float(values.max()), -float(values.min()))


def _add_products(acc: Array, window: Array, w: Array) -> None:
    """Add the products of pixels, in groups of channels, with one tap of the filters."""
    groups, _, c_group = w.shape
    if c_group == 1:  # single-channel groups: one image at a time stays in the cache
        for sums, image in zip(acc, window, strict=True):
            sums += image[..., np.newaxis] * w[..., 0]
        return
    matrices = window.reshape(-1, groups, c_group).transpose(1, 0, 2) @ w.transpose(0, 2, 1)
    acc += matrices.transpose(1, 0, 2).reshape(acc.shape)


def conv2d(problem: Conv2d, x: Array, w: Array, parameters: Parameters, residual: Array | None = None) -> Array:
    """Return the outputs of a convolution. Each core takes a few images at a time, so that they stay in the cache from
    step to step."""
    x = beside_each_other(problem, x, parameters.x_zero_point)
    images = max(1, AT_A_TIME // (problem.oh * problem.ow * problem.k))

    def of_images(begin: int) -> Array:
        part = slice(begin, begin + images)
        return _of_images(problem, x[part], w, parameters, None if residual is None else residual[part])

    begins = range(0, problem.n, images)
    if len(begins) == 1:
        return of_images(0)
    with one_thread(), ThreadPoolExecutor(min(len(begins), len(os.sched_getaffinity(0)))) as threads:
        return np.concatenate(list(threads.map(of_images, begins)))


def _of_images(problem: Conv2d, x: Array, w: Array, parameters: Parameters, residual: Array | None) -> Array:
    q = problem.quantization
    acc = accumulate(problem, x, w, parameters)
    if residual is not None:
        channels_last = residual if problem.layout == "nhwc" else residual.transpose(0, 2, 3, 1)
        residual_dtype = np.int32 if q.types.residual_is_integer else np.float32
        residual = to_channels(problem, channels_last.astype(residual_dtype))
    y = to_pixels(problem, computed(q, parameters, _as_sums(acc, q.types.sum), residual))
    return y if problem.layout == "nhwc" else np.ascontiguousarray(y.transpose(0, 3, 1, 2))


OP = Op(
    name="conv2d",
    says="Images with filters: a quantized convolution.",
    problems=(Conv2d,),
    read=read,
    ask=ask,
    options=OPTIONS,
    draw=draw,
    compute=compute,
)
