"""Pools of quantized tensors with three axes, as pools of images: those of each frame, then those of the same pixel of
several frames.

The largest of the largest is the largest. An average is rounded once, so it is one pool: of pixels, of frames, or of
everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from qconv.device import Device
from qconv.network.graph.graph import Layer
from qconv.network.graph.reading import Reading
from qconv.network.graph.served import Prepared, Unserved
from qconv.network.graph.value import Shape, Value
from qconv.network.layers import pooling
from qconv.network.layers.pooling import QuantizedPool
from qconv.tensor_ops import AveragePool


@dataclass(frozen=True)
class Part:
    """A pool of images, NCHW, that are a view of a volume."""

    pool: QuantizedPool
    images: Shape

    @property
    def changes(self) -> bool:
        """True unless the window is one element that stays where it is."""
        given = self.pool.attributes
        moves = any(size != 1 for size in (*given["kernel_shape"], *(given.get("strides") or ())))
        return moves or any(given.get("pads") or ())

    @property
    def pixels(self) -> tuple[int, int]:
        """Return the height and width of the output."""
        _, h, w, _ = self.pool.y_shape(self.images, self.pool.problem(self.images))
        return h, w


@dataclass(frozen=True, eq=False)
class VolumePool:
    """A pool along D, H and W. `pool` has its window and its numbers."""

    pool: QuantizedPool

    @property
    def layer(self) -> Layer:
        return self.pool.layer

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.pool.inputs

    @property
    def y(self) -> str:
        return self.pool.y

    @property
    def window(self) -> tuple[int, int, int]:
        t, r, s = self.pool.attributes["kernel_shape"]
        return t, r, s

    def parts(self, x_shape: Shape) -> tuple[list[Part], Shape]:
        """Return the pools of images that compute it for an input of this shape, with the channels after N, and the
        extents of the output along D, H and W. Raise ValueError where no kernel serves it."""
        if len(x_shape) != 5:
            raise ValueError(f"x has shape {x_shape}, but the window {self.window} slides along three axes")
        n, c, depth, *pixels = x_shape
        frames = Part(self._along(1, 3), (n * depth, c, *pixels))
        if self.pool.kind is AveragePool:
            return self._average(x_shape, frames)
        made = frames.pixels
        time = Part(self._along(0, 1), (n, c, depth, prod(made)))
        parts = [part for part in (frames, time) if part.changes] or [frames]
        return parts, (time.pixels[0], *made)

    def _average(self, x_shape: Shape, frames: Part) -> tuple[list[Part], Shape]:
        """Return the one pool of an average. ONNX Runtime adds integers where the window is everything, and else
        floats, as the kernels do; those of floats refuse a window that is a whole image."""
        n, c, depth, *pixels = x_shape
        time = Part(self._along(0, 1), (n, c, depth, prod(pixels)))
        is_padded = any(self.pool.attributes.get("pads") or ())
        if self.window == (depth, *pixels) and not is_padded:
            whole = {"kernel_shape": (depth, prod(pixels))}
            return [Part(replace(self.pool, attributes=whole), time.images)], (1, 1, 1)
        if not time.changes and self.window[1:] != tuple(pixels):
            return [frames], (depth, *frames.pixels)
        if not frames.changes:
            return [time], (time.pixels[0], *pixels)
        raise ValueError(
            f"the window {self.window} slides along frames and pixels, or covers a frame; the kernels of bytes have "
            "averages of pixels, of frames, and of everything"
        )

    def _along(self, begin: int, end: int) -> QuantizedPool:
        """Return the pool along some of the axes, as one of images. A single axis is the height."""
        given = self.pool.attributes
        attributes = dict(given)
        for name in ("kernel_shape", "strides", "dilations"):
            if given.get(name):
                attributes[name] = (*given[name][begin:end], *(1,) * (2 - end + begin))
        if given.get("pads"):
            rest = (0,) * (2 - end + begin)
            attributes["pads"] = (*given["pads"][begin:end], *rest, *given["pads"][3 + begin : 3 + end], *rest)
        return replace(self.pool, attributes=attributes)

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        (shape,) = shapes
        return _Pooled(self, shape, device)


class _Pooled:
    def __init__(self, pool: VolumePool, shape: Shape, device: Device) -> None:
        parts, made = pool.parts(shape)
        self._device, self._made = device, (shape[0], *made, shape[1])
        self._parts = [part.pool.prepare((part.images,), device) for part in parts]
        self.problems = tuple(problem for part in self._parts for problem in part.problems)
        self.why = "; ".join(dict.fromkeys(part.why for part in self._parts))

    def __call__(self, *inputs: Value) -> Value:
        (x,) = inputs
        x = Value(self._device, channels_last=x.in_order(channels_last=True))
        for part in self._parts:
            x = part(x)
        return Value(self._device, channels_last=x.channels_last.reshape(self._made))


def max_pool(reading: Reading) -> QuantizedPool | VolumePool:
    return _of_volume(reading, pooling.max_pool_of(reading)) if _has_three_axes(reading) else pooling.max_pool(reading)


def average_pool(reading: Reading) -> QuantizedPool | VolumePool:
    if not _has_three_axes(reading):
        return pooling.average_pool(reading)
    return _of_volume(reading, pooling.average_pool_of(reading))


def _has_three_axes(reading: Reading) -> bool:
    return len(reading.layer.attributes["kernel_shape"]) == 3


def _of_volume(reading: Reading, pool: QuantizedPool) -> VolumePool:
    """Return the pool, after rejecting what is wrong for its input's shape, or for every one if that is unknown."""
    made, shape = VolumePool(pool), reading.network.tensor(pool.x).extents
    try:
        for known in [(1, 1, *pool.smallest)] if shape is None else [shape]:
            for part in made.parts(known)[0]:
                part.pool.problem(part.images).checked(dict(pool.parameters))
    except ValueError as error:
        raise Unserved(str(error)) from None
    return made
