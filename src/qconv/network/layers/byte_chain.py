"""Chains of sums, products and tables that are one function of the bytes of a tensor, as a table.

A SiLU is a table and a product, a GELU several of each. As one table it reads its input once, and the convolution or
the expression that makes the input can look it up itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from qconv.arithmetic.parameter import ENTRIES
from qconv.network.graph.graph import Network
from qconv.network.graph.reading import Array
from qconv.network.graph.served import Served
from qconv.network.layers.binary import QuantizedBinary
from qconv.network.layers.table import Tabulated, codes
from qconv.op import Sample
from qconv.tensor_ops import Add
from qconv.tensor_ops.binary import compute, turned
from qconv.tensor_ops.problem import BYTES


@dataclass(frozen=True)
class _Chain:
    """A function of a tensor's bytes: the names of its layers, in order, and its values for `codes`."""

    layers: tuple[str, ...]
    values: Array


def fold_byte_chains(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Fold the longest chains of several layers. What other layers read of the middle of one is the end of a chain."""
    read = (one.inputs for one in served.values() if isinstance(one, QuantizedBinary | Tabulated))
    for x in dict.fromkeys(name for names in read for name in names):
        chain = _longest(network, served, x)
        if chain is None:
            continue
        table = _table(network, x, chain)
        layers = (table.layer if layer.name == table.layer.name else layer for layer in network.layers)
        network = replace(network, layers=tuple(layers)).without_unread()
        left = {layer.name for layer in network.layers}
        served = {name: one for name, one in {**served, table.layer.name: table}.items() if name in left}
    return network, dict(served)


def _table(network: Network, x: str, chain: _Chain) -> Tabulated:
    parts = {layer.name: layer for layer in network.layers if layer.name in chain.layers}
    last = parts[chain.layers[-1]]
    is_exact = all(part.is_exact for part in parts.values())
    layer = replace(last, inputs=(x,), parts=tuple(parts.values()), is_exact=is_exact)
    return Tabulated(layer, x, last.outputs[0], network.tensor(x).dtype or "", chain.values)


def _longest(network: Network, served: Mapping[str, Served], x: str) -> _Chain | None:
    dtype = network.tensor(x).dtype
    if dtype not in BYTES:
        return None
    found = {x: _Chain((), codes(dtype))}  # by the tensor that a chain makes
    for layer in network.layers:
        one = served.get(layer.name)
        if isinstance(one, QuantizedBinary | Tabulated) and all(name in found for name in one.inputs):
            values = _values(network, x, one, found)
            if values is not None:
                parts = dict.fromkeys(part for name in one.inputs for part in found[name].layers)
                found[one.y] = _Chain((*parts, layer.name), values)
    closed = (chain for chain in reversed(found.values()) if len(chain.layers) > 1 and _is_closed(network, chain))
    return next(closed, None)


def _is_closed(network: Network, chain: _Chain) -> bool:
    """True where nothing but the chain reads what is within it."""
    within = (layer for layer in network.layers if layer.name in chain.layers[:-1])
    return all(
        name not in network.outputs and all(one.name in chain.layers for one in network.consumers.get(name, ()))
        for layer in within
        for name in layer.outputs
    )


def _values(network: Network, x: str, one: QuantizedBinary | Tabulated, found: Mapping[str, _Chain]) -> Array | None:
    """Return the values of a layer that reads chains, or None where it needs more than one byte."""
    if isinstance(one, Tabulated):
        return one.table[found[one.x].values.view(np.uint8)]
    shape = _shape(network, x, one.kind is Add)
    numbers = [each for each in one.operands if not isinstance(each, str)]
    if not shape or any(each.size != 1 or each.ndim > len(shape) for each in numbers):
        return None
    return _combined(one, shape, [found[each].values if isinstance(each, str) else each for each in one.operands])


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
