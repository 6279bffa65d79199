"""What the one-liners read off the arrays that they are given."""

from __future__ import annotations

from typing import Any


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


def is_array(value: Any) -> bool:
    shape = getattr(value, "shape", None)
    return isinstance(value, (list, tuple)) or (shape is not None and len(shape) > 0)


def is_nonzero(value: Any) -> bool:
    return is_array(value) or bool(value != 0)


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
