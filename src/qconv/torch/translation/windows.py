"""Pools and resizes: functions of windows of elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from qconv.torch.extents import Extent
from qconv.torch.pattern import Unmatched
from qconv.torch.translation.node_layers import NodeLayers, Translate


def _per_axis(given: Any, axes: int) -> list[int]:
    values = [given] if isinstance(given, int) else list(given)
    return values * axes if len(values) == 1 else values


def _checked_axes(layers: NodeLayers, axes: int) -> None:
    if layers.rank != axes + 2:
        raise Unmatched(f"its output has {layers.rank} axes; expressions pool in batches, with {axes + 2}")


def _window(layers: NodeLayers, axes: int) -> dict[str, Any]:
    """Return a window's attributes."""
    _checked_axes(layers, axes)
    size = _per_axis(layers.value("kernel_size"), axes)
    pads = _per_axis(layers.value("padding"), axes)
    return {
        "kernel_shape": size,
        "strides": _per_axis(layers.value("stride"), axes) if layers.value("stride") else size,
        "pads": [*pads, *pads],
        "ceil_mode": int(layers.value("ceil_mode")),
    }


def _max_pool(axes: int, layers: NodeLayers) -> None:
    dilations = _per_axis(layers.value("dilation"), axes)
    layers.result("MaxPool", layers.x("self"), dilations=dilations, **_window(layers, axes))


def _average_pool(axes: int, layers: NodeLayers) -> None:
    if layers.given.get("divisor_override") is not None:
        raise Unmatched("its divisor is not the number of elements of a window")
    counts = int(layers.value("count_include_pad"))
    layers.result("AveragePool", layers.x("self"), count_include_pad=counts, **_window(layers, axes))


def _adaptive(axes: int, layers: NodeLayers) -> None:
    """Translate an adaptive pool, whose windows are equal where the extent is a multiple of the output's, and single
    elements where it is a divisor."""
    _checked_axes(layers, axes)
    x, given = layers.x("self"), layers.of("self").shape[2:]
    if all(extent == 1 for extent in layers.shape[2:]):
        layers.result("ReduceMean", x, axes=list(range(2, axes + 2)), keepdims=1)
        return
    extents = [(_static(one), _static(other)) for one, other in zip(given, layers.shape[2:], strict=True)]
    if all(one % other == 0 for one, other in extents):
        size = [one // other for one, other in extents]
        layers.result("AveragePool", x, kernel_shape=size, strides=size)
        return
    if any(other % one for one, other in extents):
        shown = ", ".join(f"{one} to {other}" for one, other in extents)
        raise Unmatched(f"its windows have different sizes ({shown}); expressions average equal ones")
    for axis, (one, other) in enumerate(extents, 2):
        whole = [*layers.tensors[x].shape[:axis], other, *layers.tensors[x].shape[axis + 1 :]]
        places = layers.numbers([at * one // other for at in range(other)], "int64")
        x = layers.made("Gather", (x, places), layers.dtype, whole, axis=axis)
    layers.same(x)


def _static(extent: Extent) -> int:
    if not isinstance(extent, int):
        raise Unmatched(f"its extent {extent} is dynamic, and so are its windows")
    return extent


def _scales(layers: NodeLayers, axes: int) -> list[float] | None:
    """Return the factors of the axes; None where only the sizes are given."""
    if "scale_factors" in layers.given:
        given = layers.value("scale_factors")
    else:
        names = [name for name in ("scales", "scales_h", "scales_w") if name in layers.given]
        given = [layers.value(name) for name in names]
    if not given or None in given:
        return None
    return [float(each) for each in given][:axes]


def _resized(layers: NodeLayers, axes: int, places: str, **attributes: Any) -> None:
    """Resize by factors if these are given, as PyTorch places elements by them, or to sizes."""
    _checked_axes(layers, axes)
    x = "input" if "input" in layers.given else "self"
    scales, inputs = _scales(layers, axes), [layers.x(x), "", ""]
    if scales is not None and places != "align_corners":
        inputs[2] = layers.numbers([1.0, 1.0, *scales], "float32")
    else:
        inputs.append(layers.numbers(layers.shape, "int64"))
    layers.result("Resize", *inputs, coordinate_transformation_mode=places, **attributes)


def _nearest(axes: int, layers: NodeLayers) -> None:
    """Translate the nearest element, that of the place rounded down. PyTorch multiplies by the reciprocal of a factor:
    where the quotient of sizes is inexact, the two are held to agree."""
    source = layers.of("input" if "input" in layers.given else "self").shape
    scales = _scales(layers, axes)
    for axis, (one, other) in enumerate(zip(source[2:], layers.shape[2:], strict=True)):
        if isinstance(one, int) and isinstance(other, int):
            _check_places(one, other, None if scales is None else scales[axis])
    _resized(layers, axes, "asymmetric", mode="nearest", nearest_mode="floor")


def _check_places(given: int, made: int, scale: float | None) -> None:
    """Raise Unmatched where ONNX's quotient is rounded to another element than PyTorch's product."""
    f = np.float32
    at = np.arange(made, dtype=f)
    step = f(given) / f(made) if scale is None else f(1.0 / scale)
    ours = np.floor(at / (f(made) / f(given) if scale is None else f(scale)))
    if not np.array_equal(np.minimum(np.floor(at * step), given - 1), np.minimum(ours, given - 1)):
        raise Unmatched(f"it resizes {given} to {made}, for which ONNX's rounding chooses other elements")


def _linear(axes: int, layers: NodeLayers) -> None:
    places = "align_corners" if layers.value("align_corners") else "half_pixel"
    _resized(layers, axes, places, mode="linear")


def _cubic(layers: NodeLayers) -> None:
    places = "align_corners" if layers.value("align_corners") else "half_pixel"
    _resized(layers, 2, places, mode="cubic", cubic_coeff_a=-0.75)


def _both(name: str) -> Sequence[str]:
    return (f"aten.{name}.default", f"aten.{name}.vec")


TABLE: Mapping[str, Translate] = {
    **{f"aten.max_pool{axes}d.default": partial(_max_pool, axes) for axes in (1, 2, 3)},
    **{f"aten.avg_pool{axes}d.default": partial(_average_pool, axes) for axes in (1, 2, 3)},
    **{f"aten.adaptive_avg_pool{axes}d.default": partial(_adaptive, axes) for axes in (1, 2, 3)},
    **{name: partial(_nearest, axes) for axes in (1, 2, 3) for name in _both(f"upsample_nearest{axes}d")},
    **dict.fromkeys(_both("upsample_linear1d"), partial(_linear, 1)),
    **dict.fromkeys(_both("upsample_bilinear2d"), partial(_linear, 2)),
    **dict.fromkeys(_both("upsample_bicubic2d"), _cubic),
}
