"""PyTorch tensors as the arrays that kernels take, without a copy, and their device and stream."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import torch

from qconv.device import Device, open_device
from qconv.dtypes import ELEMENT_TYPES, FLOAT8
from qconv.errors import DeviceError
from qconv.narrow_floats import numpy_of

# Axes of NCHW in the order of NHWC.
NHWC = (0, 2, 3, 1)


def name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


@lru_cache(maxsize=64)
def device_of(place: Any) -> Device:
    """Return the CPU device, or the GPU with this index."""
    if place.type == "cpu":
        return open_device("cpu")
    if place.type != "cuda":
        raise DeviceError(f"the tensors are on {place}; kernels run on cpu and cuda tensors: move them to one of these")
    return open_device(f"{'hip' if torch.version.hip else 'cuda'}:{place.index or 0}")


def stream_of(place: Any) -> Any:
    """Return the caller's stream. The CPU has none."""
    return torch.cuda.current_stream(place) if place.type == "cuda" else None


def is_capturing(place: Any) -> bool:
    """True while a CUDA graph is captured: launches are recorded, and the host may not wait for them."""
    return place.type == "cuda" and bool(torch.cuda.is_current_stream_capturing())


def allocating_on(place: Any) -> AbstractContextManager[Any]:
    """Allocate GPU memory from PyTorch's allocator within the context, or from the graph's while one is captured."""
    if place.type != "cuda":
        return nullcontext()
    from qconv.device.gpu_graph import allocating_by

    return allocating_by(_allocate, _free)


def _allocate(size: int, index: int) -> int:
    stream = torch.cuda.current_stream(index)
    return int(torch.cuda.caching_allocator_alloc(size, index, stream))


def _free(address: int, index: int) -> None:
    torch.cuda.caching_allocator_delete(address)


def array_of(tensor: Any) -> Any:
    """Return the tensor as an array for NumPy or the GPU's device, neither of which knows PyTorch's bfloat16. A GPU's
    tensor of 8-bit floats stays one, because CuPy has no such type."""
    tensor, name = tensor.detach(), name_of(tensor.dtype)
    if name in FLOAT8 and tensor.device.type == "cpu":
        return numpy_of(tensor.view(torch.uint8).numpy(), name)
    if tensor.dtype == torch.bfloat16:
        bits, _ = device_of(tensor.device).adopt("bits of bfloat16", array_of(tensor.view(torch.int16)))
        return bits.view(ELEMENT_TYPES["bfloat16"].numpy)
    return tensor.numpy() if tensor.device.type == "cpu" else tensor


def on_host(value: Any) -> Any:
    """Return the values of a tensor as a host array, waiting for a GPU. Anything else is returned unchanged."""
    if not isinstance(value, torch.Tensor):
        return value
    values = value.detach().cpu()
    return (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).numpy()


def number_of(name: str, value: Any) -> Any:
    """Return the scale or zero point of a whole tensor, given as a number or as a tensor with one element."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.numel() != 1:
        raise ValueError(
            f"{name} has shape {tuple(value.shape)}; it must be one number: only weights have one per channel"
        )
    return value.item()


def channels_last(tensor: Any) -> Any:
    """Return the tensor as channels_last, copied if necessary."""
    return tensor.contiguous(memory_format=torch.channels_last)


def aligned(tensor: Any, alignment: int) -> Any:
    """Copy a view whose address does not have the alignment of a kernel's vectors."""
    return tensor.clone(memory_format=torch.preserve_format) if tensor.data_ptr() % alignment else tensor


def empty(shape: Sequence[Any], dtype: Any, like: Any) -> Any:
    """Allocate a tensor; images are channels_last."""
    layout = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    return torch.empty(tuple(shape), dtype=dtype, device=like.device, memory_format=layout)
