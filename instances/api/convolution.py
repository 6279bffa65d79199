"""conv2d and conv1d on arrays: shapes and types are taken from the arrays, and the kernel is looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qconv.arithmetic.mode import Mode
from qconv.arithmetic.quantization import Quantization
from qconv.device import Device
from qconv.dtypes import ELEMENT_TYPES
from qconv.instances.api.array_kinds import AnyArray, Extents, Numbers, gives_one
from qconv.instances.load.arguments import as_array, in_mode, is_array, is_nonzero, place_of, shape_of
from qconv.instances.load.serving import lookup
from qconv.narrow_floats import type_of
from qconv.op import Problem, check_choice
from qconv.problem.convolution import LAYOUTS, W_LAYOUTS, Conv2d
from qconv.problem.transposed import ConvTranspose2d

# The 2-D layout of each layout of conv1d, and the axis at which a height of 1 is inserted.
_LAYOUTS_1D = {"nwc": ("nhwc", 1), "ncw": ("nchw", 2)}
_W_LAYOUTS_1D = {"ksc": ("krsc", 1), "kcs": ("kcrs", 2)}


@gives_one
def conv2d(
    x: Any,
    /,
    w: AnyArray,
    *,
    stride: Extents = 1,
    dilation: Extents = 1,
    pad: Extents = 0,
    groups: int = 1,
    layout: str = "nhwc",
    w_layout: str | None = None,
    pixel_shuffle: Extents = 1,
    crop: Extents = 0,
    x_scale: Numbers = 1.0,
    w_scale: Numbers = 1.0,
    y_scale: Numbers = 1.0,
    x_zero_point: Numbers = 0,
    w_zero_point: Numbers = 0,
    y_zero_point: Numbers = 0,
    bias: Numbers | None = None,
    activation: str = "none",
    slope: Numbers | None = None,
    low: Numbers | None = None,
    high: Numbers | None = None,
    table: AnyArray | None = None,
    residual: AnyArray | None = None,
    residual_scale: Numbers | None = None,
    residual_zero_point: Numbers = 0,
    out_type: str | None = None,
    products: str | None = None,
    promoted_sums: bool = False,
    mode: str | Mode | None = None,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """Quantized convolution of NHWC `x` with KRSC `w`; the result is NHWK. With `layout="nchw"`: NCHW, KCRS and NKHW.

    The arrays are NumPy or CuPy arrays, or anything with `__dlpack__` or `__cuda_array_interface__`. The kernel runs
    where they are, and the result is of the same library as `x`. Weights in the other layout (`w_layout` krsc or kcrs)
    are copied at every call; `pack` them once instead. Scales per channel, and zero points other than 0, select another
    kernel. leaky_relu needs `slope`, clamp needs `low` and `high`, in real units. A `residual` of the output's shape is
    added before the activation; `out` may be the same array. A `table` has the output for each byte (255: int8 -1).
    `mode` is a `qconv.Mode` or a system, by default ONNX Runtime. `products="tfloat32"` multiplies 19 bits of float32;
    `promoted_sums` adds each 128 products of fp8 in fp32. `pixel_shuffle` makes channels pixels; `crop` removes edges.
    """
    check_choice("layout", layout, LAYOUTS)
    w_layout = w_layout or W_LAYOUTS[LAYOUTS.index(layout)]
    problem = conv2d_problem(
        x, w, stride=stride, dilation=dilation, pad=pad, groups=groups, layout=layout, w_layout=w_layout, crop=crop,
        pixel_shuffle=pixel_shuffle, w_scale=w_scale, x_zero_point=x_zero_point, w_zero_point=w_zero_point,
        y_zero_point=y_zero_point, bias=bias, activation=activation, table=table, residual=residual, out_type=out_type,
        residual_zero_point=residual_zero_point, products=products, promoted_sums=promoted_sums, mode=mode,
    )  # fmt: skip
    return run(
        problem, (x, w, residual), device, w_layout=w_layout, out=out, stream=stream, x_scale=x_scale,
        w_scale=w_scale, y_scale=y_scale, slope=slope, low=low, high=high, table=table,
        x_zero_point=x_zero_point, w_zero_point=w_zero_point, y_zero_point=y_zero_point, bias=bias,
        residual_scale=residual_scale, residual_zero_point=residual_zero_point,
    )  # fmt: skip


def run(problem: Problem, arrays: Sequence[Any], device: str | None, **values: Any) -> Any:
    """Look up the problem's kernel and call it on the device of the first array. Arrays that are None are skipped."""
    given = [array for array in arrays if array is not None]
    return lookup(problem, place_of(given[0], device).spec)(*given, **values)


