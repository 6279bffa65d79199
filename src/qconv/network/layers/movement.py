"""Layers that change a tensor's shape or the order of its axes without computing. They run on the device only next to
other served layers: elsewhere, the bytes would be copied to the device and back for nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from qconv.device import Device
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import Reading
from qconv.network.graph.served import Prepared, Reason, Served, Unserved
from qconv.network.graph.value import Shape, Value, last_of

# Maps the shape of an input to that of the output.
To = Callable[[Shape], Shape]

LEFT = "it only moves bytes, and they come from elsewhere"


@dataclass(frozen=True, eq=False)
class Moving:
    """The base class of layers that only move bytes."""

    layer: Layer
    inputs: tuple[str, ...]
    y: str


@dataclass(frozen=True, eq=False)
class Reshaped(Moving):
    """A change of shape. `to` maps the input's shape to the output's."""

    to: To

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        (shape,) = shapes
        made = self.to(shape)
        if prod(made) != prod(shape):
            raise ValueError(f"x has shape {shape}, which cannot be seen as {made}")
        return _Reshaped(shape, made, device)


class _Reshaped:
    """A reshape without a copy where the order of axes does not matter: the channels stay the same, or there is a
    single channel or pixel."""

    why = "no kernel: the same bytes in another shape"
    problems = ()

    def __init__(self, shape: Shape, made: Shape, device: Device) -> None:
        self._device = device
        self._shape = made
        self._keeps = len(shape) > 2 and len(made) > 2 and shape[:2] == made[:2]
        # With one channel or one pixel, both orders of axes are the same.
        self._in_any_order = len(made) > 2 and (made[1] == 1 or prod(made[2:]) == 1)

    def __call__(self, *inputs: Value) -> Value:
        (x,) = inputs
        if self._keeps and x.is_channels_last:
            return Value(self._device, channels_last=x.channels_last.reshape(last_of(self._shape)))
        array = self._device.contiguous(x.on_device)
        if self._in_any_order:
            return Value(self._device, channels_last=array.reshape(last_of(self._shape)))
        return Value(self._device, there=array.reshape(self._shape))


@dataclass(frozen=True, eq=False)
class Transposed(Moving):
    """A transposition. `axes` are the input's in the order of the output; None reverses them."""

    axes: tuple[int, ...] | None

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        (shape,) = shapes
        axes = tuple(reversed(range(len(shape)))) if self.axes is None else self.axes
        if sorted(axes) != list(range(len(shape))):
            raise ValueError(f"x has shape {shape}, whose axes cannot stand in the order {axes}")
        return _Transposed(axes, device)


class _Transposed:
    """A transposition with one copy where reading and writing in the model's order would need two, or without a copy
    where the bytes are already in one of the output's orders."""

    why = "no kernel: the same bytes in another order"
    problems = ()

    def __init__(self, axes: tuple[int, ...], device: Device) -> None:
        self._device = device
        self._axes = axes

    def __call__(self, *inputs: Value) -> Value:
        (x,) = inputs
        rank = len(self._axes)
        if rank < 3:
            return Value(self._device, there=self._device.contiguous(x.on_device.transpose(self._axes)))
        lies = last_of(range(rank)) if x.is_channels_last else tuple(range(rank))
        array = x.channels_last if x.is_channels_last else x.on_device
        seen = array.transpose([lies.index(axis) for axis in self._axes])
        last = seen.transpose(last_of(range(rank)))
        if last.flags.c_contiguous:
            return Value(self._device, channels_last=last)
        return Value(self._device, there=self._device.contiguous(seen))


