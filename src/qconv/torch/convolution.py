"""The ops conv2d, linear, conv2d_conv2d and conv2d_block, from the arguments of their schemas: one, two or three
convolutions; and the parts that conv2d_pool shares with them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from qconv.arithmetic.mode import Mode
from qconv.instances.api.chain import Shaped, chain_call
from qconv.instances.api.convolution import conv2d_problem
from qconv.instances.load.serving import lookup
from qconv.op import Problem, several
from qconv.problem.pooled import PooledConv2d
from qconv.torch.arrays import (
    NHWC,
    aligned,
    allocating_on,
    array_of,
    channels_last,
    device_of,
    empty,
    is_capturing,
    name_of,
    on_host,
    stream_of,
)
from qconv.torch.packing import identity_of, packing_of
from qconv.torch.schema import Given

# The arguments of each convolution of a chain.
OWN = ("w_scale", "bias", "w_zero_point", "stride", "dilation", "groups", "activation", "slope", "low", "high")
NUMBERS = tuple(f"{name}_{what}" for name in ("x", "mid", "mid2", "y", "residual") for what in ("scale", "zero_point"))
_INPUTS = ("x", "residual")
LAYERS = {1: ("",), 2: ("first_", "second_"), 3: ("first_", "second_", "third_")}
TYPES = ("mid_dtype", "mid2_dtype")
# The window of a matrix product.
ONE_PIXEL: Given = {"stride": (1,), "padding": (0,), "dilation": (1,), "groups": 1}


def weights_of(given: Given) -> tuple[Any, ...]:
    return tuple(given[name] for name in ("w", "w1", "w2", "w3") if name in given)


def pads(padding: Sequence[int]) -> tuple[int, int, int, int]:
    """Return the pads as (top, left, bottom, right)."""
    if len(padding) not in (1, 2, 4):
        raise ValueError(
            f"padding={list(padding)} must be one integer, two (vertical, horizontal) or four (top, left, bottom, "
            "right)"
        )
    top, left, bottom, right = (*padding, *padding, *padding, *padding)[:4]
    return top, left, bottom, right


def pair(name: str, values: Sequence[int], least: int = 1) -> tuple[int, int]:
    """Return the values as (down, across). One number is both."""
    down, across = several(name, values[0] if len(values) == 1 else tuple(values), 2, least)
    return down, across


def spans_of(extents: Sequence[Any], dilation: Sequence[int]) -> list[Any]:
    """Return the extents of the image part under a window."""
    return [(extent - 1) * step + 1 for extent, step in zip(extents, dilation, strict=True)]


def rooms(padded: Sequence[Any], extents: Sequence[Any], dilation: Sequence[int]) -> list[Any]:
    """Return how far a window can move, down and across."""
    spans = spans_of(extents, dilation)
    for axis, size, span in zip("hw", padded, spans, strict=True):
        if size < span:
            raise ValueError(
                f"the window spans {span} along {axis}, but the padded input has only {size}: pad more, or use a "
                "smaller window or dilation"
            )
    return [size - span for size, span in zip(padded, spans, strict=True)]


def types_of(given: Given, count: int) -> list[Any]:
    """Return the output type of each convolution, by default the type of x."""
    asked = [given[name] for name in TYPES[: count - 1]] + [given["out_dtype"]]
    return [given["x"].dtype if dtype is None else dtype for dtype in asked]


def images_shape(given: Given) -> tuple[tuple[Any, ...], Any]:
    """Return the shape and the type of the output."""
    x, weights = given["x"], weights_of(given)
    check_operand("x", x, 4)
    n, c, h, w = x.shape
    for layer, weight, name in zip(LAYERS[len(weights)], weights, ("w1", "w2", "w3"), strict=False):
        name = name if layer else "w"
        check_operand(name, weight, 4)
        groups = given[f"{layer}groups"]
        if weight.shape[1] * groups != c:
            raise ValueError(
                f"{name} has {weight.shape[1]} channels a group in groups={groups}, but what it convolves has {c} "
                f"channels: KCRS weights have c/groups of them"
            )
        top, left, bottom, right = pads(given[f"{layer}padding"])
        strides, dilations = (pair(f"{layer}{what}", given[f"{layer}{what}"]) for what in ("stride", "dilation"))
        moves = rooms((h + top + bottom, w + left + right), weight.shape[2:], dilations)
        h, w = (room // stride + 1 for room, stride in zip(moves, strides, strict=True))
        c = weight.shape[0]
    if given["residual"] is not None:
        check_operand("residual", given["residual"], 4)
    return (n, c, h, w), types_of(given, len(weights))[-1]


def rows_shape(given: Given) -> tuple[tuple[Any, ...], Any]:
    x, w = given["x"], given["w"]
    check_operand("x", x, None)
    if not x.dim():
        raise ValueError("x has shape (); it must have an axis, the last of which is what w is multiplied with")
    check_operand("w", w, 2)
    if x.shape[-1] != w.shape[1]:
        raise ValueError(
            f"w has shape {tuple(w.shape)}, but the last axis of x has {x.shape[-1]} elements: w is (out, in)"
        )
    return (*x.shape[:-1], w.shape[0]), types_of(given, 1)[-1]


def fake_images(given: Given) -> Any:
    return empty(*images_shape(given), given["x"])


def fake_rows(given: Given) -> Any:
    shape, dtype = rows_shape(given)
    return torch.empty(shape, dtype=dtype, device=given["x"].device)


def convolve(given: Given) -> Any:
    return convolve_into(fake_images(given), given)


def as_given(given: Given) -> Given:
    return given


def convolve_into(y: Any, given: Given, as_convolution: Callable[[Given], Given] = as_given) -> Any:
    """Convolve images. Their arrays are NHWC from here on. `as_convolution` makes the arguments of conv2d, when weights
    are packed."""
    inputs = _inputs(given, y)
    _launch(given, [channels_last(image).permute(NHWC) for image in inputs], y.permute(NHWC), as_convolution)
    return y


def multiply(given: Given) -> Any:
    """Multiply rows as images of one pixel each."""
    y = fake_rows(given)
    inputs = _inputs(given, y)
    pixels = [rows.reshape(-1, 1, 1, rows.shape[-1]).contiguous() for rows in inputs]
    _launch({**given, **ONE_PIXEL}, pixels, y.view(-1, 1, 1, y.shape[-1]))
    return y


def _inputs(given: Given, y: Any) -> list[Any]:
    """Return x and the residual, if there is one. Residuals are not broadcast."""
    residual = given["residual"]
    if residual is not None and residual.shape != y.shape:
        raise ValueError(
            f"residual has shape {tuple(residual.shape)}; it must have that of the output, {tuple(y.shape)}"
        )
    return [given[name] for name in _INPUTS if given[name] is not None]


def _launch(given: Given, inputs: Sequence[Any], y: Any, as_convolution: Callable[[Given], Given] = as_given) -> None:
    """Launch on the caller's stream, without waiting if the weights are packed. `inputs` and `y` are NHWC."""
    place = given["x"].device
    device, stream = device_of(place), stream_of(place)
    if not y.numel():
        return
    names = [name for name, value in given.items() if isinstance(value, torch.Tensor) and name not in _INPUTS]
    tensors = [given[name] for name in names]
    shapes = tuple((tuple(image.shape), image.dtype) for image in inputs)
    key = _key(given), (shapes, place)
    packing = packing_of(key, tensors, place, lambda: packed_on(as_convolution(given), inputs, device, stream))
    packed, alignment = packing.packed
    with allocating_on(place), device.on(stream):
        taken = [aligned(image, alignment[name]) for image, name in zip(inputs, _INPUTS, strict=False)]
        bound = packed.prepare([array_of(image) for image in taken], array_of(y), packed.gains_by_overlap)
        bound(stream)
    if is_capturing(place) and packed not in packing.captured:
        packing.captured.append(packed)


