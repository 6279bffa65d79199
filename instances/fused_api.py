"""Two convolutions in one line: the faster of one kernel and two is looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qconv.fused import NAMES, OF_EACH, FusedConv2d
from qconv.instances.api import conv2d_problem
from qconv.instances.arguments import device_of
from qconv.instances.lookup import lookup

# Of a convolution: what says which kernel it is, and no value of a call.
_SHAPE = ("stride", "dilation", "pad", "groups", "activation", "out_type", "mode")


def conv2d_conv2d(
    x: Any,
    w1: Any,
    w2: Any,
    *,
    first: Mapping[str, Any] | None = None,
    second: Mapping[str, Any] | None = None,
    x_scale: Any = 1.0,
    x_zero_point: Any = 0,
    mid_scale: Any = 1.0,
    mid_zero_point: Any = 0,
    y_scale: Any = 1.0,
    y_zero_point: Any = 0,
    residual: Any = None,
    residual_scale: Any = None,
    residual_zero_point: Any = 0,
    out: Any = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """`conv2d` of `conv2d`: NHWC `x`, KRSC `w1` and `w2`. What lies between the two is int8 (or the `out_type` of
    `first`) at `mid_scale` and `mid_zero_point`; where one kernel is faster than two it never reaches memory.

    `first` and `second` hold what else `conv2d` takes of each: stride, dilation, pad, groups, w_scale, w_zero_point,
    bias, activation with slope, low and high, mode; and `out_type`. The residual is added by the second.
    """
    one, two = dict(first or {}), dict(second or {})
    for name, given in (("first", one), ("second", two)):
        if unknown := [key for key in given if key not in (*_SHAPE, *OF_EACH)]:
            raise ValueError(
                f"{name}={{{unknown[0]!r}: ...}} is not known; each of the two takes {', '.join((*_SHAPE, *OF_EACH))}"
            )
    problem_1 = conv2d_problem(x, w1, x_zero_point=x_zero_point, y_zero_point=mid_zero_point, **_of_problem(one))
    mid = _Shaped(problem_1.y_shape, problem_1.quantization.out_type)
    problem_2 = conv2d_problem(
        mid, w2, x_zero_point=mid_zero_point, y_zero_point=y_zero_point, residual=residual,
        residual_zero_point=residual_zero_point, **_of_problem(two),
    )  # fmt: skip
    problem = FusedConv2d(problem_1, problem_2)
    values = {
        **{NAMES["first"][name]: one[name] for name in OF_EACH if name in one},
        **{NAMES["second"][name]: two[name] for name in OF_EACH if name in two},
        "x_scale": x_scale, "x_zero_point": x_zero_point, "mid_scale": mid_scale, "mid_zero_point": mid_zero_point,
        "y_scale": y_scale, "y_zero_point": y_zero_point, "residual_scale": residual_scale,
        "residual_zero_point": residual_zero_point,
    }  # fmt: skip
    instance = lookup(problem, device or device_of(x))
    arrays = (x, w1, w2) if residual is None else (x, w1, w2, residual)
    return instance(*arrays, out=out, stream=stream, **values)


def _of_problem(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in ("slope", "low", "high")}


class _Shaped:
    """What lies between the two: known by its shape and type alone."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape = shape
        self.dtype = dtype
