"""quantize, dequantize, requantize, choose_qparams and quantize_dynamic on arrays of any shape, which are viewed as
(outer, channels, inner). The kernel is looked up.

`axis` selects what has its own scale: None for the whole array; an axis or several neighbouring axes for each index
along them; "token" for each row of the last axis. With `block`, that number of neighbours along the axis shares a
scale, as in ONNX. `mode` names the system whose arithmetic is used; single flags of the problem can be given instead,
such as `quotient="reciprocal"`.
"""

from __future__ import annotations

import difflib
from dataclasses import fields
from typing import Any

import numpy as np

from qconv.conversion import Choose, Conversion, Dequantize, Dynamic, Quantize, Requantize
from qconv.conversion.view import Axis, View, view_of
from qconv.device import Device
from qconv.dtypes import ELEMENT_TYPES, RANGES
from qconv.instances.api.array_kinds import AnyArray, Numbers, as_kind_of, gives_one, gives_three, gives_two
from qconv.instances.load.arguments import as_array, in_mode, in_shape, place_of, shape_of
from qconv.instances.load.serving import lookup
from qconv.narrow_floats import type_of
from qconv.op import quoted

# Accepted types of scales and zero points.
NUMBERS = ("int64", "uint32", "uint64", *ELEMENT_TYPES)


@gives_one
def quantize(
    x: Any,
    /,
    scale: Numbers,
    zero_point: Numbers | None = None,
    *,
    axis: Axis = None,
    block: int = 0,
    out_type: str = "int8",
    low: int | None = None,
    high: int | None = None,
    mode: str | None = None,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
    **flags: Any,
) -> Any:
    """round(x / scale) + zero_point, clamped: real numbers to integers, in the shape of `x`.

    Scales and zero points are numbers, lists or arrays, on the host or on the device of `x`. A single one applies to
    all of `x`.
    """
    spec = {"out_type": out_type, "low": low, "high": high, "zero_point": zero_point is not None, **flags}
    given = [("scale", scale, None), ("zero_point", zero_point, out_type)]
    return _convert(Quantize, mode, spec, given, x, axis, block, out, stream, device)


@gives_one
def dequantize(
    x: Any,
    /,
    scale: Numbers,
    zero_point: Numbers | None = None,
    *,
    axis: Axis = None,
    block: int = 0,
    out_type: str = "float32",
    mode: str | None = None,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
    **flags: Any,
) -> Any:
    """(x - zero_point) * scale: integers to real numbers, in the shape of `x`."""
    spec = {"out_type": out_type, "zero_point": zero_point is not None, **flags}
    given = [("scale", scale, None), ("zero_point", zero_point, type_of(x))]
    return _convert(Dequantize, mode, spec, given, x, axis, block, out, stream, device)


@gives_one
def requantize(
    x: Any,
    /,
    x_scale: Numbers,
    y_scale: Numbers,
    x_zero_point: Numbers | None = None,
    y_zero_point: Numbers | None = None,
    *,
    axis: Axis = None,
    block: int = 0,
    out_type: str = "int8",
    low: int | None = None,
    high: int | None = None,
    mode: str | None = None,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
    **flags: Any,
) -> Any:
    """round((x - x_zero_point) * (x_scale / y_scale)) + y_zero_point, clamped: integers of one scale to another one."""
    zeros = {"x_zero_point": x_zero_point is not None, "y_zero_point": y_zero_point is not None}
    spec = {"out_type": out_type, "low": low, "high": high, **zeros, **flags}
    given = [
        ("x_scale", x_scale, None),
        ("x_zero_point", x_zero_point, type_of(x)),
        ("y_scale", y_scale, None),
        ("y_zero_point", y_zero_point, out_type),
    ]
    return _convert(Requantize, mode, spec, given, x, axis, block, out, stream, device)


@gives_two
def choose_qparams(
    x: Any,
    /,
    *,
    axis: Axis = None,
    out_type: str | None = None,
    low: int | None = None,
    high: int | None = None,
    mapping: str | None = None,
    rule: str | None = None,
    eps: float | None = None,
    mode: str | None = None,
    stream: Any = None,
    device: str | None = None,
    **flags: Any,
) -> tuple[Any, Any]:
    """Return the scale and the zero point (int32) for the range of `x`, in the shapes that `quantize` takes. `out_type`
    is int8 unless the mode has another default. The zero point of an 8-bit float is None."""
    spec = {"out_type": out_type, "low": low, "high": high, "mapping": mapping, "rule": rule, "eps": eps, **flags}
    scale, zero_point = _choose(Choose, mode, spec, x, axis, stream, device)
    return scale, zero_point


@gives_three
def quantize_dynamic(
    x: Any,
    /,
    *,
    axis: Axis = None,
    out_type: str | None = None,
    low: int | None = None,
    high: int | None = None,
    mapping: str | None = None,
    rule: str | None = None,
    eps: float | None = None,
    mode: str | None = None,
    stream: Any = None,
    device: str | None = None,
    **flags: Any,
) -> tuple[Any, Any, Any]:
    """Return (y, scale, zero_point): choose_qparams and quantize in one kernel. The zero point of an 8-bit float is
    None."""
    spec = {"out_type": out_type, "low": low, "high": high, "mapping": mapping, "rule": rule, "eps": eps, **flags}
    y, scale, zero_point = _choose(Dynamic, mode, spec, x, axis, stream, device)
    return y, scale, zero_point