def conv2d_problem(
    x: Any,
    w: Any,
    *,
    stride: Extents = 1,
    dilation: Extents = 1,
    pad: Extents = 0,
    groups: int = 1,
    layout: str = "nhwc",
    w_layout: str = "krsc",
    pixel_shuffle: Extents = 1,
    crop: Extents = 0,
    w_scale: Numbers = 1.0,
    x_zero_point: Numbers = 0,
    w_zero_point: Numbers = 0,
    y_zero_point: Numbers = 0,
    bias: Numbers | None = None,
    activation: str = "none",
    table: Any = None,
    residual: Any = None,
    residual_zero_point: Numbers = 0,
    out_type: str | None = None,
    products: str | None = None,
    promoted_sums: bool = False,
    mode: str | Mode | None = None,
) -> Conv2d:
    """Return the problem of a conv2d call, from the shapes and types of its arrays and the kinds of its parameters."""
    check_choice("w_layout", w_layout, W_LAYOUTS)
    sizes: dict[str, Any] = dict(zip(layout, shape_of("x", x, layout), strict=True))
    filters: dict[str, Any] = dict(zip(w_layout, shape_of("w", w, w_layout), strict=True))
    c, c_group = sizes["c"], filters.pop("c")
    if isinstance(groups, int) and groups > 0 and c_group * groups != c:
        raise ValueError(
            f"w has {c_group} channels a group, but x has {c} channels in groups={groups}: c/groups={c / groups:g}"
        )
    spec: dict[str, Any] = {
        "x_type": _multiplied_as("x", x, products),
        "w_type": _multiplied_as("w", w, products),
        "out_type": out_type or default_output(x),
        "per_channel": is_array(w_scale) or is_array(w_zero_point),
        "x_zero_point": is_nonzero(x_zero_point),
        "w_zero_point": is_nonzero(w_zero_point),
        "y_zero_point": is_nonzero(y_zero_point),
        "bias": _bias(bias),
        "activation": activation,
        "table": table is not None,
        "promoted_sums": promoted_sums,
        "residual": "none" if residual is None else type_of(residual),
        "residual_zero_point": is_nonzero(residual_zero_point),
    }
    quantization = in_mode(Quantization, mode, spec)
    geometry: dict[str, Any] = {
        "stride": stride, "dilation": dilation, "pad": pad, "groups": groups, "layout": layout,
        "pixel_shuffle": pixel_shuffle, "crop": crop,
    }  # fmt: skip
    return Conv2d(**sizes, **filters, quantization=quantization, **geometry)


def _multiplied_as(name: str, array: Any, products: str | None) -> str:
    """Return the type in which the elements of an array are multiplied: its own, or one that holds fewer bits."""
    own = type_of(array)
    if products is None:
        return own
    found = ELEMENT_TYPES.get(products)
    if found is None or found.array_type != own or found.name == own:
        raise ValueError(
            f"products={products!r} with {name} of {own}: float32 may be multiplied as tfloat32, all others as what "
            "they are; leave it out, or give arrays of float32"
        )
    return products


def default_output(x: Any) -> str:
    """Return the type of outputs that are not asked for: int8 of integers, and the input's own of floats."""
    dtype = ELEMENT_TYPES.get(type_of(x))
    return "int8" if dtype is None or dtype.is_integer else dtype.name


