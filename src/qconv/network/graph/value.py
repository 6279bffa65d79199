"""A tensor during a run: on the side and in the order of axes in which it was made, and in others once asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any, Self

import numpy as np

from qconv.device import Device

Shape = tuple[int, ...]


class Value:
    """Exactly one of three is given: an array of the `host`, one `there` on the device, or one there whose channels are
    last. Between two layers that run here, a tensor is only ever the third.

    The first two have the model's order of axes. Where their channels are last in memory all the same, as a decoder and
    PyTorch have them, they are taken as they lie."""

    def __init__(self, device: Device, *, host: Any = None, there: Any = None, channels_last: Any = None) -> None:
        self._device = device
        self._host = host
        lies_last = there is not None and _lies_last(there)
        self._there = None if lies_last else there
        self._channels_last = _seen_last(there) if lies_last else channels_last

    @classmethod
    def ordered(cls, device: Device, array: Any, channels_last: bool) -> Self:
        """An array on the device whose channels are last, or that has the model's order."""
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
        # A copy even on the CPU device: the caller's array may lie at any address and in any order.
        return self._device.upload(np.asarray(self._host, order="C"))

    @cached_property
    def channels_last(self) -> Any:
        """On the device: N, then what is not the channels, then the channels."""
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
        """On the device without holes, with the channels last or as the model has it."""
        return self._device.contiguous(self.channels_last if channels_last else self.on_device)

    @property
    def array(self) -> Any:
        """On the device, in the order of axes in which it was made."""
        return self.channels_last if self.is_channels_last else self.on_device

    @property
    def address(self) -> int | None:
        """Where it was made on the device; None of what is on the host, or lies with holes."""
        if self._host is not None or not self.array.flags.c_contiguous:
            return None
        return self._device.adopt("x", self.array)[1]

    @property
    def dtype(self) -> str:
        return str(self._known.dtype)

    def with_array(self, array: Any) -> Value:
        """Another tensor of the same order of axes."""
        if self.is_channels_last:
            return Value(self._device, channels_last=array)
        return Value(self._device, there=array)

    def copied(self) -> Value:
        """The same in an array of its own on the device."""
        shape = last_of(self.shape) if self.is_channels_last else self.shape
        made = self.with_array(self._device.empty(shape, self.dtype))
        self.copy_into(made.array)
        return made

    def copy_into(self, array: Any) -> None:
        """Into one on the device that has its shape, type and order of axes."""
        if self._host is not None:
            host = _seen_last(self._host) if self.is_channels_last else self._host
            self._device.write(np.asarray(host, order="C"), array)
        else:
            self._device.copy(self._device.contiguous(self.array), array)

    @property
    def _known(self) -> Any:
        return next(held for held in (self._host, self._there, self._channels_last) if held is not None)

    @cached_property
    def is_channels_last(self) -> bool:
        """Whether it was made in that order."""
        return self._channels_last is not None or (isinstance(self._host, np.ndarray) and _lies_last(self._host))

    @property
    def shape(self) -> Shape:
        """With the channels behind N, where no axis has moved."""
        if self._channels_last is not None:
            n, *rest, channels = self._channels_last.shape
            return (int(n), int(channels), *map(int, rest))
        return tuple(int(extent) for extent in self._known.shape)


def last_of(shape: Sequence[int]) -> Shape:
    """With the channels behind all other axes; a matrix has no others."""
    return (shape[0], *shape[2:], shape[1]) if len(shape) > 2 else tuple(shape)


def has_two_orders(shape: Sequence[int]) -> bool:
    """Whether elements move when the channels become last: those of one channel, or of one pixel, do not."""
    return 1 not in (shape[1], prod(shape[2:]))


def _lies_last(array: Any) -> bool:
    """Whether the channels of an array that has the model's order of axes are last in memory, and nowhere else."""
    return len(array.shape) > 2 and not array.flags.c_contiguous and bool(_seen_last(array).flags.c_contiguous)


def _seen_last(array: Any) -> Any:
    return array.transpose(last_of(range(len(array.shape))))
