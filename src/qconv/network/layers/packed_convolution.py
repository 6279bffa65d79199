"""Convolutions and matrix products with constant weights of any type: shapes, windows and packed weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from qconv.device import Device
from qconv.dtypes import ELEMENT_TYPES
from qconv.instances.api.convolution import conv2d_problem
from qconv.instances.load.serving import lookup
from qconv.network.graph.graph import Layer
from qconv.network.graph.reading import Array
from qconv.network.graph.served import Prepared, Unserved
from qconv.network.graph.value import Shape, Value
from qconv.network.layers.copied import BehindCopy, Way, fastest
from qconv.network.layers.frames import CopiedFrames
from qconv.network.layers.volume import Images, Volume
from qconv.network.layers.widened import Widened
from qconv.network.layers.window import check_auto_pad, sides
from qconv.problem.convolution import Conv2d


class Uploaded:
    """Arrays on the device that asked for one last: a network is shipped for one device after the other."""

    def __init__(self) -> None:
        self._device: Device | None = None
        self._arrays: dict[int, Any] = {}

    def on(self, device: Device, channels: int, make: Callable[[], Array]) -> Any:
        """Return the array with this number of channels."""
        if self._device is not device:
            self._device, self._arrays = device, {}
        if channels not in self._arrays:
            self._arrays[channels] = device.upload(make())
        return self._arrays[channels]


@dataclass(frozen=True, eq=False)
class PackedConvolution(ABC):
    """A layer with everything that is the same in each run. `weights` are KCRS, or KCTRS with three spatial `axes`;
    `attributes` describe the window. A matrix product, which has no spatial axes, is a 1x1 convolution whose pixels are
    rows."""

    layer: Layer
    x: str
    y: str
    x_type: str
    weights: Array
    out_type: str
    parameters: Mapping[str, Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    axes: int = 2
    activation: str = "none"
    _uploaded: Uploaded = field(default_factory=Uploaded, repr=False)

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]: ...

    @abstractmethod
    def problem(self, x_shape: Shape) -> Conv2d:
        """Return the problem for an input of this shape, with the channels after N. Raise ValueError where no kernel
        serves it."""

    @property
    def channels(self) -> int:
        return int(self.weights.shape[1]) * self.groups

    @property
    def groups(self) -> int:
        return int(self.attributes.get("group", 1))

    @property
    def is_shuffled(self) -> bool:
        """True where its output channels are stored as the pixels of blocks."""
        return "pixel_shuffle" in self.attributes

    @cached_property
    def volume(self) -> Volume | None:
        """The way from three axes to images."""
        if self.axes != 3:
            return None
        t, r, s = self.weights.shape[2:]
        return Volume((t, r, s), self.attributes)

    @cached_property
    def filters(self) -> Array:
        """The weights of the kernel's convolution of images, KCRS."""
        return self.weights if self.volume is None else self.volume.filters(self.weights)

    def weights_on(self, device: Device, channels: int) -> Any:
        """Return the weights in the kernels' order, with this number of channels in a group: zeros behind their own.
        They are uploaded once, and packed from there for each shape."""

        def ordered() -> Array:
            last = self.filters.transpose(0, 2, 3, 1)
            made = np.zeros((*last.shape[:-1], channels), last.dtype)
            made[..., : last.shape[-1]] = last
            return made

        return self._uploaded.on(device, channels, ordered)

    def images(self, x_shape: tuple[int, ...]) -> Images:
        """Return the images that the kernel reads of an input of this shape, with the channels after N."""
        if self.volume is not None:
            if x_shape[1] != self.channels:
                raise ValueError(f"x has {x_shape[1]} channels, but w has {self.channels} in groups={self.groups}")
            images = self.volume.images(x_shape)
            return replace(images, window={**images.window, **self._shuffle})
        n, channels, *sizes = x_shape if self.axes else (int(np.prod(x_shape[:-1])), x_shape[-1])
        window = sides(self.attributes, sizes, self.weights.shape[4 - self.axes :]) if self.axes else {}
        h, w = (*(1,) * (2 - self.axes), *sizes)
        return Images((n, h, w, channels), {**window, **self._shuffle})

    @property
    def _shuffle(self) -> dict[str, Any]:
        return {name: self.attributes[name] for name in ("pixel_shuffle", "crop") if name in self.attributes}

    def problem_of(self, x_shape: Shape, **quantization: Any) -> Conv2d:
        """Return the problem of the convolution alone, with the given parts of its quantization."""
        if self.axes and len(x_shape) != self.axes + 2:
            raise ValueError(f"x has shape {x_shape}, but w has {self.axes} axes: it must have {self.axes + 2}")
        images = self.images(x_shape)
        return conv2d_problem(
            _shaped(images.shape, self.x_type), self.filters, w_layout="kcrs", groups=self.groups,
            out_type=self.out_type, activation=self.activation, bias=self.parameters.get("bias"),
            **quantization, **images.window,
        )  # fmt: skip

    def y_shape(self, x_shape: tuple[int, ...], problem: Conv2d) -> tuple[int, ...]:
        """Return the shape in which to view the kernel's output: with the channels last, or as the rows of a matrix."""
        if not self.axes:
            return (*x_shape[:-1], problem.k)
        if self.volume is not None:
            return self.volume.y_shape(x_shape, problem.y_shape)
        n, *sizes, k = problem.y_shape
        return (n, *sizes[2 - self.axes :], k)

    def made_shape(self, x_shape: tuple[int, ...], problem: Conv2d) -> tuple[int, ...]:
        """Return the shape of the output, with the channels after N."""
        shape = self.y_shape(x_shape, problem)
        return (shape[0], shape[-1], *shape[1:-1]) if self.axes else shape

    def prepare(self, shapes: Sequence[tuple[int, ...]], device: Device) -> Prepared:
        shape, *others = shapes
        problem, frames = self.problem(shape), self.images(shape).frames
        made = self.made_shape(shape, problem)
        for other in others:
            if other != made:
                raise ValueError(f"its output has shape {made}, but {other} is added: the kernels add equal shapes")
        way = fastest(_ways(problem, frames), device)
        packed = _Packed(self, shape, way.problem, device)
        if way.copy is None:
            return packed
        return BehindCopy(way.copy, self.x_type, int(self.parameters.get("x_zero_point", 0)), packed, device)


