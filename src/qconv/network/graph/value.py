"""A tensor during a run, on the host or the device and in either order of axes. Conversions are cached."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any, Self

import numpy as np

from qconv.device import Device
from qconv.narrow_floats import type_of

Shape = tuple[int, ...]
# The shape and type of a tensor, and whether its channels are last.
Form = tuple[Shape, str, bool]


class Value:
    """A tensor of a run, given as exactly one of three: an array of the `host`, one `there` on the device, or one on
    the device with channels last. Between two layers that run on kernels, only the third occurs.

    The first two have the model's order of axes. If their channels are nevertheless last in memory, as from a decoder
    or from PyTorch, they are used without a copy."""

    def __init__(self, device: Device, *, host: Any = None, there: Any = None, channels_last: Any = None) -> None:
        self._device = device
        self._host = host
        lies_last = there is not None and _lies_last(there)
        self._there = None if lies_last else there
        self._channels_last = _seen_last(there) if lies_last else channels_last

    @classmethod
    def ordered(cls, device: Device, array: Any, channels_last: bool) -> Self:
        """Return the value of a device array whose channels are last, or that has the model's order."""
        return cls(device, channels_last=array) if channels_last else cls(device, there=array)

    @cached_property
    def on_host(self) -> Any:
        return self._device.download(self.on_device) if self._host is None else self._host

    @cached_property
    def on_device(self) -> Any:
        if self._there is not None:
            return self._there
        if self.is_channels_last:
            if len(self.channels_last.shape) < 3:
                return self.channels_last
            n, *rest, channels = self.channels_last.shape
            if not has_two_orders((n, channels, *rest)):
                return self.channels_last.reshape((n, channels, *rest))
            pixels = self.channels_last.reshape((n, prod(rest), channels))
            return self._device.exchanged(pixels).reshape((n, channels, *rest))
        # Copy even on the CPU device: the caller's array may have any address and strides.
        return self._device.upload(np.asarray(self._host, order="C"))

    @cached_property
    def channels_last(self) -> Any:
        """Return the array on the device as N, the spatial axes, the channels."""
        if self._channels_last is not None:
            return self._channels_last
        if self.is_channels_last:
            return self._device.upload(_seen_last(self._host))
        if len(self.on_device.shape) < 3:
            return self.on_device
        n, channels, *rest = self.on_device.shape
        array = self._device.contiguous(self.on_device)
        if not has_two_orders((n, channels, *rest)):
            return array.reshape((n, *rest, channels))
        planes = array.reshape((n, channels, prod(rest)))
        return self._device.exchanged(planes).reshape((n, *rest, channels))

    def in_order(self, channels_last: bool) -> Any:
        """Return a contiguous array on the device, with the channels last or in the model's order."""
        return self._device.contiguous(self.channels_last if channels_last else self.on_device)

    @property
    def array(self) -> Any:
        """Return the array on the device, in the order of axes in which it was made."""
        return self.channels_last if self.is_channels_last else self.on_device

    @property
    def address(self) -> int | None:
        """Return the address on the device, or None for a host array or one that is not contiguous."""
        if self._host is not None or not self.array.flags.c_contiguous:
            return None
        return self._device.adopt("x", self.array)[1]

    @property
    def dtype(self) -> str:
        return type_of(self._known)

    @cached_property
    def form(self) -> Form:
        return self.shape, self.dtype, self.is_channels_last

    def with_array(self, array: Any) -> Value:
        """Return another tensor with the same order of axes."""
        if self.is_channels_last:
            return Value(self._device, channels_last=array)
        return Value(self._device, there=array)

    def copied(self) -> Value:
        """Return a copy in an array of its own on the device."""
        shape = last_of(self.shape) if self.is_channels_last else self.shape
        made = self.with_array(self._device.empty(shape, self.dtype))
        self.copy_into(made.array)
        return made

    def copied_in_order(self) -> Value:
        """Return a copy in the model's order of axes, in an array of its own on the device."""
        is_moved = self.is_channels_last and self._host is None and len(self.shape) > 2 and has_two_orders(self.shape)
        return Value(self._device, there=self.on_device) if is_moved else self.copied()

    def copy_into(self, array: Any) -> None:
        """Copy into a device array with the same shape, type and order of axes."""
        if self._host is not None:
            host = _seen_last(self._host) if self.is_channels_last else self._host
            self._device.write(np.asarray(host, order="C"), array)
        else:
            self._device.copy(self._device.contiguous(self.array), array)

    def write_to(self, other: Value) -> None:
        """Copy into the memory of another tensor on the device, with the same shape and type in any order of axes."""
        if self.is_channels_last == other.is_channels_last:
            self.copy_into(other.array)
        else:
            self._device.copy(self.in_order(other.is_channels_last), other.array)

    @property
    def _known(self) -> Any:
        if self._channels_last is not None:
            return self._channels_last
        return self._host if self._there is None else self._there

    @cached_property
    def is_channels_last(self) -> bool:
        """True where the channels are last in memory."""
        return self._channels_last is not None or (isinstance(self._host, np.ndarray) and _lies_last(self._host))

    @property
    def shape(self) -> Shape:
        """Return the shape in the model's order, with the channels after N."""
        if self._channels_last is not None:
            n, *rest, channels = self._channels_last.shape
            return (int(n), int(channels), *map(int, rest))
        return tuple(int(extent) for extent in self._known.shape)


class Counted(Value):
    """Rows on the device, of which the first begins with the number of those behind it that count. The others are cut
    off where the caller or another layer gets the tensor, which waits for the device."""

    @cached_property
    def on_host(self) -> Any:
        rows = self._device.download(self.array)
        return rows[1 : 1 + int(rows[0, 0])]

    @cached_property
    def on_device(self) -> Any:
        return self._device.upload(self.on_host)

    @property
    def array(self) -> Any:
        """Return the array of all rows."""
        return self._there

    def with_array(self, array: Any) -> Value:
        return Counted(self._device, there=array)


def last_of(shape: Sequence[int]) -> Shape:
    """Return the shape with the channels moved to the end; a matrix is unchanged."""
    return (shape[0], *shape[2:], shape[1]) if len(shape) > 2 else tuple(shape)


def has_two_orders(shape: Sequence[int]) -> bool:
    """True where moving the channels to the end moves elements: not with a single channel or a single pixel."""
    return 1 not in (shape[1], prod(shape[2:]))


def _lies_last(array: Any) -> bool:
    """True where an array in the model's order of axes has its channels last in memory, and is not contiguous as it
    is."""
    return len(array.shape) > 2 and not array.flags.c_contiguous and bool(_seen_last(array).flags.c_contiguous)


def _seen_last(array: Any) -> Any:
    return array.transpose(last_of(range(len(array.shape))))
