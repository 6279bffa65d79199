"""Functions of one byte as tables of 256 entries.

Behind a quantized tensor, much is a function of one byte: a GELU of QLinear ops, or float functions between
DequantizeLinear and QuantizeLinear. Such a function becomes a table where its instructions cost more than a lookup:
BYTE where the entries are bytes, else WIDE. A table of a table is one table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qconv.arithmetic.parameter import ENTRIES
from qconv.dtypes import RANGES
from qconv.expression.function import FLOAT, FUNCTIONS, INT
from qconv.expression.index import Axis, Index
from qconv.expression.node import Call, Evaluation, Load, Lookup, Node, Number, call, in_order
from qconv.expression.problem import stored
from qconv.network.expressions.lazy import (
    Array,
    Byte,
    Element,
    Lazy,
    Place,
    axes_for,
    rewritten,
    tensor_of,
    with_arguments,
)
from qconv.network.layers.table import codes
from qconv.tensor_ops.problem import BYTES

# Instructions that a lookup costs. A warp reads 256 entries of one byte in 2 cycles, and of four bytes in 8.
BYTE, WIDE = 6, 24
NEVER = 2**31
_LAST = Number(ENTRIES - 1, INT)


@dataclass(frozen=True)
class Tensors:
    """The tensors in memory that an expression may read: the values of constants, and the types of others."""

    constant: Callable[[str], Array | None]
    type_of: Callable[[str], str | None]

    def is_number(self, node: Node) -> bool:
        """True for a single number of the network."""
        if not isinstance(node, Element) or node.guards:
            return isinstance(node, Number)
        array = self.constant(node.tensor)
        return array is not None and array.size == 1

    def is_entry(self, node: Node) -> bool:
        """True for an entry of a constant vector."""
        return isinstance(node, Place) and self.constant(node.tensor) is not None

    def byte_type(self, node: Node) -> str | None:
        """Return the type of a byte, or None for another node."""
        if isinstance(node, Byte):
            return node.stored
        if not isinstance(node, Element):
            return None
        array = self.constant(node.tensor)
        dtype = self.type_of(node.tensor) if array is None else str(array.dtype)
        return dtype if dtype in BYTES and all(_is_within(fill, dtype) for fill in node.arguments) else None


def _is_within(fill: Node, dtype: str) -> bool:
    return isinstance(fill, Number) and _fits(np.asarray(fill.value), dtype)


def _fits(values: Array, dtype: str) -> bool:
    low, high = RANGES[dtype]
    return bool(low <= values.min() and values.max() <= high)


def with_tables(lazy: Lazy, tensors: Tensors, add: Callable[[Array], str]) -> Lazy:
    """Return a tensor with tables in the place of functions of one byte. `add` makes a table a constant."""
    axes = axes_for(lazy.shape)
    root = _as_byte(lazy.at(tuple(map(Index.of, axes))), lazy.dtype)
    made = tabulated(root, tensors, add)
    if made is not root:
        return tensor_of(made, lazy.dtype, axes)
    return Lazy(lazy.shape, lazy.dtype, lambda indices: _as_byte(lazy.at(indices), lazy.dtype))


def _as_byte(node: Node, dtype: str) -> Node:
    """Return an element of a tensor, which is in the range of the tensor's type."""
    return node if dtype not in BYTES or isinstance(node, Byte | Element | Number) else Byte(node, dtype)


def tabulated(root: Node, tensors: Tensors, add: Callable[[Array], str]) -> Node:
    """Return the expression with tables; the same object where it has no function that costs more than a lookup."""
    functions = _Functions(root, tensors)
    chosen = functions.chosen
    if not chosen:
        return root
    made: dict[Node, Node] = {}
    same: dict[Node, Node] = {}  # equal nodes are one object, which is quick to compare

    def change(node: Node, arguments: tuple[Node, ...]) -> Node:
        if node in chosen:
            at = call("bit_and", made[functions.bytes_of[node]], _LAST)
            new: Node = Place(add(functions.table(node)), at, node.dtype)
        else:
            new = with_arguments(node, arguments)
        made[node] = same.setdefault(new, new)
        return made[node]

    return rewritten(root, change)


