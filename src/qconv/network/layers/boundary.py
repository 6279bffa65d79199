"""QuantizeLinear of the caller's inputs and DequantizeLinear of the network's outputs, if the layers next to them run
on kernels. Layers between them and the caller may move the floats.

In the middle of a network, these two are next to layers that run elsewhere. On the device they would only move floats,
which are four times the bytes.

Callers' images are NCHW, and those of the kernels in between NHWC. The same kernel transposes images with few
channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.conversion import Conversion, Dequantize, Quantize
from qconv.conversion.problem import MOST_TURNED
from qconv.conversion.view import view_of
from qconv.device import Device
from qconv.instances.load.arguments import in_mode
from qconv.instances.load.serving import lookup
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import Reading
from qconv.network.graph.served import OfImages, Prepared, Reason, Served, Unserved
from qconv.network.graph.value import Value, has_two_orders, last_of
from qconv.network.layers.concatenation import Joined
from qconv.network.layers.movement import SHAPES, reshaped, transpose
from qconv.network.layers.packed_convolution import PackedConvolution
from qconv.network.layers.pixel_blocks import depth_to_space, space_to_depth
from qconv.network.layers.pooling import QuantizedPool
from qconv.network.layers.upsampling import Widening
from qconv.network.layers.volume_pool import VolumePool
from qconv.tensor_ops.problem import BYTES


@dataclass(frozen=True, eq=False)
class End:
    """A QuantizeLinear or DequantizeLinear with one scale for the whole tensor. `integer` is its 8-bit type.
    `meets_last`: an adjacent layer has images with the channels last. `mode` names the system whose arithmetic it has,
    by default ONNX Runtime; `limits` are those of a narrower range."""

    layer: Layer
    scale: NDArray[Any]
    zero: NDArray[Any]
    integer: str
    meets_last: bool = False
    mode: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.layer.inputs[:1]

    @property
    def y(self) -> str:
        return self.layer.outputs[0]

    def prepare(self, shapes: Sequence[tuple[int, ...]], device: Device) -> Prepared:
        (shape,) = shapes
        return _Converted(self, shape, device)


class _Converted:
    """A conversion prepared for one shape. To transpose, it is a conversion per channel with equal scales; otherwise
    the tensor is one run of elements."""

    def __init__(self, end: End, shape: tuple[int, ...], device: Device) -> None:
        quantizes = end.layer.op == "QuantizeLinear"
        sizes: dict[str, Any] = dict(view_of(shape, None).sizes)
        self._turns = end.meets_last and len(shape) > 2 and shape[1] <= MOST_TURNED and has_two_orders(shape)
        if self._turns:
            sizes |= {"outer": shape[0], "channels": shape[1], "inner": prod(shape[2:]), "channels_last": True}
        x_type, out_type = ("float32", end.integer) if quantizes else (end.integer, "float32")
        sizes |= {"x_type": x_type, "out_type": out_type, "zero_point": bool(end.zero.any()), **end.limits}
        problem: Conversion = in_mode(Quantize if quantizes else Dequantize, end.mode, sizes)
        values = {"scale": end.scale, "zero_point": end.zero}
        given = [np.full(tensor.shape, values[tensor.name], tensor.dtype) for tensor in problem.inputs[1:]]
        self.problems = (problem,)
        self._device = device
        self._reads_last, self._gives_last = self._turns and not quantizes, self._turns and quantizes
        self._seen = problem.inputs[0].shape
        self._made = last_of(shape) if self._gives_last else shape
        self._given = [device.upload(array) for array in given]
        instance = lookup(problem, device.spec)
        self._packed = instance.pack()
        self.why = instance.why

    def __call__(self, *inputs: Value) -> Value:
        (x,) = inputs
        y = self._packed.in_sequence(x.in_order(self._reads_last).reshape(self._seen), *self._given)
        y = y.reshape(self._made)
        return Value.ordered(self._device, y, self._gives_last)


def serve_ends(network: Network, served: Mapping[str, Served]) -> tuple[dict[str, Served], dict[str, Reason]]:
    """Return the served layers, extended by conversions at the boundary of the network, and why each other conversion
    is not served."""
    makers = {one.y: one for one in served.values()}
    found: dict[str, Served] = dict(served)
    left: dict[str, Reason] = {}
    for layer in network.layers:
        if layer.name in served:  # a folded table may have the name of its QuantizeLinear
            continue
        try:
            if layer.op == "QuantizeLinear":
                moves = _moves_from_caller(layer, network)
                beside = _readers_of_first(layer, network, served)
            elif layer.op == "DequantizeLinear":
                beside = [_maker_of_last(layer, network, makers)]
                moves = _moves_to_caller(layer, network)
            else:
                continue
            found[layer.name] = _read(layer, network, any(map(has_channels_last, beside)))
            found |= {move.layer.name: move for move in moves}
        except Unserved as error:
            left[layer.name] = error.reason
    return found, left


# The layers that may move floats between the caller and a conversion.
MOVES: Mapping[str, Callable[[Reading], Served]] = {
    "DepthToSpace": depth_to_space,
    **dict.fromkeys(SHAPES, reshaped),
    "SpaceToDepth": space_to_depth,
    "Transpose": transpose,
}


class _OfAnyType(Reading):
    def dtype(self, number: int) -> str:
        return self.network.tensor(self.name(number)).dtype or ""


def _moves_from_caller(layer: Layer, network: Network) -> list[Served]:
    """Return the layers between a network input and a layer that quantizes it."""
    x = layer.inputs[0]
    if x in network.inputs:
        return []
    maker = network.producers.get(x)
    if maker is None or maker.op not in MOVES or network.only_consumer(x) is None:
        by = "are constants" if maker is None else f"come from elsewhere, of {maker.op} ({maker.name})"
        raise Unserved(f"the floats that it reads {by}", None if maker is None else maker.name)
    return [MOVES[maker.op](_OfAnyType(maker, network)), *_moves_from_caller(maker, network)]


def _moves_to_caller(layer: Layer, network: Network) -> list[Served]:
    """Return the layers between a layer that dequantizes and the outputs of the network."""
    found: list[Served] = []
    for reader in network.consumers.get(layer.outputs[0], ()):
        if reader.op not in MOVES:
            raise Unserved(f"the floats that it makes are read elsewhere, by {reader.op} ({reader.name})", reader.name)
        found += [MOVES[reader.op](_OfAnyType(reader, network)), *_moves_to_caller(reader, network)]
    return found


def _readers_of_first(layer: Layer, network: Network, served: Mapping[str, Served]) -> list[Served]:
    """Return the served layers that read the bytes of a layer that quantizes a network input."""
    y = layer.outputs[0]
    readers = network.consumers.get(y, ())
    for reader in readers:
        if reader.name not in served:
            raise Unserved(f"the bytes that it makes are read elsewhere, by {reader.op} ({reader.name})", reader.name)
    if y in network.outputs or not readers:
        raise Unserved("the bytes that it makes are an output of the network")
    return [served[reader.name] for reader in readers]


def _maker_of_last(layer: Layer, network: Network, makers: Mapping[str, Served]) -> Served:
    """Return the served layer whose bytes this layer dequantizes for the caller."""
    if layer.inputs[0] not in makers:
        # It is there for the floats that another layer reads; the bytes may themselves be read by this one alone.
        beside = (*network.consumers.get(layer.outputs[0], ()), network.producers.get(layer.inputs[0]))
        follows = next((one.name for one in beside if one is not None), None)
        raise Unserved("the bytes that it reads come from elsewhere", follows)
    return makers[layer.inputs[0]]


def has_channels_last(one: Served) -> bool:
    """True where the layer reads and writes images with the channels last, whatever order they come in."""
    if isinstance(one, PackedConvolution):
        return one.axes > 0
    return isinstance(one, QuantizedPool | VolumePool | Joined | Widening | OfImages)


def _read(layer: Layer, network: Network, meets_last: bool) -> End:
    scale, zero = (network.constant(name) if name else None for name in (*layer.inputs[1:], "")[:2])
    zero = np.zeros((), np.uint8) if zero is None and len(layer.inputs) < 3 else zero
    if scale is None or zero is None:
        raise Unserved("its scale or its zero point is computed; the kernels here need constants")
    if scale.size != 1 or zero.size != 1 or layer.attributes.get("block_size", 0):
        raise Unserved(f"it has {scale.size} scales; at the ends of a network the kernels have one for the tensor")
    integer = network.tensor(layer.outputs[0] if layer.op == "QuantizeLinear" else layer.inputs[0]).dtype
    real = network.tensor(layer.inputs[0] if layer.op == "QuantizeLinear" else layer.outputs[0]).dtype
    if (real, str(scale.dtype)) != ("float32", "float32") or integer not in BYTES:
        raise Unserved(f"it has {real}, {integer} and a scale of {scale.dtype}; the kernels have float32 and bytes")
    if not np.isfinite(scale).all() or scale.item() <= 0:
        raise Unserved(f"its scale is {scale.item()}; the kernels need one above 0")
    return End(layer, scale, zero, integer, meets_last)
