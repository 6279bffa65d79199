"""Layers that no kernel computes, as parts of a shipped network that the program which runs it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qconv.device.traced import TracedDevice
from qconv.errors import Unshippable
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.value import Value
from qconv.network.run.runner import Call
from qconv.network.ship.program import Port
from qconv.op import Array


@dataclass(frozen=True)
class Part:
    """Layers as a file of the folder, which a runtime of the front end reads, and the arrays that it takes and
    makes."""

    file: str
    content: bytes
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True)
class OpenedPart:
    """A part that is ready to run, on arrays of the host in the order of its inputs."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    run: Callable[[Sequence[Array]], Sequence[Array]]


# Returns layers as parts, in order, from the constants that they read, the tensors that are read of them, and the forms
# of the arrays that they are given.
PartsOf = Callable[[Sequence[Layer], Mapping[str, Any], Sequence[str], Sequence[Port]], Sequence[Part]]


def calls_on(device: TracedDevice, network: Network, parts_of: PartsOf) -> Call:
    """Return what notes layers that run elsewhere as calls."""

    def call(
        layers: Sequence[Layer], constants: Mapping[str, Any], outputs: Sequence[str], values: Mapping[str, Value]
    ) -> dict[str, Value]:
        _check_shapes(network, outputs)
        held = dict(values)
        given = [Port(name, value.dtype, value.shape) for name, value in values.items()]
        for part in parts_of(layers, constants, outputs, given):
            _check_shapes(network, [port.name for port in part.outputs])
            arrays = [device.contiguous(held[port.name].on_device) for port in part.inputs]
            made = {port.name: device.empty(port.shape, port.dtype) for port in part.outputs}
            device.call(part.file, part.content, arrays, list(made.values()))
            held |= {name: Value(device, there=array) for name, array in made.items()}
        return {name: held[name] for name in outputs}

    return call


def _check_shapes(network: Network, names: Sequence[str]) -> None:
    """Refuse tensors of layers that run elsewhere whose shapes the inputs' values decide, or that are no arrays."""
    for name in names:
        tensor, layer = network.tensor(name), network.producers.get(name)
        of = "" if layer is None else f" of {_named(layer)}, which runs elsewhere,"
        if tensor.extents is None:
            first = None if layer is None else _first_unknown(network, layer)
            cut = "the layer that makes it" if first is None else _named(first)
            after = "it" if first is layer else cut
            raise Unshippable(
                f"the shape of {name!r}{of} is known only when {after} has run, and a folder has arrays of known "
                f"sizes: open the model itself in a session, or build one that ends in front of {cut}"
            )
        if tensor.dtype in (None, "object"):
            is_unknown = "is not known" if tensor.dtype is None else "is no type of numbers"
            raise Unshippable(f"the type of {name!r}{of} {is_unknown}: open the model itself in a session")


def _first_unknown(network: Network, layer: Layer) -> Layer:
    """Return the first layer, on a path to this one, that makes a tensor of unknown shape from those of known ones."""
    for name in layer.reads:
        producer = network.producers.get(name)
        if producer is not None and name not in network.constants and network.tensor(name).extents is None:
            return _first_unknown(network, producer)
    return layer


def _named(layer: Layer) -> str:
    return f"{layer.op} ({layer.name})"
