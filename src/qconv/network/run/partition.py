"""The partition of a network into segments: as few as possible, each of one kind, in an order in which they can run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from qconv.network.graph.graph import Layer, Network


@dataclass(frozen=True)
class Segment:
    """Layers that all run on kernels (`served`) or all elsewhere. `inputs` come from other segments or the caller;
    `outputs` are read by other segments or are the network's. Constants are neither."""

    layers: tuple[Layer, ...]
    served: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def partition(network: Network, served: Collection[str]) -> tuple[Segment, ...]:
    """Partition a network. `served` has the names of the layers that run on kernels.

    A layer's level is the largest number of changes between the two kinds on any path to it. Layers of one kind and one
    level cannot depend on each other through a layer of the other kind, so they form one segment."""
    levels: dict[str, int] = {}
    groups: dict[tuple[int, bool], list[Layer]] = {}
    for layer in network.layers:
        here = layer.name in served
        level = 0
        for name in layer.reads:
            if name in levels:
                other = network.producers[name].name in served
                level = max(level, levels[name] + (other != here))
        levels |= {name: level for name in layer.outputs if name}
        groups.setdefault((level, here), []).append(layer)
    return tuple(_segment(network, groups[key], key[1]) for key in sorted(groups))


def _segment(network: Network, layers: list[Layer], served: bool) -> Segment:
    made = {name: None for layer in layers for name in layer.outputs if name}
    names = {layer.name for layer in layers}
    given = (name for layer in layers for name in layer.reads if name not in made)
    inputs = dict.fromkeys(name for name in given if name not in network.constants)

    def leaves(name: str) -> bool:
        readers = network.consumers.get(name, ())
        return name in network.outputs or any(reader.name not in names for reader in readers)

    return Segment(tuple(layers), served, tuple(inputs), tuple(filter(leaves, made)))