def _ways(problem: Conv2d, frames: CopiedFrames | None) -> tuple[Way, ...]:
    if frames is not None:
        behind = Way(problem, frames)
        return (behind,) if frames.groups > 1 else (Way(replace(problem, frames=frames.frames)), behind)
    if (widened := Widened.of(problem)) is not None:
        return Way(problem), Way(replace(problem, c=widened.channels), widened)
    return (Way(problem),)


class _Packed:
    """A convolution prepared for one shape: its kernel, its packed weights, and the shapes of the kernel's arrays."""

    def __init__(self, convolution: PackedConvolution, shape: tuple[int, ...], problem: Conv2d, device: Device) -> None:
        self._device = device
        self._matrix = not convolution.axes
        self._problem = problem
        self.problems = (self._problem,)
        self._y_shape = convolution.y_shape(shape, self._problem)
        instance = lookup(self._problem, device.spec)
        self._packed = instance.pack(convolution.weights_on(device, problem.c_group), **convolution.parameters)
        self.why = instance.why

    def __call__(self, *inputs: Value) -> Value:
        arrays = (each.on_device if self._matrix else each.channels_last for each in inputs)
        shapes = (self._problem.x_shape, self._problem.y_shape)
        given = [self._device.contiguous(array).reshape(shape) for array, shape in zip(arrays, shapes, strict=False)]
        y = self._packed.in_sequence(*given)
        y = y.reshape(self._y_shape)
        return Value(self._device, there=y) if self._matrix else Value(self._device, channels_last=y)


def _shaped(shape: tuple[int, ...], dtype: str) -> Array:
    """Return an array with a shape and a type that takes no memory."""
    return np.broadcast_to(np.zeros((), ELEMENT_TYPES[dtype].numpy), shape)


def check_smallest(made: PackedConvolution) -> None:
    """Raise `Unserved` for problems with every input shape, by trying the smallest image that the filter fits into."""
    filters = made.weights.shape[made.weights.ndim - made.axes :]
    gaps = made.attributes.get("dilations") or (1,) * made.axes
    spans = [(size - 1) * gap + 1 for size, gap in zip(filters, gaps, strict=False)]
    try:
        made.problem((1, made.channels, *spans)).checked(dict(made.parameters))
    except ValueError as error:
        raise Unserved(str(error)) from None


def window_of(layer: Layer) -> dict[str, Any]:
    """Return the attributes of a Conv that describe its window. Raise `Unserved` where no kernel has it."""
    attributes = dict(layer.attributes)
    if attributes.pop("channels_last", 0):
        raise Unserved("channels_last=1, which ONNX Runtime writes for its own kernels")
    try:
        check_auto_pad(attributes)
    except ValueError as error:
        raise Unserved(str(error)) from None
    return attributes


def as_images(w: Array) -> Array:
    """Return the weights of rows, KCS, as those of images with a height of 1."""
    return w[:, :, np.newaxis] if w.ndim == 3 else w


def with_one_per_output(bias: Array, k: int) -> Array:
    """Return the bias of a matrix product as one number per output."""
    if bias.size not in (1, k) or (bias.ndim == 2 and bias.shape[0] != 1) or bias.ndim > 2:
        raise Unserved(f"its bias has shape {bias.shape}; the kernels take one number per output")
    return np.ascontiguousarray(np.broadcast_to(bias.reshape(-1), (k,)))