def _problem(kind: type[Conversion], mode: str | None, spec: dict[str, Any], x: Any, view: View) -> Conversion:
    # The result has the shape of x. For arrays that change their layout, look up the problem itself.
    left = (*view.sizes, "channels_last", "x_type")
    known = [entry.name for entry in fields(kind) if entry.init and entry.name not in left]
    for name in spec:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else f"; it has {', '.join(known)}"
            raise ValueError(f"{kind.op} has no {name!r}{hint}")
    if mode is not None and not isinstance(mode, str):
        raise ValueError(
            f"mode={quoted(mode)} must be the name of a system: {kind.op} takes flags by themselves, as in "
            "rounding='rtz', and a qconv.Mode is a convolution's"
        )
    chosen = {name: value for name, value in spec.items() if value is not None}
    chosen |= {"x_type": type_of(x), **view.sizes}
    return in_mode(kind, mode, chosen)


def _convert(
    kind: type[Conversion],
    mode: str | None,
    spec: dict[str, Any],
    given: list[tuple[str, Any, str | None]],
    x: Any,
    axis: Axis,
    block: int,
    out: Any,
    stream: Any,
    device: str | None,
) -> Any:
    """Run a conversion. `given` lists scales and zero points by name, in the order of the kernel's arguments, with the
    integer type of each zero point."""
    view = view_of(shape_of("x", x), axis, block)
    place = place_of(x, device)
    needed = [entry for entry in given if entry[1] is not None or entry[0].endswith("scale")]
    with place.on(stream):
        arrays = [(name, _given(place, name, value, of)) for name, value, of in needed]
        for name, array in arrays:
            if array.size != 1 and tuple(array.shape) not in view.scale_shapes:
                wanted = " or ".join(dict.fromkeys(str(shape) for shape in view.scale_shapes)) if view.last else "()"
                raise ValueError(
                    f"{name} has shape {tuple(array.shape)}; x of shape {view.shape} with axis={axis!r} and "
                    f"block={block} takes one number{f' or {wanted}' if view.last else ', or give an axis'}"
                )
        if all(array.size == 1 for _, array in arrays):
            view = View(view.shape)
        problem = _problem(kind, mode, spec, x, view)
        flat = [
            _broadcast(array.astype(tensor.dtype).reshape(-1), tensor.shape[0])
            for tensor, (_, array) in zip(problem.inputs[1:], arrays, strict=True)
        ]
        flat = [place.upload(array) if isinstance(array, np.ndarray) else array for array in flat]
        seen = None if out is None else _seen(place, "out", out, view)
        y = lookup(problem, place.spec)(_seen(place, "x", x, view), *flat, out=seen, stream=stream)
    return as_kind_of(x, y.reshape(view.shape), problem.outputs[0].dtype) if out is None else out


def _choose(
    kind: type[Choose],
    mode: str | None,
    spec: dict[str, Any],
    x: Any,
    axis: Axis,
    stream: Any,
    device: str | None,
) -> list[Any]:
    """Return the outputs, with None for the zero point that an 8-bit float does not have."""
    view = view_of(shape_of("x", x), axis)
    place = place_of(x, device)
    problem = _problem(kind, mode, spec, x, view)
    made = lookup(problem, place.spec)(_seen(place, "x", x, view), stream=stream)
    outputs = made if len(problem.outputs) > 1 else [made]
    shaped = [
        as_kind_of(x, output.reshape(view.shape if tensor.name == "y" else view.kept), tensor.dtype)
        for tensor, output in zip(problem.outputs, outputs, strict=True)
    ]
    return shaped if problem.outputs[-1].name == "zero_point" else [*shaped, None]


def _given(device: Device, name: str, value: Any, zero_of: str | None) -> Any:
    """Return a scale, or a zero point of the type `zero_of`: as NumPy if it is on the host, otherwise as the device's
    array."""
    value = as_array(name, value)
    if not isinstance(value, np.ndarray):
        value, _ = device.adopt(name, value)
    integer = str(value.dtype).startswith(("int", "uint"))
    if str(value.dtype) not in NUMBERS or (zero_of is not None and not integer):
        raise ValueError(f"{name} has type {value.dtype}; it must hold {'numbers' if zero_of is None else 'integers'}")
    # Values on a GPU are not checked, because reading them would synchronize.
    if zero_of in RANGES and isinstance(value, np.ndarray) and value.size:
        low, high = RANGES[zero_of]
        if not low <= value.min() <= value.max() <= high:
            raise ValueError(f"{name} holds {value.min()}..{value.max()}; a zero point of {zero_of} is {low} to {high}")
    return value


def _broadcast(array: Any, count: int) -> Any:
    return array.repeat(count) if array.size == 1 != count else array


def _seen(device: Device, name: str, array: Any, view: View) -> Any:
    """View the array as (outer, channels, inner), in the same memory."""
    sizes = view.sizes
    return in_shape(device, name, array, view.shape, (sizes["outer"], sizes["channels"], sizes["inner"]))
