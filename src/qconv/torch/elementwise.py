"""The ops add, mul, the pools and conv2d_pool, a convolution with a max pool behind it, from the arguments of their
schemas. Images are NHWC in memory, other tensors
contiguous."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from qconv.instances.api import tensor_ops as tensor_ops_api
from qconv.op import WIDEST
from qconv.tensor_ops import MaxPool
from qconv.torch.arrays import NHWC, aligned, allocating_on, array_of, channels_last, empty, name_of, stream_of
from qconv.torch.convolution import convolve_into, images_shape, pads, pair, rooms
from qconv.torch.schema import Given


def fake_sum(given: Given) -> Any:
    a, b = given["a"], given["b"]
    shape = torch.broadcast_shapes(a.shape, b.shape)
    return empty(shape, given["out_dtype"] or a.dtype, a)


def combine(function: Callable[..., Any]) -> Callable[[Given], Any]:
    """Return an op that calls `add` or `mul` on the arrays."""

    def compute(given: Given) -> Any:
        y = fake_sum(given)
        images = y.dim() == 4
        taken = [_as_image(given[name], y.dim()) if images else given[name].contiguous() for name in ("a", "b")]
        numbers = {name: value for name, value in given.items() if name not in ("a", "b", "out_dtype")}
        out = y.permute(NHWC) if images else y
        _run(function, taken, out, out_type=name_of(y.dtype), **numbers)
        return y

    return compute


def _as_image(tensor: Any, axes: int) -> Any:
    """Return the tensor as NHWC. Missing axes are leading ones, as in PyTorch's broadcasting."""
    return channels_last(tensor[(None,) * (axes - tensor.dim())]).permute(NHWC)


def _run(function: Callable[..., Any], tensors: Sequence[Any], y: Any, *others: Any, **named: Any) -> None:
    """Run on the caller's stream, into `y`. An empty output needs no launch."""
    if not y.numel():
        return
    taken = [aligned(tensor, WIDEST) for tensor in tensors]
    with allocating_on(y.device):
        function(*map(array_of, taken), *others, out=array_of(y), stream=stream_of(y.device), **named)


def fake_pool(given: Given) -> Any:
    x, kernel, stride, pad, dilation = _window(given)
    sizes = []
    moves = rooms([x.shape[2 + axis] + pad[axis] + pad[axis + 2] for axis in (0, 1)], kernel, dilation)
    for axis, room in enumerate(moves):
        size, step = x.shape[2 + axis], stride[axis]
        count = (room + step - 1 if given["ceil_mode"] else room) // step + 1
        # An incomplete window counts if it begins before the padding behind the input. Remainders of symbolic sizes are
        # avoided, because they would specialise the graph.
        begins_behind = given["ceil_mode"] and (count - 1) * step >= size + pad[axis]
        sizes.append(count - 1 if begins_behind else count)
    return empty((*x.shape[:2], *sizes), given.get("out_dtype") or x.dtype, x)


def _window(given: Given) -> tuple[Any, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    x = _image("x", given["x"])
    kernel = pair("kernel_size", given["kernel_size"])
    stride, dilation = pair("stride", given["stride"] or kernel), pair("dilation", given.get("dilation") or (1,))
    return x, kernel, stride, pads(given["padding"]), dilation


def _image(name: str, tensor: Any) -> Any:
    if tensor.dim() != 4:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must have four axes, NCHW")
    return tensor


def max_pool_problem(given: Given) -> MaxPool:
    """Return the problem of a call with these images."""
    x, kernel, stride, pad, dilation = _window(given)
    window = {"stride": stride, "pad": pad, "dilation": dilation, "ceil_mode": given["ceil_mode"]}
    return MaxPool.of(tuple(x.permute(NHWC).shape), kernel, x_type=name_of(x.dtype), **window)


def max_pool(given: Given) -> Any:
    return _pool(tensor_ops_api.max_pool, given, dilation=_window(given)[-1])


def average_pool(given: Given) -> Any:
    out_type = name_of(given["out_dtype"] or given["x"].dtype)
    named = {"count_include_pad": given["count_include_pad"], **_numbers(given), "out_type": out_type}
    return _pool(tensor_ops_api.average_pool, given, **named)


def _pool(function: Callable[..., Any], given: Given, **named: Any) -> Any:
    x, kernel, stride, pad, _ = _window(given)
    y = fake_pool(given)
    window = {"stride": stride, "pad": pad, "ceil_mode": given["ceil_mode"]}
    _run(function, [channels_last(x).permute(NHWC)], y.permute(NHWC), kernel, **window, **named)
    return y


def fake_global(given: Given) -> Any:
    x = _image("x", given["x"])
    return empty((*x.shape[:2], 1, 1), given["out_dtype"] or x.dtype, x)


def global_average(given: Given) -> Any:
    y = fake_global(given)
    named = {**_numbers(given), "out_type": name_of(y.dtype)}
    _run(tensor_ops_api.global_average_pool, [channels_last(given["x"]).permute(NHWC)], y.permute(NHWC), **named)
    return y


def _numbers(given: Given) -> dict[str, Any]:
    return {name: given[name] for name in ("x_scale", "y_scale", "x_zero_point", "y_zero_point")}


# Maps the arguments of max_pool2d to those of the pool.
OF_POOL = {"kernel_size": "window", "stride": "window_stride", "padding": "window_padding", "ceil_mode": "ceil_mode"}
# Arguments of a convolution that this op lacks.
_WITHOUT = {"residual": None}


def fake_pooled(given: Given) -> Any:
    between = empty(*images_shape({**given, **_WITHOUT}), given["x"])
    return fake_pool({"x": between, **{theirs: given[ours] for theirs, ours in OF_POOL.items()}})


def convolve_and_pool(given: Given) -> Any:
    return convolve_into(fake_pooled(given), {**given, **_WITHOUT})
