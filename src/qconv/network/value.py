"""A tensor during a run: on the side and in the order of axes in which it was made, and in others once asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from qconv.device import Device


class Value:
    """Exactly one of three is given: an array of the `host`, one `there` on the device, or one there whose channels are
    last. Between two layers that run here, a tensor is only ever the third."""

    def __init__(self, device: Device, *, host: Any = None, there: Any = None, channels_last: Any = None) -> None:
        self._device = device
        self._host = host
        self._there = there
        self._channels_last = channels_last

    @cached_property
    def on_host(self) -> Any:
        return self._device.download(self.on_device) if self._host is None else self._host

    @cached_property
    def on_device(self) -> Any:
        if self._there is not None:
            return self._there
        if self._channels_last is not None:
            rank = len(self._channels_last.shape)
            return self._turned(self._channels_last, (0, rank - 1, *range(1, rank - 1)))
        # A copy even on the CPU device: the caller's array may lie at any address and in any order.
        return self._device.upload(np.asarray(self._host, order="C"))

    @cached_property
    def channels_last(self) -> Any:
        """On the device: N, then what is not the channels, then the channels."""
        if self._channels_last is not None:
            return self._channels_last
        rank = len(self.on_device.shape)
        return self._turned(self.on_device, (0, *range(2, rank), 1))

    @property
    def is_channels_last(self) -> bool:
        """Whether it was made in that order."""
        return self._channels_last is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """With the channels behind N, where no axis has moved."""
        if self._channels_last is not None:
            n, *rest, channels = self._channels_last.shape
            return (int(n), int(channels), *map(int, rest))
        known = self._host if self._there is None else self._there
        return tuple(int(extent) for extent in known.shape)

    def _turned(self, array: Any, axes: tuple[int, ...]) -> Any:
        return array if len(axes) < 3 else self._device.contiguous(array.transpose(axes))
