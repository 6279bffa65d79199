"""Shapes, types and devices of the arrays that callers pass, with the checks of these."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from qconv.arithmetic.mode import Mode
from qconv.device import Device, open_device
from qconv.host_array import as_numpy, check_unmasked


class InMode(Protocol):
    """A type whose arithmetic can be selected by the name of a system."""

    def __init__(self, **spec: Any) -> None: ...
    @classmethod
    def of(cls, mode: str, **spec: Any) -> Self: ...


Kind = TypeVar("Kind", bound=InMode)


def in_mode(kind: type[Kind], mode: str | Mode | None, spec: Mapping[str, Any]) -> Kind:
    """Make an instance in the arithmetic of a named system, or with the flags of a Mode."""
    if isinstance(mode, Mode):
        return kind(mode=mode, **spec)
    return kind(**spec) if mode is None else kind.of(mode, **spec)


def shape_of(name: str, array: Any, axes: str | None = None) -> tuple[int, ...]:
    """Return the shape. `axes` has one letter per dimension that the array must have."""
    shape = getattr(array, "shape", None)
    if shape is None or (axes is not None and len(shape) != len(axes)):
        what = "an array" if axes is None else f"an array of {_COUNTS[len(axes)]} dimensions, {axes.upper()}"
        raise ValueError(f"{name} must be {what}; it is {type(array).__name__} {shape or ''}")
    return tuple(int(extent) for extent in shape)


_COUNTS = {3: "three", 4: "four"}


def as_array(name: str, value: Any) -> Any:
    """Convert numbers, lists and host arrays to NumPy in native byte order. Anything else is returned unchanged."""
    value = as_numpy(value)
    check_unmasked(name, value)
    if not isinstance(value, (int, float, list, tuple, np.ndarray, np.generic)):
        return value
    array = np.asarray(value)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def check_contiguous(name: str, array: Any) -> None:
    if not array.flags.c_contiguous:
        raise ValueError(f"{name} is not contiguous in its shape {tuple(array.shape)}: copy it with ascontiguousarray")


# An array of the device's kind, with its address.
Adopted = tuple[Any, int]


def check_aliasing(out: str, written: Adopted, read: Mapping[str, Adopted], may_alias: Collection[str] = ()) -> None:
    """Reject an output that shares bytes with an input, because a thread would overwrite what another has yet to read.
    It may coincide with one of `may_alias`. Every call that names an output makes this check, which takes half a
    microsecond."""
    array, begin = written
    end = begin + array.nbytes
    for name, (given, first) in read.items():
        if first < end and begin < first + given.nbytes:
            if name in may_alias and first == begin and given.nbytes == array.nbytes:
                continue
            itself = f", or {' or '.join(may_alias)} itself as a whole" if may_alias else ""
            raise ValueError(
                f"{out} shares memory with {name}: the kernel would write what it has yet to read; give an array of "
                f"its own{itself}, or leave it out"
            )


def in_shape(device: Device, name: str, array: Any, wanted: tuple[int, ...], seen: tuple[int, ...]) -> Any:
    """Check the caller's shape and view the array in the problem's shape, in the same memory."""
    array, _ = device.adopt(name, array)
    if tuple(array.shape) != wanted:
        raise ValueError(f"{name} has shape {tuple(array.shape)}; it must be {wanted}")
    check_contiguous(name, array)
    return array.reshape(seen)


def is_array(value: Any) -> bool:
    shape = getattr(value, "shape", None)
    return isinstance(value, (list, tuple)) or (shape is not None and len(shape) > 0)


def is_nonzero(value: Any) -> bool:
    return is_array(value) or bool(value != 0)


def place_of(array: Any, device: Any) -> Device:
    """Return the named device, or else the one that the array is on. A network names it by the open device itself."""
    if hasattr(device, "upload"):
        opened: Device = device
        return opened
    return open_device(device or device_of(array))


def device_of(array: Any) -> str:
    """Return the device that the array is on, where the kernel will run."""
    if hasattr(array, "__cuda_array_interface__"):
        from qconv.device import gpu

        device = getattr(array, "device", None)
        index = getattr(device, "id", getattr(device, "index", 0))
        return f"{gpu.KIND}:{index or 0}"
    if hasattr(array, "__dlpack_device__"):
        kind, index = array.__dlpack_device__()
        if int(kind) in (2, 10):  # kDLCUDA, kDLROCM
            return f"{'cuda' if int(kind) == 2 else 'hip'}:{index}"
    return "cpu"
