"""The ops add, mul, the pools and conv2d_pool, a convolution with a max pool behind it, from the arguments of their
schemas. Images are NHWC in memory, other tensors
contiguous."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from qconv.instances.api import tensor_ops as tensor_ops_api
from qconv.op import WIDEST
from qconv.tensor_ops import MaxPool
from qconv.torch.arrays import NHWC, aligned, allocating_on, array_of, channels_last, empty, name_of, stream_of
from qconv.torch.convolution import convolve_into, images_shape, pads, pair, rooms
from qconv.torch.schema import Given


@dataclass(frozen=True)
class ArrayCall:
    """A call of a function of arrays, which takes `others` behind them. Those of images have the channels last."""

    function: Callable[..., Any]
    others: tuple[Any, ...]
    named: Mapping[str, Any]


def fake_sum(given: Given) -> Any:
    a, b = given["a"], given["b"]
    shape = torch.broadcast_shapes(a.shape, b.shape)
    return empty(shape, given["out_dtype"] or a.dtype, a)


def binary_call(function: Callable[..., Any], given: Given) -> ArrayCall:
    """Return the call of `add` or `mul`."""
    numbers = {name: value for name, value in given.items() if name not in ("a", "b", "out_dtype")}
    return ArrayCall(function, (), {**numbers, "out_type": name_of(given["out_dtype"] or given["a"].dtype)})


def computed(
    call_of: Callable[[Given], ArrayCall], fake: Callable[[Given], Any], *names: str
) -> Callable[[Given], Any]:
    """Return an op that calls a function of arrays with these arguments."""

    def compute(given: Given) -> Any:
        y = fake(given)
        if not y.numel():  # which needs no launch
            return y
        images = y.dim() == 4
        given_tensors = [given[name] for name in names]
        taken = [_as_image(tensor, y.dim()) if images else tensor.contiguous() for tensor in given_tensors]
        _run(call_of(given), taken, y.permute(NHWC) if images else y)
        return y

    return compute


def _as_image(tensor: Any, axes: int) -> Any:
    """Return the tensor as NHWC. Missing axes are leading ones, as in PyTorch's broadcasting."""
    return channels_last(tensor[(None,) * (axes - tensor.dim())]).permute(NHWC)


def _run(call: ArrayCall, tensors: Sequence[Any], y: Any) -> None:
    """Run on the caller's stream, into `y`."""
    arrays = [array_of(aligned(tensor, WIDEST)) for tensor in tensors]
    with allocating_on(y.device):
        call.function(*arrays, *call.others, out=array_of(y), stream=stream_of(y.device), **call.named)


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


def max_pool_call(given: Given) -> ArrayCall:
    return _pool_call(tensor_ops_api.max_pool, given, dilation=_window(given)[-1])


def average_pool_call(given: Given) -> ArrayCall:
    out_type = name_of(given["out_dtype"] or given["x"].dtype)
    named = {"count_include_pad": given["count_include_pad"], **_numbers(given), "out_type": out_type}
    return _pool_call(tensor_ops_api.average_pool, given, **named)


def _pool_call(function: Callable[..., Any], given: Given, **named: Any) -> ArrayCall:
    _, kernel, stride, pad, _ = _window(given)
    return ArrayCall(function, (kernel,), {"stride": stride, "pad": pad, "ceil_mode": given["ceil_mode"], **named})


def fake_global(given: Given) -> Any:
    x = _image("x", given["x"])
    return empty((*x.shape[:2], 1, 1), given["out_dtype"] or x.dtype, x)


def global_average_call(given: Given) -> ArrayCall:
    out_type = name_of(given["out_dtype"] or given["x"].dtype)
    return ArrayCall(tensor_ops_api.global_average_pool, (), {**_numbers(given), "out_type": out_type})


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


# The calls of the ops that are no convolutions.
CALLS: Mapping[str, Callable[[Given], ArrayCall]] = {
    "add": partial(binary_call, tensor_ops_api.add),
    "mul": partial(binary_call, tensor_ops_api.mul),
    "max_pool2d": max_pool_call,
    "avg_pool2d": average_pool_call,
    "global_avg_pool2d": global_average_call,
}
