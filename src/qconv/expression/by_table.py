"""Functions of one byte and of few indices, as two maps: one makes a table with an entry for each byte and each of the
indices, the other looks its elements up.

Such is what follows a convolution between a normalization and the next convolution: each channel of an image has
numbers of its own, and a pixel has a byte.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from qconv.arithmetic.parameter import ENTRIES
from qconv.dtypes import ELEMENT_TYPES
from qconv.expression.function import FUNCTIONS, INT
from qconv.expression.index import Axis, Index, flat
from qconv.expression.map import Map
from qconv.expression.node import (
    Call,
    Load,
    Lookup,
    Node,
    Number,
    Position,
    call,
    in_order,
    indices_of,
    replaced,
    text_of,
    with_indices,
)
from qconv.expression.problem import Operand

# A lookup takes an L1 cache as long as a multiprocessor takes for this many instructions. A warp's bytes are of several
# channels.
LOOKUP = 24
# Instructions of all threads of a large GPU in the time of another launch.
LAUNCH = 2**26
# Elements for each entry, so that a table is read from caches.
LEAST_SHARED = 16


@dataclass(frozen=True)
class ByTable:
    """A map as two. `lookup` reads the operand numbered `byte` of the map, and the table; `table` those of `others`."""

    table: Map
    lookup: Map
    byte: int
    others: tuple[int, ...]

    @property
    def is_constant(self) -> bool:
        """True where the table is the same in every run."""
        return self.lookup.operands[1].is_constant


def by_table(problem: Map) -> ByTable | None:
    """Return a map as two, or None where that takes longer or cannot be."""
    byte = _byte_of(problem)
    if byte is None:
        return None
    beside = _axes_beside(problem, byte)
    axes = tuple(axis for axis in problem.axes if axis in beside)
    entries = ENTRIES * prod(axis.extent for axis in axes)
    cost = sum(FUNCTIONS[node.function].instructions for node in in_order(problem.root) if isinstance(node, Call))
    names = _operands_beside(problem, byte)
    is_constant = all(problem.named[name].is_constant for name in names)
    to_make = 0 if is_constant else entries * cost + LAUNCH
    if entries * LEAST_SHARED > problem.elements or problem.elements * (cost - LOOKUP) <= to_make:
        return None
    named = list(problem.named)
    return ByTable(
        _table(problem, byte, axes, names),
        _lookup(problem, byte, axes, Operand(problem.y_type, entries, is_constant)),
        named.index(byte.operand),
        tuple(map(named.index, names)),
    )


def _byte_of(problem: Map) -> Load | None:
    """Return the only element that every axis leads to, where it is a byte that changes from run to run."""
    loads = [node for node in in_order(problem.root) if isinstance(node, Load) and _reads_all(problem, node)]
    if len(loads) != 1 or not _is_byte(problem.y_type):
        return None
    (load,) = loads
    operand = problem.named[load.operand]
    is_one = _is_byte(operand.dtype) and not operand.is_constant and not load.guards and not load.at.tables
    return load if is_one and len(_axes_beside(problem, load)) < len(problem.axes) else None


def _reads_all(problem: Map, load: Load) -> bool:
    axes = {axis for axis in problem.axes if axis.extent > 1}
    return load.at.axes >= axes


def _is_byte(dtype: str) -> bool:
    return ELEMENT_TYPES[dtype].bytes == 1 and ELEMENT_TYPES[dtype].limits is not None


def _axes_beside(problem: Map, byte: Load) -> frozenset[Axis]:
    """Return the axes that an expression depends on besides its byte."""
    nodes = (node for node in in_order(problem.root) if node != byte)
    return frozenset().union(*(index.axes for node in nodes for index in indices_of(node)))


def _operands_beside(problem: Map, byte: Load) -> list[str]:
    """Return the names of the operands that the table is made from, in order."""
    nodes = [node for node in in_order(problem.root) if node != byte]
    read = {node.operand for node in nodes if isinstance(node, Load | Lookup)}
    read |= {table for node in nodes for index in indices_of(node) for table in index.tables}
    return [name for name in problem.named if name in read]


def _table(problem: Map, byte: Load, axes: tuple[Axis, ...], names: list[str]) -> Map:
    """Return the map that makes an entry for each index along the axes and each byte."""
    new = {axis: Axis(f"i{at}", axis.extent) for at, axis in enumerate(axes)}
    renamed = {name: f"x{at}" for at, name in enumerate(names)}
    every = Index.of(Axis(f"i{len(axes)}", ENTRIES))
    value: Node = Position(every)
    if problem.named[byte.operand].dtype == "int8":
        value = call("wrap_int8", value)

    def moved(index: Index) -> Index:
        return index.substituted(lambda axis: Index.of(new.get(axis, axis))).renamed(renamed)

    def change(node: Node) -> Node | None:
        if node == byte:
            return value
        node = with_indices(node, moved)
        return replace(node, operand=renamed[node.operand]) if isinstance(node, Load | Lookup) else node

    root = replaced(problem.root, change)
    operands = tuple(problem.named[name] for name in names)
    return Map(operands, problem.y_type, text_of(root), shape=(*(axis.extent for axis in axes), ENTRIES))


def _lookup(problem: Map, byte: Load, axes: tuple[Axis, ...], table: Operand) -> Map:
    first = flat(map(Index.of, axes), [axis.extent for axis in axes]) * ENTRIES
    at = call("bit_and", replace(byte, operand="x0"), Number(ENTRIES - 1, INT))
    place = call("add", Position(first), at) if axes else at
    root = Lookup("x1", place, INT)
    return Map((problem.named[byte.operand], table), problem.y_type, text_of(root), shape=problem.shape)
