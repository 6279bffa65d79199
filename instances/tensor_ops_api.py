"""The integer ops between convolutions in one line: shapes and types are read off the arrays, the kernel is looked up.

Every scale and zero point is one number on the host, for the whole tensor. The arithmetic is ONNX Runtime's.
"""

from __future__ import annotations

from math import prod
from typing import Any

from qconv.instances.arguments import in_shape, place_of, shape_of, type_of
from qconv.instances.serving import lookup
from qconv.tensor_ops import Add, Binary, Mul


def add(
    a: Any,
    b: Any,
    *,
    a_scale: Any = 1.0,
    b_scale: Any = 1.0,
    y_scale: Any = 1.0,
    a_zero_point: Any = 0,
    b_zero_point: Any = 0,
    y_zero_point: Any = 0,
    activation: str = "none",
    out_type: str | None = None,
    out: Any = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """The sum of two quantized tensors, quantized anew, as QLinearAdd computes it. The smaller is broadcast to the
    other's shape, along axes that are neighbours: one number a channel of NHWC, say. `activation` is none or relu.
    `out` may be the larger tensor itself."""
    numbers = {"a_scale": a_scale, "b_scale": b_scale, "y_scale": y_scale}
    zeros = {"a_zero_point": a_zero_point, "b_zero_point": b_zero_point, "y_zero_point": y_zero_point}
    return _binary(Add, a, b, numbers | zeros, activation, out_type, out, stream, device)


def mul(
    a: Any,
    b: Any,
    *,
    a_scale: Any = 1.0,
    b_scale: Any = 1.0,
    y_scale: Any = 1.0,
    a_zero_point: Any = 0,
    b_zero_point: Any = 0,
    y_zero_point: Any = 0,
    activation: str = "none",
    out_type: str | None = None,
    out: Any = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """The product of two quantized tensors, quantized anew, as QLinearMul computes it; otherwise as `add`. A factor a
    channel and image, of shape (n, 1, 1, c), is the end of a squeeze-and-excite."""
    numbers = {"a_scale": a_scale, "b_scale": b_scale, "y_scale": y_scale}
    zeros = {"a_zero_point": a_zero_point, "b_zero_point": b_zero_point, "y_zero_point": y_zero_point}
    return _binary(Mul, a, b, numbers | zeros, activation, out_type, out, stream, device)


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
    if (prod(b_shape), len(b_shape)) > (prod(a_shape), len(a_shape)):
        a, b, a_shape, b_shape = b, a, b_shape, a_shape
        swapped = {"a": "b", "b": "a", "y": "y"}
        numbers = {f"{swapped[name[0]]}{name[1:]}": value for name, value in numbers.items()}
    problem = kind.of(a_shape, b_shape, a_type=type_of(a), b_type=type_of(b), out_type=out_type, activation=activation)
    with place.on(stream):
        (a_like, b_like), (y_like,) = problem.inputs, problem.outputs
        given = [in_shape(place, "a", a, a_shape, a_like.shape), in_shape(place, "b", b, b_shape, b_like.shape)]
        into = None if out is None else in_shape(place, "out", out, a_shape, y_like.shape)
        y = lookup(problem, place.spec)(*given, out=into, stream=stream, **numbers)
    return y.reshape(a_shape) if out is None else out