def _key(given: Given) -> Hashable:
    """Return the arguments as a key, with tensors identified by their memory, except the inputs."""
    return tuple(
        identity_of(value)
        if isinstance(value, torch.Tensor)
        else tuple(value)
        if isinstance(value, (list, tuple))
        else value
        for name, value in given.items()
        if name not in _INPUTS
    )


def packed_on(given: Given, inputs: Sequence[Any], device: Any, stream: Any = None) -> tuple[Any, Mapping[str, int]]:
    """Return the kernel with a packed copy of the weights, and the alignment that it requires of its inputs. This waits
    for the GPU, because scales and biases are checked on the host, and calls on other streams may use the result. It is
    in device memory outside of PyTorch's pools for graphs, and outlives the call."""
    with device.on(stream):
        weights = [_as_krsc(weight) for weight in weights_of(given)]
        problem, values = _problem(given, inputs, weights)
        instance = lookup(problem, device.spec)
        packed = instance.pack(*(_copied(weight, device) for weight in weights), stream=stream, **values)
        device.synchronize()
    return packed, instance.plan.alignment


def check_smallest(given: Given) -> None:
    """Raise ValueError where no kernel computes the convolution, by trying the smallest image. `x` may have any
    shape."""
    (w,) = weights_of(given)
    filters = tuple(w.shape[2:]) or (1, 1)
    spans = spans_of(filters, pair("dilation", given.get("dilation", (1,))))
    channels = w.shape[1] * given.get("groups", 1)
    x = torch.empty((1, *spans, channels), dtype=given["x"].dtype, device="meta")
    krsc = torch.empty((w.shape[0], *filters, w.shape[1]), dtype=w.dtype, device="meta")
    # Only the residual's type matters.
    inputs = [x] if given["residual"] is None else [x, given["residual"]]
    problem, values = _problem({**ONE_PIXEL, **given}, inputs, [krsc])
    problem.checked(values)


