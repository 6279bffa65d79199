"""Layers of constants alone, computed once, on the host, by the oracle of the kernel that would compute them; and
layers whose outputs have no elements.

ONNX Runtime leaves a QuantizeLinear of a constant in the graph, whose output may be the weights of a convolution."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from qconv.expression.map import Map, compute
from qconv.network.expressions.kernel import Held, kernel_of
from qconv.network.expressions.lazy import Array, Reader, stored
from qconv.network.expressions.readers import FOLDING, READERS
from qconv.network.graph.graph import Layer, Network, Tensor
from qconv.network.graph.served import Unserved
from qconv.op import Sample

# Elements of a constant that is computed here.
LARGEST = 2**24


def fold_constants(network: Network, without: Collection[str] = ()) -> Network:
    """Return the network with the outputs of such layers as constants. Ops that are left out stay layers, and so do
    floats that follow from them."""
    known, tensors, kept = dict(network.constants), dict(network.tensors), list[Layer]()
    left = set[str]()  # outputs of layers that stay
    for layer in network.layers:
        if empty := _empty(network, layer):
            known |= empty
            continue
        array = _computed(replace(network, constants=known, tensors=tensors), layer)
        if array is None:
            kept.append(layer)
            continue
        (y,) = layer.outputs
        known[y], tensors[y] = array, Tensor(y, str(array.dtype), array.shape)
        is_real = array.dtype.kind == "f" and not left.isdisjoint(layer.inputs)
        if layer.op in without or is_real:
            kept.append(layer)
            left.add(y)
    constants = {name: array for name, array in known.items() if name not in left}
    return replace(network, layers=tuple(kept), constants=constants, tensors=tensors)


def _empty(network: Network, layer: Layer) -> dict[str, Array]:
    """Return the outputs of a layer if none has an element: nothing computes them."""
    made = [network.tensor(name) for name in layer.outputs if name]
    if not all(each.extents is not None and 0 in each.extents and each.dtype not in (None, "object") for each in made):
        return {}
    return {each.name: np.zeros(each.extents or (), each.dtype) for each in made}


def _computed(network: Network, layer: Layer) -> Array | None:
    """Return the output of a layer that reads constants alone, or None for another one."""
    known = [network.constant(name) for name in layer.inputs if name]
    is_output = any(name in network.outputs for name in layer.outputs)
    if layer.op not in READERS or layer.op in FOLDING or len(layer.outputs) != 1 or is_output or not known:
        return None
    if layer.captured or any(array is None or not array.size for array in known):
        return None
    arrays = {name: network.constants[name] for name in layer.inputs if name}
    try:
        lazies = [stored(name, arrays[name].shape, str(arrays[name].dtype)) if name else None for name in layer.inputs]
        reader = Reader(layer, network, lazies)
        lazy = READERS[layer.op](reader)
        if not 0 < lazy.elements <= LARGEST:
            return None
        arrays |= reader.added
        held = {name: Held(array.shape, str(array.dtype), False, array) for name, array in arrays.items()}
        kernel = kernel_of(lazy, held.__getitem__, False)
    except (Unserved, ValueError, KeyError):
        return None
    assert isinstance(kernel.problem, Map), "a layer that folds nothing is a map"
    operands = tuple(np.concatenate([np.reshape(arrays[name], -1) for name in names]) for names in kernel.tensors)
    (y,) = compute(kernel.problem, Sample(operands))
    return y.reshape(lazy.shape)
