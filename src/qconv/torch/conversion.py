"""The ops quantize and dequantize, from the arguments of their schemas. The memory format of a tensor is kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from qconv.arithmetic.parameter import check_zero_point
from qconv.conversion import CONVERSIONS, Conversion, Dequantize, Quantize
from qconv.dtypes import ELEMENT_TYPES, RANGES
from qconv.instances.api import conversion as conversion_api
from qconv.instances.load.arguments import in_mode
from qconv.op import WIDEST, checked_axis
from qconv.torch.arrays import NHWC, aligned, allocating_on, array_of, device_of, is_capturing, name_of, stream_of
from qconv.torch.schema import Given

# Numbers that kernels read on a device, by value and type: two per conversion. They are never freed, because captured
# graphs read them, so only this many are stored: a caller may pass new numbers at every call.
_numbers: dict[Any, Any] = {}
REMEMBERED = 4096


def fake_quantized(given: Given) -> Any:
    return _like(given["x"], given["out_dtype"] or torch.int8)


def fake_real(given: Given) -> Any:
    return _like(given["x"], given["out_dtype"] or torch.float32)


def _like(x: Any, dtype: Any) -> Any:
    layout = torch.channels_last if _is_image(x) else torch.contiguous_format
    return torch.empty(tuple(x.shape), dtype=dtype, device=x.device, memory_format=layout)


def _is_image(x: Any) -> bool:
    """True where the tensor is NHWC in memory, and not also NCHW."""
    return bool(x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last))


def quantize(given: Given) -> Any:
    y = fake_quantized(given)
    limits = {name: given[name] for name in ("low", "high")}
    return _convert(given, conversion_api.quantize, Quantize, y, name_of(y.dtype), **limits)


def dequantize(given: Given) -> Any:
    return _convert(given, conversion_api.dequantize, Dequantize, fake_real(given), name_of(given["x"].dtype))


def _convert(
    given: Given, function: Callable[..., Any], kind: type[Conversion], y: Any, integers: str, **limits: Any
) -> Any:
    x, axis, mode = given["x"], given["axis"], given["mode"]
    if not y.numel():
        return y
    out, taken = y, aligned(x if _is_image(x) else x.contiguous(), WIDEST)
    if _is_image(x):
        out, taken = y.permute(NHWC), taken.permute(NHWC)
        axis = None if axis is None else NHWC.index(checked_axis(axis, "x", x.shape))
    scale, zero_point = given["scale"], given["zero_point"]
    of_channels = isinstance(scale, torch.Tensor) and scale.numel() > 1
    wanted = _scale_type(kind.op, mode, of_channels, name_of(x.dtype), name_of(y.dtype))
    scales, zeros = _filled(scale, wanted, x), _zero(zero_point, integers, x)
    with allocating_on(x.device):
        function(
            array_of(taken), scales, zeros, axis=axis, mode=mode, out_type=name_of(y.dtype), out=array_of(out),
            stream=stream_of(x.device), **limits,
        )  # fmt: skip
    return y


@lru_cache(maxsize=256)
def _scale_type(op: str, mode: str | None, of_channels: bool, x_type: str, out_type: str) -> Any:
    """Return the type of the scales of a call."""
    sizes = {"outer": 1, "channels": 2 if of_channels else 1, "inner": 1}
    problem = in_mode(CONVERSIONS[op], mode, {**sizes, "x_type": x_type, "out_type": out_type})
    return getattr(torch, problem.inputs[1].dtype)


def _zero(value: Any, integers: str, x: Any) -> Any:
    """Return the zero point, or None where it is known to be 0: the kernel without one is cheaper and equivalent."""
    if value is None or isinstance(value, torch.Tensor):
        return None if value is None else _filled(value, torch.int32, x)
    if integers in RANGES:
        check_zero_point("zero_point", value, integers)
    return _filled(value, torch.int32, x) if value else None


def _filled(value: Any, dtype: Any, x: Any) -> Any:
    """Return the value as an array on the device of x."""
    if isinstance(value, torch.Tensor):
        return array_of(value.to(device=x.device, dtype=dtype))
    is_known = (value, dtype, x.device) in _numbers
    if not is_known and (is_capturing(x.device) or len(_numbers) >= REMEMBERED):
        # Filled by a kernel on the stream, as part of the graph if one is captured, so that nothing waits.
        return array_of(torch.full((1,), value, dtype=dtype, device=x.device))
    return _number_on(value, dtype, x.device)


def _number_on(value: Any, dtype: Any, place: Any) -> Any:
    """Upload a number once and wait, because the next call may use another stream. It is not in PyTorch's memory: while
    torch.compile (mode="reduce-overhead") warms up, that belongs to a graph to be captured, where nothing may
    remain."""
    key = value, dtype, place
    if key not in _numbers:
        device = device_of(place)
        _numbers[key] = device.upload(np.full(1, value, ELEMENT_TYPES[name_of(dtype)].numpy))
        device.synchronize()
    return _numbers[key]