def problem_of(given: Given) -> Problem:
    """Return the problem of a call with these images."""
    inputs = [given[name].permute(NHWC) for name in _INPUTS if given[name] is not None]
    problem, _ = _problem(given, inputs, [_as_krsc(weight) for weight in weights_of(given)])
    return problem


def _problem(given: Given, inputs: Sequence[Any], weights: Sequence[Any]) -> tuple[Problem, dict[str, Any]]:
    """Return the problem of a call, and its parameters under the problem's names."""
    x, *residuals = [Shaped(tuple(image.shape), name_of(image.dtype)) for image in inputs]
    residual = residuals[0] if residuals else None
    filters = [Shaped(tuple(weight.shape), name_of(weight.dtype)) for weight in weights]
    types, mode = types_of(given, len(weights)), mode_of(given["mode"])
    values = {name: given[name] for name in NUMBERS if name in given}
    of = {
        layer.rstrip("_"): _own(given, layer) | {"out_type": name_of(dtype), "mode": mode}
        for layer, dtype in zip(LAYERS[len(weights)], types, strict=True)
    }
    if len(weights) > 1:
        return chain_call(x, filters, of, values, residual)
    own = of[""] | {name: given[name] for name in ("pixel_shuffle", "crop") if name in given}
    zeros = {name: value for name, value in values.items() if name.endswith("zero_point")}
    named: dict[str, Any] = {name: own.pop(name) for name in ("slope", "low", "high") if name in own}
    problem = conv2d_problem(x, filters[0], residual=residual, **zeros, **own)
    if "window" in given:
        problem = PooledConv2d.over(problem, **_pool(given))
    named |= {name: own[name] for name in ("w_scale", "w_zero_point", "bias") if name in own}
    return problem, {**values, **named}


def _pool(given: Given) -> dict[str, Any]:
    """Return the arguments of the pool. By default its windows do not overlap, as in max_pool2d."""
    window = pair("window", given["window"])
    stride, pad = pair("window_stride", given["window_stride"] or window), pads(given["window_padding"])
    return {"window": window, "window_stride": stride, "window_pad": pad, "ceil_mode": given["ceil_mode"]}


def _own(given: Given, layer: str) -> dict[str, Any]:
    named = {name: on_host(value) for name in OWN if (value := given[f"{layer}{name}"]) is not None}
    # One number for all channels works with any number of channels.
    single = [name for name in ("w_scale", "w_zero_point") if np.size(named.get(name, ())) == 1]
    numbers = {name: np.asarray(named[name]).item() for name in single}
    window = {name: pair(name, named[name]) for name in ("stride", "dilation")} | {
        "pad": pads(given[f"{layer}padding"])
    }
    return {**named, **numbers, **window}


def _as_krsc(weight: Any) -> Any:
    """Return KCRS weights in the kernels' order. A matrix has 1x1 filters."""
    if weight.dim() == 2:
        return weight.detach().contiguous()[:, None, None, :]
    return channels_last(weight.detach()).permute(NHWC)


def _copied(weight: Any, device: Any) -> Any:
    array = array_of(weight)
    if isinstance(array, np.ndarray):
        return device.upload(array)
    array, _ = device.adopt("w", array)
    copy = device.empty(array.shape, str(array.dtype))
    device.copy(array, copy)
    return copy


def mode_of(text: str | None) -> str | Mode | None:
    """Return the mode: the name of a system, or the flags of a `qconv.Mode` as in a problem's key."""
    if text is None or "=" not in text:
        return text
    try:
        return Mode(**{name: value for name, _, value in (flag.partition("=") for flag in text.split(":"))})
    except TypeError as error:
        raise ValueError(f"mode={text!r}: {error}; flags are {', '.join(Mode.__dataclass_fields__)}") from None


def check_operand(name: str, tensor: Any, axes: int | None) -> None:
    if axes is not None and tensor.dim() != axes:
        what = "two axes, (out, in)" if axes == 2 else f"four axes, {'NCHW' if name in _INPUTS else 'KCRS'}"
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must have {what}")
    if tensor.dtype not in (torch.int8, torch.uint8):
        raise ValueError(
            f"{name} has type {tensor.dtype}; it must be torch.int8 or torch.uint8: quantize it, as by "
            "torch.ops.qconv.quantize"
        )
