"""TopK as layers of expressions: how many elements of its row are before each element, where in its row the element of
each number is, and the elements there. They compare every two elements of a row, which is quick for the few thousand
that detectors have, and needs no kernel of its own."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from qconv.expression.function import COMPUTED
from qconv.network.graph.graph import Layer, Network, Tensor
from qconv.op import LARGEST


def with_ranks(network: Network) -> Network:
    """Return the network with such layers in the place of every TopK of known shape whose number is a constant."""
    layers, tensors = list[Layer](), dict(network.tensors)
    for layer in network.layers:
        layers += _ranked(network, layer, tensors) or [layer] if layer.op == "TopK" else [layer]
    return replace(network, layers=tuple(layers), tensors=tensors)


def _ranked(network: Network, layer: Layer, tensors: dict[str, Tensor]) -> list[Layer] | None:
    """Return the layers that compute a TopK, and add their tensors; None where these kernels do not."""
    x = network.tensor(layer.inputs[0])
    given = network.constant(layer.inputs[1]) if len(layer.inputs) > 1 else layer.attributes.get("k")
    if x.extents is None or x.dtype not in COMPUTED or given is None:
        return None
    axis = int(layer.attributes.get("axis", -1)) % len(x.extents)
    row, k = x.extents[axis], int(given if isinstance(given, int) else given.reshape(-1)[0])
    if not 0 < k <= row or prod(x.extents) * row > LARGEST:
        return None
    ranks = f"{layer.name}/ranks"
    values, indices = layer.outputs
    tensors[ranks] = Tensor(ranks, "int32", x.extents)
    tensors[indices] = Tensor(indices, "int64", (*x.extents[:axis], k, *x.extents[axis + 1 :]))
    largest = layer.attributes.get("largest", 1)
    made = [
        Layer(f"{layer.name}:ranks", "TopKRanks", (x.name,), (ranks,), {"axis": axis, "largest": largest}),
        Layer(f"{layer.name}:indices", "TopKIndices", (ranks,), (indices,), {"axis": axis, "k": k}),
        Layer(f"{layer.name}:values", "GatherElements", (x.name, indices), (values,), {"axis": axis}),
    ]
    return [replace(each, parts=(layer,)) for each in made]
