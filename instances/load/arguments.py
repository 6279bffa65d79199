"""What the one-liners read off the arrays that they are given."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from qconv.arithmetic.mode import Mode
from qconv.device import Device, open_device
from qconv.host_array import as_numpy, check_unmasked


class InMode(Protocol):
    """A value whose arithmetic may be named."""

    def __init__(self, **spec: Any) -> None: ...
    @classmethod
    def of(cls, mode: str, **spec: Any) -> Self: ...


Kind = TypeVar("Kind", bound=InMode)


def in_mode(kind: type[Kind], mode: str | Mode | None, spec: Mapping[str, Any]) -> Kind:
    """In the arithmetic of a system by its name, or in that of a convolution's flags."""
    if isinstance(mode, Mode):
        return kind(mode=mode, **spec)
    return kind(**spec) if mode is None else kind.of(mode, **spec)


def shape_of(name: str, array: Any, axes: str | None = None) -> tuple[int, ...]:
    """`axes`: a letter for each dimension that the array must have."""
    shape = getattr(array, "shape", None)
    if shape is None or (axes is not None and len(shape) != len(axes)):
        what = "an array" if axes is None else f"an array of {_COUNTS[len(axes)]} dimensions, {axes.upper()}"
        raise ValueError(f"{name} must be {what}; it is {type(array).__name__} {shape or ''}")
    return tuple(int(extent) for extent in shape)


_COUNTS = {3: "three", 4: "four"}


def type_of(array: Any) -> str:
    return str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")


def as_array(name: str, value: Any) -> Any:
    """What lies on the host as NumPy has it, numbers and lists as well, in its own order of bytes; anything else as it
    is."""
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
    """Refuses an output that shares bytes with what is read: a thread would write what another has yet to read. It may
    be one of `may_alias` as a whole. Every call that names an output asks this, which takes it half a microsecond."""
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
    """The array of the shape that is wanted, as one of the shape that a problem sees, in the same memory."""
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


def place_of(array: Any, device: str | None) -> Device:
    """The device that is named, else where the array lies."""
    return open_device(device or device_of(array))


def device_of(array: Any) -> str:
    """Where the array lies: the kernel runs there."""
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
