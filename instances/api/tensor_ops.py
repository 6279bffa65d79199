"""The integer ops between convolutions on arrays: shapes and types are taken from the arrays, and the kernel is looked
up.

Scales and zero points are single numbers on the host, for whole tensors. The arithmetic is ONNX Runtime's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from qconv.host_array import check_unmasked
from qconv.instances.api.array_kinds import AnyArray, Numbers, gives_one, takes_several
from qconv.instances.load.arguments import in_shape, is_array, place_of, shape_of
from qconv.instances.load.serving import lookup
from qconv.narrow_floats import type_of
from qconv.op import Problem, checked_axis, quoted
from qconv.tensor_ops import (
    Add,
    ArgMax,
    AveragePool,
    Binary,
    ChannelShuffle,
    Concat,
    GlobalAveragePool,
    MaxPool,
    Mul,
    Table,
)
from qconv.tensor_ops.binary import begins_with_first, turned
from qconv.tensor_ops.functions import Function, named, rescaled, table_of
from qconv.tensor_ops.pooling import WholeImage


@gives_one
def add(
    a: Any,
    /,
    b: AnyArray,
    *,
    a_scale: Numbers = 1.0,
    b_scale: Numbers = 1.0,
    y_scale: Numbers = 1.0,
    a_zero_point: Numbers = 0,
    b_zero_point: Numbers = 0,
    y_zero_point: Numbers = 0,
    activation: str = "none",
    out_type: str | None = None,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """The sum of two quantized tensors, requantized, as QLinearAdd computes it. The smaller tensor is broadcast along
    neighbouring axes of the other one, for example one number per channel of NHWC. `activation` is none or relu. `out`
    may be the larger tensor, or either of two with the same shape."""
    numbers = {"a_scale": a_scale, "b_scale": b_scale, "y_scale": y_scale}
    zeros = {"a_zero_point": a_zero_point, "b_zero_point": b_zero_point, "y_zero_point": y_zero_point}
    return _binary(Add, a, b, numbers | zeros, activation, out_type, out, stream, device)


@gives_one
def mul(
    a: Any,
    /,
    b: AnyArray,
    *,
    a_scale: Numbers = 1.0,
    b_scale: Numbers = 1.0,
    y_scale: Numbers = 1.0,
    a_zero_point: Numbers = 0,
    b_zero_point: Numbers = 0,
    y_zero_point: Numbers = 0,
    activation: str = "none",
    out_type: str | None = None,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """The product of two quantized tensors, requantized, as QLinearMul computes it. The arguments are those of `add`. A
    factor per channel and image, of shape (n, 1, 1, c), is the last step of a squeeze-and-excite block."""
    numbers = {"a_scale": a_scale, "b_scale": b_scale, "y_scale": y_scale}
    zeros = {"a_zero_point": a_zero_point, "b_zero_point": b_zero_point, "y_zero_point": y_zero_point}
    return _binary(Mul, a, b, numbers | zeros, activation, out_type, out, stream, device)


@gives_one
def unary(
    x: Any,
    /,
    function: str | Function,
    *,
    x_scale: Numbers = 1.0,
    y_scale: Numbers = 1.0,
    x_zero_point: Numbers = 0,
    y_zero_point: Numbers = 0,
    alpha: Numbers | None = None,
    out_type: str | None = None,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """A function of every element of a quantized tensor, requantized, computed with a table of 256 entries: identity
    (another scale), relu, leaky_relu with `alpha`, sigmoid, hardswish, silu, tanh, gelu, or any function of a float32
    array. `out` may be `x`."""
    if not isinstance(function, str) and alpha is not None:
        raise ValueError(f"alpha={quoted(alpha)} was given beside a function of yours: let that have it")
    real = named(function, alpha) if isinstance(function, str) else function
    numbers = {"x_scale": x_scale, "y_scale": y_scale, "x_zero_point": x_zero_point, "y_zero_point": y_zero_point}
    table = table_of(real, type_of(x), out_type or type_of(x), **numbers)
    return apply_table(x, table, out=out, stream=stream, device=device)


@gives_one
def apply_table(
    x: Any, /, table: AnyArray, *, out: AnyArray | None = None, stream: Any = None, device: str | None = None
) -> Any:
    """Replace every element by the table's entry for its byte. The table has 256 entries of int8 or uint8. `out` may be
    `x`."""
    shape = shape_of("x", x)
    problem = Table(prod(shape), x_type=type_of(x), out_type=type_of(table))
    return _of_one(problem, x, shape, out, stream, device, table)


@takes_several
def concat(
    tensors: Any,
    /,
    axis: int = -1,
    *,
    x_scales: Sequence[float] | None = None,
    x_zero_points: Sequence[int] | None = None,
    y_scale: Numbers = 1.0,
    y_zero_point: Numbers = 0,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """Concatenate tensors along an axis, as QLinearConcat does: tensors with another scale or zero point than the
    output are requantized. Without `x_scales` and `x_zero_points` the bytes are copied."""
    shapes, dtype = _shapes_of(tensors), type_of(tensors[0])
    at = checked_axis(axis, "tensors[0]", shapes[0])
    rows, inner = prod(shapes[0][:at]), prod(shapes[0][at + 1 :])
    if any((*shape[:at], *shape[at + 1 :]) != (*shapes[0][:at], *shapes[0][at + 1 :]) for shape in shapes):
        raise ValueError(f"shapes {', '.join(map(str, shapes))} must be the same but for axis {at}")
    tables = _tables(dtype, len(shapes), x_scales, x_zero_points, y_scale=y_scale, y_zero_point=y_zero_point)
    widths = [shape[at] * inner for shape in shapes]
    problem = Concat.of(rows, [(w, w, 0, t is not None) for w, t in zip(widths, tables, strict=True)], dtype)
    y_shape = (*shapes[0][:at], sum(shape[at] for shape in shapes), *shapes[0][at + 1 :])
    place = place_of(tensors[0], device)
    with place.on(stream):
        given = [in_shape(place, f"tensors[{i}]", x, shapes[i], problem.inputs[i].shape) for i, x in enumerate(tensors)]
        given += [place.upload(np.stack([t for t in tables if t is not None]))] if problem.tables else []
        into = None if out is None else in_shape(place, "out", out, y_shape, problem.outputs[0].shape)
        y = lookup(problem, place.spec)(*given, out=into, stream=stream)
    return y.reshape(y_shape) if out is None else out


def _shapes_of(tensors: Any) -> list[tuple[int, ...]]:
    if not hasattr(tensors, "__len__") or not len(tensors):
        given = "none" if hasattr(tensors, "__len__") else type(tensors).__name__
        raise ValueError(f"tensors must be a list of arrays, at least one; it is {given}")
    shapes = [shape_of(f"tensors[{i}]", x) for i, x in enumerate(tensors)]
    if any(len(shape) != len(shapes[0]) for shape in shapes):
        raise ValueError(f"shapes {', '.join(map(str, shapes))} must have as many axes as each other: reshape some")
    return shapes


def _tables(dtype: str, count: int, x_scales: Any, x_zero_points: Any, **of_y: Any) -> list[Any]:
    """Return the requantization table of each tensor, or None where bytes are copied."""
    rescaled(dtype, **of_y)  # check y's values first, so that their errors do not name an x with the same values
    if x_scales is None and x_zero_points is None:
        return [None] * count
    scales = _one_each("x_scales", x_scales, count, of_y["y_scale"])
    zeros = _one_each("x_zero_points", x_zero_points, count, of_y["y_zero_point"])
    tables = []
    for i, (scale, zero) in enumerate(zip(scales, zeros, strict=True)):
        try:
            tables.append(rescaled(dtype, x_scale=scale, x_zero_point=zero, **of_y))
        except ValueError as error:
            raise ValueError(f"of tensors[{i}]: {error}") from None
    return tables


def _one_each(name: str, given: Any, count: int, usual: Any) -> list[Any]:
    if given is None:
        return [usual] * count
    if not is_array(given) or len(given) != count:
        raise ValueError(f"{name}={quoted(given)} must be a list of {count} numbers, one for each tensor")
    return list(given)


@gives_one
def max_pool(
    x: Any,
    /,
    kernel: int | Sequence[int],
    *,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
    **geometry: Any,
) -> Any:
    """The largest element of each window of NHWC `x`, per channel. `kernel` is the window's height and width.

    `stride`, `pad` and `dilation` are as for `conv2d`. With `ceil_mode`, incomplete windows at the end count too.
    """
    problem = MaxPool.of(shape_of("x", x, "nhwc"), kernel, x_type=type_of(x), **geometry)
    return lookup(problem, place_of(x, device).spec)(x, out=out, stream=stream)


@gives_one
def average_pool(
    x: Any,
    /,
    kernel: int | Sequence[int],
    *,
    x_scale: Numbers = 1.0,
    y_scale: Numbers = 1.0,
    x_zero_point: Numbers = 0,
    y_zero_point: Numbers = 0,
    out_type: str | None = None,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
    **geometry: Any,
) -> Any:
    """The average of each window of NHWC `x`, requantized, as QLinearAveragePool computes it. A window of the whole
    image is computed by `global_average_pool`.

    `stride`, `pad` and `ceil_mode` are as for `max_pool`. Padding is a real zero, which counts only with
    `count_include_pad`.
    """
    numbers: dict[str, Any] = {"x_scale": x_scale, "y_scale": y_scale}
    numbers |= {"x_zero_point": x_zero_point, "y_zero_point": y_zero_point}
    types = {"x_type": type_of(x), "out_type": out_type or type_of(x)}
    try:
        problem = AveragePool.of(shape_of("x", x, "nhwc"), kernel, **types, **geometry)
    except WholeImage:  # raised only when all other arguments are valid
        return global_average_pool(x, out_type=out_type, out=out, stream=stream, device=device, **numbers)
    return lookup(problem, place_of(x, device).spec)(x, out=out, stream=stream, **numbers)


@gives_one
def global_average_pool(
    x: Any,
    /,
    *,
    x_scale: Numbers = 1.0,
    y_scale: Numbers = 1.0,
    x_zero_point: Numbers = 0,
    y_zero_point: Numbers = 0,
    out_type: str | None = None,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """The average of every image of NHWC `x` per channel, requantized, as QLinearGlobalAveragePool computes it. Returns
    an array of (n, 1, 1, c)."""
    n, h, w, c = shape_of("x", x, "nhwc")
    problem = GlobalAveragePool(n, h * w, c, x_type=type_of(x), out_type=out_type or type_of(x))
    numbers: dict[str, Any] = {"x_scale": x_scale, "y_scale": y_scale}
    numbers |= {"x_zero_point": x_zero_point, "y_zero_point": y_zero_point}
    return _of_one(problem, x, (n, 1, 1, c), out, stream, device, **numbers)


@gives_one
def argmax(
    x: Any,
    /,
    axis: int = -1,
    *,
    keepdims: bool = False,
    last: bool = False,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """The index (int64) of the largest element along an axis of an 8-bit tensor: of the first among equals, or with
    `last` of the last. A positive scale does not change it."""
    shape = shape_of("x", x)
    at = checked_axis(axis, "x", shape)
    problem = ArgMax.of(shape, at, last=last, x_type=type_of(x))
    y_shape = (*shape[:at], *((1,) if keepdims else ()), *shape[at + 1 :])
    return _of_one(problem, x, y_shape, out, stream, device)


@gives_one
def channel_shuffle(
    x: Any, /, groups: int, *, out: AnyArray | None = None, stream: Any = None, device: str | None = None
) -> Any:
    """Interleave the channel groups of `x`, along its last axis: the first channel of each group, then the second of
    each, and so on, as in ShuffleNet."""
    shape = shape_of("x", x)
    at = checked_axis(-1, "x", shape)
    problem = ChannelShuffle.of(prod(shape[:at]), shape[at], groups, type_of(x))
    return _of_one(problem, x, shape, out, stream, device)


def _of_one(
    problem: Problem,
    x: Any,
    y_shape: tuple[int, ...],
    out: Any,
    stream: Any,
    device: str | None,
    *tables: Any,
    **numbers: Any,
) -> Any:
    """Run an op on one tensor, in the caller's shapes. Tables may be on the host."""
    place, x_like, (y_like,) = place_of(x, device), problem.inputs[0], problem.outputs
    for table in tables:
        check_unmasked("table", table)
    with place.on(stream):
        on_device = [place.upload(table) if isinstance(table, np.ndarray) else table for table in tables]
        given = in_shape(place, "x", x, shape_of("x", x), x_like.shape)
        into = None if out is None else in_shape(place, "out", out, y_shape, y_like.shape)
        y = lookup(problem, place.spec)(given, *on_device, out=into, stream=stream, **numbers)
    return y.reshape(y_shape) if out is None else out


