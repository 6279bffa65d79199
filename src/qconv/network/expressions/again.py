"""Bytes that products of matrices would compute again: a product computes a factor once for every tile of the other
one. What costs more than another launch is stored, and computed once."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from qconv.expression.by_table import LAUNCH
from qconv.expression.function import FUNCTIONS
from qconv.expression.node import Call, Node, in_order
from qconv.network.expressions.lazy import has_fold
from qconv.network.expressions.readers import FOLDING
from qconv.network.expressions.readers.products import FACTORS
from qconv.network.graph.graph import Layer, Network
from qconv.tensor_ops.problem import BYTES

# Rows or columns of a product's tile, about.
TILE = 64


def is_worth_a_launch(network: Network, name: str, root: Node, is_expressed: Callable[[Layer], bool]) -> bool:
    """True where products compute a tensor of bytes so often that it should be stored. `root` is an element of it, and
    `is_expressed` is true for layers that are to be expressions."""
    tensor = network.tensor(name)
    if tensor.dtype not in BYTES or tensor.extents is None or name in network.outputs or has_fold(root):
        return False
    cost = sum(FUNCTIONS[node.function].instructions for node in in_order(root) if isinstance(node, Call))
    return cost * (_computed(network, name, is_expressed) - prod(tensor.extents)) > LAUNCH


def _computed(network: Network, name: str, is_expressed: Callable[[Layer], bool]) -> int:
    """Return how many elements products compute of a tensor, from which layers between them compute elements. Each of
    the tensors between is counted once, however many ways lead to it."""
    total, seen, waiting = 0, {name}, [name]
    while waiting:
        tensor = waiting.pop()
        for reader in filter(is_expressed, network.consumers.get(tensor, ())):
            factors = [reader.inputs[at] for at in FACTORS.get(reader.op, ())]
            if tensor in factors:
                total += factors.count(tensor) * _terms(network, reader, tensor)
            elif reader.op not in FOLDING:
                made = [each for each in reader.outputs if each and each not in seen]
                seen.update(made)
                waiting += made
    return total


def _terms(network: Network, product: Layer, name: str) -> int:
    """Return how many elements of a factor the tiles of a product compute."""
    left, factor, y = (network.tensor(each).extents for each in (product.inputs[0], name, product.outputs[0]))
    if not left or not factor or not y:
        return 0
    elements = prod(factor)
    across = prod(y) * left[-1] // elements  # rows or columns that each element is multiplied for
    return elements * -(-across // TILE)
