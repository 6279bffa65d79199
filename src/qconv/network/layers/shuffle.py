"""Channel shuffles: Reshape, Transpose and Reshape as one layer. Between two layers with channels last it is one copy.
Separately, the first of the three would transpose the tensor to ONNX's order, and the last would transpose it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from qconv.device import Device
from qconv.instances.load.serving import lookup
from qconv.network.graph.graph import Network, as_one
from qconv.network.graph.served import Prepared, Served
from qconv.network.graph.value import Shape, Value
from qconv.network.layers.movement import Moving, Reshaped, Transposed
from qconv.tensor_ops import ChannelShuffle
from qconv.tensor_ops.shuffle import MOST_GROUPS


@dataclass(frozen=True, eq=False)
class Shuffled(Moving):
    dtype: str
    split: Reshaped
    swap: Transposed
    join: Reshaped

    def is_shuffle_of(self, shape: Shape) -> bool:
        """True where both reshapes only split and join the channels. Otherwise the three run as they are."""
        split = self.split.to(shape)
        swapped = tuple(split[axis] for axis in _swapping(len(split))) if len(split) > 2 else split
        is_of_channels = len(split) == len(shape) + 1 > 3 and (split[0], prod(split[1:3]), *split[3:]) == shape
        is_back = self.join.to(swapped) == shape and self.swap.axes == _swapping(len(split))
        return is_of_channels and is_back and split[1] <= MOST_GROUPS

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        (shape,) = shapes
        split = self.split.to(shape)
        if self.is_shuffle_of(shape):
            return _Shuffled(ChannelShuffle(prod((shape[0], *shape[2:])), split[1], split[2], self.dtype), device)
        split_prepared, swap_prepared = self.split.prepare(shapes, device), self.swap.prepare([split], device)
        turned = tuple(split[axis] for axis in self.swap.axes or ())
        return _InTurn((split_prepared, swap_prepared, self.join.prepare([turned], device)))


class _Shuffled:
    def __init__(self, problem: ChannelShuffle, device: Device) -> None:
        self.problems = (problem,)
        instance = lookup(problem, device.spec)
        self._device, self._packed = device, instance.pack()
        self.why = instance.why

    def __call__(self, *inputs: Value) -> Value:
        (x,) = inputs
        array = self._device.contiguous(x.channels_last)
        (problem,) = self.problems
        y = self._packed.in_sequence(array.reshape(problem.inputs[0].shape))
        return Value(self._device, channels_last=y.reshape(array.shape))


class _InTurn:
    problems = ()

    def __init__(self, steps: Sequence[Prepared]) -> None:
        self._steps = tuple(steps)
        self.why = "; ".join(dict.fromkeys(step.why for step in steps))

    def __call__(self, *inputs: Value) -> Value:
        (value,) = inputs
        for step in self._steps:
            value = step(value)
        return value


def _swapping(rank: int) -> Shape:
    """Return the order of axes that exchanges the second and the third."""
    return (0, 2, 1, *range(3, rank))


def fold_shuffles(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Fold shuffles whose intermediate tensors have no other readers."""
    layers, folded = {layer.name: layer for layer in network.layers}, dict(served)
    for one in served.values():
        swap = _reader(network, served, one) if isinstance(one, Reshaped) else None
        join = _reader(network, served, swap) if isinstance(swap, Transposed) else None
        if not (isinstance(one, Reshaped) and isinstance(swap, Transposed) and isinstance(join, Reshaped)):
            continue
        if swap.axes is None or swap.axes != _swapping(len(swap.axes)) or folded.get(one.layer.name) is not one:
            continue
        layer = as_one([one.layer, swap.layer, join.layer], -1)
        for gone in (one, swap):
            del layers[gone.layer.name], folded[gone.layer.name]
        dtype = network.tensor(one.inputs[0]).dtype or ""
        layers[layer.name], folded[layer.name] = layer, Shuffled(layer, one.inputs, join.y, dtype, one, swap, join)
    return replace(network, layers=tuple(layers.values())), folded


def _reader(network: Network, served: Mapping[str, Served], one: Moving) -> Served | None:
    layer = network.only_consumer(one.y)
    return None if layer is None else served.get(layer.name)