@gives_one
def conv_transpose2d(
    x: Any,
    /,
    w: AnyArray,
    *,
    stride: Extents = 1,
    dilation: Extents = 1,
    pad: Extents = 0,
    output_padding: Extents = 0,
    groups: int = 1,
    device: str | None = None,
    **parameters: Any,
) -> Any:
    """Quantized transposed convolution of NHWC `x` with CKRS `w`, the order of ONNX and PyTorch; the result is NHWK.

    All phases are one convolution, one launch. Its filters are made of `w` on the host at every call: to make them
    once, `pack` the kernel of `qconv.ConvTranspose2d(...).phases`. All other arguments are those of conv2d.
    """
    n, h, width, c = shape_of("x", x, "nhwc")
    filters_in, k_group, r, s = shape_of("w", w, "ckrs")
    if filters_in != c:
        raise ValueError(f"w has shape {(filters_in, k_group, r, s)}, C, K of a group, R, S; but x has {c} channels")
    geometry: dict[str, Any] = {"stride": stride, "dilation": dilation, "pad": pad, "output_padding": output_padding}
    made = ConvTranspose2d(n, h, width, c, k_group * groups, r, s, groups=groups, **geometry)
    place = place_of(x, device)
    on_host = np.asarray(place.download(place.adopt("w", w)[0]))
    filters = made.filters(on_host, parameters.get("w_zero_point", 0))
    given = made.by_phase(parameters)
    return conv2d(x, place.upload(filters), groups=groups, device=place.spec, **made.window, **given)


@gives_one
def conv1d(
    x: Any,
    /,
    w: AnyArray,
    *,
    stride: Extents = 1,
    dilation: Extents = 1,
    pad: Extents = 0,
    layout: str = "nwc",
    w_layout: str | None = None,
    out: AnyArray | None = None,
    device: str | None = None,
    **parameters: Any,
) -> Any:
    """conv2d of images with a height of 1: NWC `x` with KSC `w` gives NWK; with `layout="ncw"`: NCW, KCS and NKW.

    `pad` is one number for both ends, or (left, right). All other arguments are those of conv2d.
    """
    check_choice("layout", layout, tuple(_LAYOUTS_1D))
    if w_layout is None:
        w_layout = "ksc" if layout == "nwc" else "kcs"
    check_choice("w_layout", w_layout, tuple(_W_LAYOUTS_1D))
    shape_of("x", x, layout)
    shape_of("w", w, w_layout)
    (layout, axis), (w_layout, w_axis) = _LAYOUTS_1D[layout], _W_LAYOUTS_1D[w_layout]
    left, right = _numbers("pad", pad, 2)
    place = place_of(x, device)
    y = conv2d(
        _lifted("x", x, axis, place),
        _lifted("w", w, w_axis, place),
        stride=(1, *_numbers("stride", stride, 1)),
        dilation=(1, *_numbers("dilation", dilation, 1)),
        pad=(0, left, 0, right),
        layout=layout,
        w_layout=w_layout,
        out=None if out is None else _lifted("out", out, axis, place),
        device=place.spec,
        **parameters,
    )
    return out if out is not None else y.reshape((*y.shape[:axis], *y.shape[axis + 1 :]))


def _lifted(name: str, array: Any, axis: int, device: Device) -> Any:
    """Insert an axis of extent 1, in the same memory, whatever the strides."""
    adopted, _ = device.adopt(name, array)
    return adopted[(slice(None),) * axis + (None,)]


def _numbers(name: str, value: int | Sequence[int], count: int) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    if len(values) != count:
        raise ValueError(f"{name}={value!r} must be one integer{f' or {count} of them' if count > 1 else ''}")
    return values  # type: ignore[return-value] # each is checked by the problem


def _bias(bias: Any) -> str:
    if bias is None:
        return "none"
    bias = as_array("bias", bias)
    is_integer = bias.dtype.kind in "iu" if isinstance(bias, np.ndarray) else "int" in type_of(bias)
    return "int32" if is_integer else "float32"