def _binary(
    kind: type[Binary],
    a: Any,
    b: Any,
    numbers: dict[str, Any],
    activation: str,
    out_type: str | None,
    out: Any,
    stream: Any,
    device: str | None,
) -> Any:
    a_shape, b_shape = shape_of("a", a), shape_of("b", b)
    place = place_of(a, device)
    out_type = out_type or type_of(a)
    is_turned = (prod(b_shape), len(b_shape)) > (prod(a_shape), len(a_shape))
    order = {"added_first": "a"} if kind is Add and is_turned != begins_with_first(a_shape, b_shape) else {}
    if is_turned:
        a, b, a_shape, b_shape, numbers = b, a, b_shape, a_shape, turned(numbers)
    types = {"a_type": type_of(a), "b_type": type_of(b), "out_type": out_type}
    problem = kind.of(a_shape, b_shape, activation=activation, **types, **order)
    with place.on(stream):
        (a_like, b_like), (y_like,) = problem.inputs, problem.outputs
        given = [in_shape(place, "a", a, a_shape, a_like.shape), in_shape(place, "b", b, b_shape, b_like.shape)]
        into = None if out is None else in_shape(place, "out", out, a_shape, y_like.shape)
        y = lookup(problem, place.spec)(*given, out=into, stream=stream, **numbers)
    return y.reshape(a_shape) if out is None else out
