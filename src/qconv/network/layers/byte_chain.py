"""Chains of sums, products and tables that are one function of the bytes of a convolution, as a table of it.

A SiLU is a table and a product, a GELU several of each: where a convolution can look the result up itself, they need no
launch and no memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from qconv.arithmetic.parameter import ENTRIES
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import Array
from qconv.network.graph.served import Served
from qconv.network.layers.binary import QuantizedBinary
from qconv.network.layers.convolution import IntegerConvolution
from qconv.network.layers.folds import with_table
from qconv.network.layers.table import Tabulated, codes
from qconv.op import Sample
from qconv.tensor_ops import Add
from qconv.tensor_ops.binary import compute, turned
from qconv.tensor_ops.problem import BYTES


@dataclass(frozen=True)
class _Chain:
    """The layers of a function of the bytes of a convolution, and its values for `codes`."""

    convolution: IntegerConvolution
    layers: tuple[Layer, ...]
    values: Array


def fold_byte_chains(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Fold the longest chains behind convolutions that compute their tables."""
    for chain in reversed(_chains(network, served)):
        if any(served.get(layer.name) is None for layer in chain.layers):
            continue  # part of a longer one
        table = _table(network, chain)
        made = replace(
            network, layers=tuple(table.layer if one.name == table.layer.name else one for one in network.layers)
        ).without_unread()
        if with_table(made, chain.convolution, table) is not None:
            left = {layer.name for layer in made.layers}
            network = made
            served = {name: one for name, one in {**served, table.layer.name: table}.items() if name in left}
    return network, dict(served)


def _table(network: Network, chain: _Chain) -> Tabulated:
    last, x = chain.layers[-1], chain.convolution.y
    names = {layer.name for layer in chain.layers}
    layer = replace(last, inputs=(x,), parts=tuple(layer for layer in network.layers if layer.name in names))
    return Tabulated(layer, x, last.outputs[0], chain.convolution.out_type, chain.values)


def _chains(network: Network, served: Mapping[str, Served]) -> list[_Chain]:
    """Return the chains of several layers, in the order of their last ones."""
    found: dict[str, _Chain] = {}  # by the tensor that a chain makes
    for layer in network.layers:
        one = served.get(layer.name)
        if isinstance(one, IntegerConvolution) and one.out_type in BYTES:
            found[one.y] = _Chain(one, (), codes(one.out_type))
        elif isinstance(one, QuantizedBinary | Tabulated) and (chain := _extended(network, one, found)) is not None:
            found[one.y] = chain
    return [chain for chain in found.values() if len(chain.layers) > 1]


def _extended(network: Network, one: QuantizedBinary | Tabulated, found: Mapping[str, _Chain]) -> _Chain | None:
    """Return the chain that ends with a layer, or None where the layer needs anything but one byte."""
    read = [found[name] for name in one.inputs if name in found]
    if len(read) < len(one.inputs) or len({each.convolution.y for each in read}) != 1:
        return None
    if isinstance(one, Tabulated):
        values = one.table[read[0].values.view(np.uint8)]
    else:
        shape = _shape(network, read[0].convolution.y, one.kind is Add)
        numbers = [each for each in one.operands if not isinstance(each, str)]
        if not shape or any(each.size != 1 or each.ndim > len(shape) for each in numbers):
            return None
        values = _combined(one, shape, [found[each].values if isinstance(each, str) else each for each in one.operands])
    layers = {layer.name: layer for each in read for layer in each.layers}
    return _Chain(read[0].convolution, (*layers.values(), one.layer), values)


def _shape(network: Network, name: str, decides: bool) -> tuple[int, ...]:
    """Return a shape like that of a tensor: the extents of 1 decide the order of a sum. () stands for none, where an
    unknown extent could decide it."""
    shape = network.tensor(name).shape or ()
    is_known = None not in shape[1:] and (None not in shape or not set(shape[1:]) <= {1})
    return tuple(1 if extent == 1 else 2 for extent in shape) if is_known or not decides else ()


def _combined(one: QuantizedBinary, shape: tuple[int, ...], operands: list[Array]) -> Array:
    """Return a sum or a product of functions of every byte, or of one and a number, by the oracle of its kernel."""
    shapes = [shape if isinstance(each, str) else each.shape for each in one.operands]
    problem, is_turned, _ = one.problem(shapes)
    a, b = (np.broadcast_to(each.reshape(-1), ENTRIES) for each in (reversed(operands) if is_turned else operands))
    parameters = turned(one.parameters) if is_turned else dict(one.parameters)
    every = replace(problem, outer=1, repeat=1, inner=ENTRIES)
    (values,) = compute(every, Sample((a.reshape(1, 1, -1), b.reshape(1, -1)), parameters))
    return values.reshape(-1)
