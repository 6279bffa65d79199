"""Frames of a volume side by side in the channels: with them, a filter of several frames is one of a single image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qconv.device import Device
from qconv.expression.index import Axis, Index
from qconv.expression.map import Map
from qconv.expression.node import Guard, Load, text_of
from qconv.expression.problem import Operand
from qconv.instances.load.serving import lookup
from qconv.network.graph.served import Prepared
from qconv.network.graph.value import Value


@dataclass(frozen=True)
class Frames:
    """The frames under a filter of `taps` frames at each of its `count` places. `shape` is N, D, H * W, C. The channels
    of a group stay together: they are ordered by group, tap and channel. A frame of the padding is one of zero
    points."""

    shape: tuple[int, int, int, int]
    count: int
    taps: int
    stride: int
    dilation: int
    before: int  # frames of padding in front
    groups: int

    @property
    def made(self) -> tuple[int, int, int, int]:
        n, _, pixels, c = self.shape
        return (n, self.count, pixels, self.taps * c)

    def problem(self, dtype: str) -> Map:
        """Return the copy. With one tap, a frame is one row. The zero point is an operand, so that layers of one shape
        share a kernel."""
        n, depth, pixels, c = self.shape
        parts = (pixels, self.groups, self.taps, c // self.groups) if self.taps > 1 else (1, 1, 1, pixels * c)
        extents = (n, self.count, *parts)
        shape = tuple(extent for extent in extents if extent > 1)
        axes = (Index.of(Axis(f"i{at}", extent)) for at, extent in enumerate(shape))
        image, place, pixel, group, tap, channel = (next(axes) if extent > 1 else Index() for extent in extents)
        frame = place * self.stride + tap * self.dilation - self.before
        at = ((image * depth + frame) * pixels + pixel) * c + group * parts[-1] + channel
        guard = Guard(frame, depth)
        x = Operand(dtype, n * depth * pixels * c)
        if not guard.is_needed:
            return Map((x,), dtype, text_of(Load("x0", at, "int32")), shape)
        root = Load("x0", at, "int32", (guard,), Load("x1", Index(), "int32"))
        return Map((x, Operand(dtype, 1, is_constant=True)), dtype, text_of(root), shape)


class BesideEachOther:
    """A layer of images, prepared for one shape, behind the copy that makes them."""

    def __init__(self, frames: Frames, dtype: str, zero_point: int, images: Prepared, device: Device) -> None:
        problem = frames.problem(dtype)
        instance = lookup(problem, device.spec)
        filled = [device.upload(np.full(1, zero_point, dtype))] if problem.packed else []
        self._packed = instance.pack(*filled)
        self._images, self._device, self._made = images, device, frames.made
        self.problems = (problem, *images.problems)
        self.why = f"{images.why}; the frames under its filter are copied side by side: {instance.why}"

    def __call__(self, *inputs: Value) -> Value:
        x, *others = inputs
        y = self._packed.in_sequence(x.in_order(channels_last=True).reshape(-1))
        return self._images(Value(self._device, channels_last=y.reshape(self._made)), *others)
