"""Float layers between DequantizeLinear and QuantizeLinear that become one integer layer each, though ONNX Runtime has
none for them. It rounds floats: the two differ by at most one step of the output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.served import Served
from qconv.network.layers.between import Between
from qconv.network.layers.means import mean_between
from qconv.network.layers.transposed import transposed_between

# Returns the layer and both conversions as one. Raises ValueError where no kernel computes them.
READERS: Mapping[str, Callable[[Between], Served]] = {
    "ConvTranspose": transposed_between,
    "GlobalAveragePool": mean_between,
    "ReduceMean": mean_between,
}


def fold_integers(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Fold each of them. Floats that other layers read as well are computed for these."""
    folded: dict[str, Served] = dict(served)
    instead: dict[str, Layer] = {}
    for layer in network.layers:
        made = network.producers.get(layer.inputs[0]) if layer.op == "QuantizeLinear" else None
        if made is None or made.op not in READERS:
            continue
        try:
            folded[layer.name] = one = READERS[made.op](Between(network, made, layer))
        except ValueError:
            continue
        instead[layer.name] = one.layer
    layers = tuple(instead.get(layer.name, layer) for layer in network.layers)
    return replace(network, layers=layers).without_unread(), folded