def serve_moving(network: Network, served: Mapping[str, Served]) -> tuple[dict[str, Served], dict[str, Reason]]:
    """Return the served layers without those that only move bytes between layers that run elsewhere, and why each of
    these is not served.

    A network input may be moved on the device if only served layers read the result."""
    known = [served[layer.name] for layer in network.layers if layer.name in served]
    moving = [one for one in known if isinstance(one, Moving)]
    here = {name for name, one in served.items() if not isinstance(one, Moving)}
    wanted = set(here)  # plus moving layers that only these read
    for one in reversed(moving):
        readers = network.consumers.get(one.y, ())
        if readers and one.y not in network.outputs and all(reader.name in wanted for reader in readers):
            wanted.add(one.layer.name)
    for one in moving:
        makers = [network.producers.get(name) for name in one.inputs]
        is_made_here = any(maker is not None and maker.name in here for maker in makers)
        of_caller = all(_is_of_caller(network, maker) for maker in makers)
        if is_made_here or (one.layer.name in wanted and of_caller):
            here.add(one.layer.name)
    left = {name: Reason(LEFT, _neighbour(network, one)) for name, one in served.items() if name not in here}
    return {name: one for name, one in served.items() if name in here}, left


def _neighbour(network: Network, one: Served) -> str | None:
    """Return the layer elsewhere that makes what this one moves, or else the first that reads it."""
    makers = (network.producers.get(name) for name in one.inputs)
    beside = (*(maker for maker in makers if maker is not None), *network.consumers.get(one.y, ()))
    return beside[0].name if beside else None


def _is_of_caller(network: Network, maker: Layer | None) -> bool:
    """True for a network input, or one that is only quantized."""
    return maker is None or (maker.op == "QuantizeLinear" and maker.inputs[0] in network.inputs)


def _flattened(reading: Reading) -> To:
    axis = int(reading.layer.attributes.get("axis", 1))
    return lambda shape: (prod(shape[:axis]), prod(shape[axis:]))


def _as_given(reading: Reading) -> To:
    wanted = [int(extent) for extent in reading.constant(1, "shape").reshape(-1)]
    keeps_zeros = bool(reading.layer.attributes.get("allowzero", 0))

    def to(shape: Shape) -> Shape:
        taken = dict(enumerate(() if keeps_zeros else shape))
        known = [extent or taken.get(at, 0) for at, extent in enumerate(wanted)]
        rest = prod(extent for extent in known if extent != -1)
        return tuple(prod(shape) // max(rest, 1) if extent == -1 else extent for extent in known)

    return to


def _squeezed(reading: Reading) -> To:
    axes = _axes(reading)

    def to(shape: Shape) -> Shape:
        gone = [at for at, extent in enumerate(shape) if extent == 1] if axes is None else _from_front(axes, len(shape))
        return tuple(extent for at, extent in enumerate(shape) if at not in gone)

    return to


def _unsqueezed(reading: Reading) -> To:
    axes = _axes(reading)
    if axes is None:
        raise Unserved("the kernels need constant axes: they are not given")

    def to(shape: Shape) -> Shape:
        rank = len(shape) + len(axes)
        new, rest = _from_front(axes, rank), iter(shape)
        return tuple(1 if at in new else next(rest) for at in range(rank))

    return to


# Ops that keep the order of all elements: each returns how the shape changes.
SHAPES: Mapping[str, Callable[[Reading], To]] = {
    "Flatten": _flattened,
    "Identity": lambda reading: lambda shape: shape,
    "Reshape": _as_given,
    "Squeeze": _squeezed,
    "Unsqueeze": _unsqueezed,
}


def reshaped(reading: Reading) -> Reshaped:
    x, _ = reading.x()
    return Reshaped(reading.layer, (x,), reading.layer.outputs[0], SHAPES[reading.layer.op](reading))


def transpose(reading: Reading) -> Transposed:
    x, _ = reading.x()
    given: Any = reading.layer.attributes.get("perm")
    return Transposed(reading.layer, (x,), reading.layer.outputs[0], None if given is None else tuple(given))


def _axes(reading: Reading) -> tuple[int, ...] | None:
    """Return the axes: an attribute until opset 12, an input since. One number stands for a list of one."""
    given: Any = reading.layer.attributes.get("axes")
    if given is None:
        given = reading.optional(1, "axes")
    return None if given is None else tuple(int(axis) for axis in np.reshape(given, -1))


def _from_front(axes: Sequence[int], rank: int) -> list[int]:
    return [axis % rank for axis in axes]