class _Functions:
    """The parts of an expression that depend on one byte, and what they cost."""

    def __init__(self, root: Node, tensors: Tensors) -> None:
        self._root, self._tensors = root, tensors
        self._nodes = in_order(root)
        self.bytes_of: dict[Node, Node] = {}  # the byte that a function is of; none where it is a number
        self._numbers: set[Node] = set()
        self._tables: dict[Node, Array] = {}
        for node in self._nodes:
            self._read(node)

    def _read(self, node: Node) -> None:
        known = all(each in self.bytes_of or each in self._numbers for each in node.arguments)
        read = {self.bytes_of[each] for each in node.arguments if each in self.bytes_of}
        if self._tensors.is_number(node):
            self._numbers.add(node)
        elif known and len(read) < 2 and (isinstance(node, Call | Byte) or self._tensors.is_entry(node)):
            if read:
                (self.bytes_of[node],) = read
            else:
                self._numbers.add(node)
        elif self._tensors.byte_type(node) is not None:
            self.bytes_of[node] = node

    @cached_property
    def chosen(self) -> Collection[Node]:
        """Return the functions that are to be tables, without those that only other ones read."""
        outer = self._outer
        work: dict[Node, frozenset[Node]] = {}  # the nodes that are computed for a function
        tables: dict[Node, int] = {}  # the cost of a lookup
        for node in self._nodes:
            if self.bytes_of.get(node, node) == node:
                continue
            own = () if isinstance(node, Byte) else (node,)
            work[node] = frozenset(own).union(*(work.get(each, ()) for each in node.arguments))
            cost = sum(tables.get(each) or self._cost(each) for each in work[node])
            is_end = isinstance(node, Byte) or node in outer
            if is_end and cost > BYTE and cost > (lookup := self._lookup_cost(node)):
                tables[node] = lookup
                work[node] = frozenset((node,))
        return self._reached(tables)

    @property
    def _outer(self) -> Collection[Node]:
        """Return the root, and the arguments of nodes that depend on more than one byte."""
        found = {self._root}
        for node in self._nodes:
            if node not in self.bytes_of or self.bytes_of[node] == node:
                found.update(node.arguments)
        return found

    def _reached(self, tables: Collection[Node]) -> Collection[Node]:
        found, seen, waiting = set[Node](), set[Node](), [self._root]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in tables:
                found.add(node)
                waiting.append(self.bytes_of[node])
            else:
                waiting.extend(node.arguments)
        return found

    def _cost(self, node: Node) -> int:
        """Return the instructions of one node, about."""
        if isinstance(node, Place):
            return self._lookup_cost(node)
        if not isinstance(node, Call) or (node.function == "bit_and" and _LAST in node.arguments):
            return 0
        return FUNCTIONS[node.function].instructions

    def _lookup_cost(self, node: Node) -> int:
        """Return what an entry costs that takes the place of a node."""
        if node.dtype not in (INT, FLOAT):
            return NEVER
        return BYTE if isinstance(node, Byte) or self.table(node).itemsize == 1 else WIDE

    def table(self, node: Node) -> Array:
        """Return the values of a function of a byte, in the order of `codes`."""
        if node not in self._tables:
            values = np.broadcast_to(self._values(node), (ENTRIES,))
            dtype = node.stored if isinstance(node, Byte) else node.dtype
            if dtype == INT:
                dtype = next((each for each in BYTES if _fits(values, each)), INT)
            self._tables[node] = stored(values, dtype)
        return self._tables[node]

    def _values(self, node: Node) -> Array:
        """Compute a function with the bits of the oracle."""
        byte, every = self.bytes_of[node], Axis("i0", ENTRIES)
        arrays = {"": codes(self._tensors.byte_type(byte) or "")}

        def operand(tensor: str) -> str:
            array = self._tensors.constant(tensor)
            assert array is not None, "a function of one byte reads constants"
            arrays[tensor] = array.reshape(-1)
            return tensor

        def change(each: Node, arguments: tuple[Node, ...]) -> Node:
            if each == byte:
                return Load("", Index.of(every), INT)
            if each not in self._numbers and self.bytes_of.get(each) != byte:
                return _LAST  # a part of the byte
            if isinstance(each, Element):
                return Load(operand(each.tensor), Index(), each.dtype)
            if isinstance(each, Place):
                return Lookup(operand(each.tensor), arguments[0], each.dtype)
            return arguments[0] if isinstance(each, Byte) else with_arguments(each, arguments)

        return Evaluation({every.name: np.arange(ENTRIES)}, arrays)(rewritten(node, change))
