"""An expression over the axes of a tensor as the problem of one kernel: a map, a reduction or a product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import prod
from typing import Any

from qconv.dtypes import ELEMENT_TYPES
from qconv.expression.attention import Attention
from qconv.expression.function import ROUNDED
from qconv.expression.index import Axis, Index, Quotient, Remainder, flat, joining
from qconv.expression.map import Map
from qconv.expression.matmul import MatMul
from qconv.expression.node import Call, Fold, Load, Lookup, Node, Position, in_order, indices_of, text_of
from qconv.expression.problem import Expression, Operand
from qconv.expression.reduce import Reduce
from qconv.network.expressions.lazy import (
    Byte,
    Element,
    Folding,
    Lazy,
    Place,
    Product,
    Shape,
    axes_for,
    indices_within,
    placed,
    rewritten,
    substituted,
    with_arguments,
)
from qconv.network.graph.value import last_of


class Inexpressible(ValueError):
    """The expression is not one kernel."""


@dataclass(frozen=True)
class Held:
    """A tensor in memory: its shape, its element type, and whether its channels are last. Constants have values."""

    shape: Shape
    dtype: str
    is_last: bool = False
    values: Any = None

    def offset(self, indices: Sequence[Index]) -> Index:
        order = last_of(range(len(self.shape))) if self.is_last else range(len(self.shape))
        total = Index()
        for axis in order:
            total = total * self.shape[axis] + indices[axis]
        return total

    def operand(self, is_table: bool) -> Operand:
        """Return the tensor as an operand, with its least and largest value if these are indices."""
        limits = (int(self.values.min()), int(self.values.max())) if is_table else (None, None)
        return Operand(self.dtype, max(prod(self.shape), 1), self.values is not None, *limits)


@dataclass(frozen=True)
class Kernel:
    """A problem, the tensors that it reads in the order of its operands, and whether its output has the channels
    last."""

    problem: Expression | Attention
    tensors: tuple[tuple[str, ...], ...]  # several where an operand consists of single numbers
    y_shape: Shape
    is_last: bool

    @property
    def only_copies(self) -> bool:
        """True where the output has the bytes of an operand in the same order."""
        problem = self.problem
        if not isinstance(problem, Map) or len(problem.operands) > 1 or not isinstance(problem.root, Load):
            return False
        (x,), same = problem.operands, flat(map(Index.of, problem.axes), problem.shape)
        is_whole = x.elements == problem.elements and not problem.root.guards and problem.root.at == same
        return is_whole and x.dtype == problem.y_type and len(self.tensors[0]) == 1


@dataclass(frozen=True)
class _Numbers:
    """The operand of all single numbers of a type."""

    dtype: str


@dataclass
class _Names:
    """The operands of a kernel, in the order of their first use."""

    held: Callable[[str], Held]
    names: dict[str | _Numbers, str] = field(default_factory=dict)
    numbers: dict[_Numbers, dict[str, int]] = field(default_factory=dict)  # the place of each
    tables: set[str] = field(default_factory=set)

    def __call__(self, tensor: str | _Numbers) -> str:
        return self.names.setdefault(tensor, f"x{len(self.names)}")

    def table(self, tensor: str) -> str:
        self.tables.add(tensor)
        return self(tensor)

    def place(self, tensor: str, dtype: str) -> tuple[str, Index]:
        """Return the operand that has all single numbers of a type, and the place of one."""
        numbers = _Numbers(dtype)
        places = self.numbers.setdefault(numbers, {})
        return self(numbers), Index((), places.setdefault(tensor, len(places)))

    @property
    def tensors(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(self.numbers[name]) if isinstance(name, _Numbers) else (name,) for name in self.names)

    @property
    def operands(self) -> tuple[Operand, ...]:
        return tuple(
            Operand(name.dtype, len(self.numbers[name]), True)
            if isinstance(name, _Numbers)
            else self.held(name).operand(name in self.tables)
            for name in self.names
        )


def kernel_of(lazy: Lazy, held: Callable[[str], Held], wants_last: bool) -> Kernel:
    """Return the kernel that makes a tensor. Raise Inexpressible where one kernel does not."""
    axes, root = _in_parts(lazy)
    folds = folds_of(root)
    orders, names = _orders(axes, wants_last), _Names(held)

    def kernel(problem: Expression, order: _Order) -> Kernel:
        return Kernel(problem, names.tensors, lazy.shape, order.is_last)

    if any(isinstance(fold, Product) for fold in folds):
        return kernel(_product(root, lazy.dtype, orders[0], names), orders[0])
    if not folds:
        return kernel(_map(root, lazy.dtype, orders[0], names), orders[0])
    reductions = [fold for fold in folds if isinstance(fold, Folding)]
    for order in orders:
        split = _split(reductions, order.axes)
        if split is not None:
            return kernel(_reduction(root, lazy.dtype, reductions, split, names), order)
    raise Inexpressible("the columns of its reductions are not the last axes of the output")


def folds_of(root: Node) -> list[Folding | Product]:
    return [node for node in in_order(root) if isinstance(node, Folding | Product)]


def check_one_kernel(lazy: Lazy) -> None:
    """Raise Inexpressible where one kernel does not make the tensor."""
    axes, root = _in_parts(lazy)
    folds = folds_of(root)
    reductions = [fold for fold in folds if isinstance(fold, Folding)]
    if len(reductions) < len(folds):
        if len(folds) > 1:
            raise Inexpressible("a kernel computes one product, and no reduction beside it")
    elif folds and not any(_split(reductions, order.axes) for order in _orders(axes, False)):
        raise Inexpressible("the columns of its reductions are not the last axes of the output")


def reads_last(lazy: Lazy, held: Callable[[str], Held]) -> bool | None:
    """Return whether a map with its channels last reads more neighbours than one in the model's order; None where they
    read equally many."""
    axes, root = _in_parts(lazy)
    read = {node for node in in_order(root) if isinstance(node, Element)}
    scattered = {order.is_last: _scattered_bytes(read, held, order.axes[-1:]) for order in _orders(axes, True)}
    model, last = scattered[False], scattered.get(True)
    return None if last in (None, model) else last < model


def _scattered_bytes(read: Set[Element], held: Callable[[str], Held], axes: Sequence[Axis]) -> int:
    """Return the bytes of the tensors of which neighbours along an axis are no neighbours in memory."""
    total = 0
    for node in read:
        one = held(node.tensor)
        at = one.offset(node.indices)
        for axis in axes:
            rest = at - Index.of(axis)
            if axis in at.axes and axis in rest.axes:
                total += prod(one.shape) * ELEMENT_TYPES[one.dtype].bytes
    return total


@dataclass(frozen=True)
class _Order:
    """An order of the axes in which the output may be stored, without those of one element."""

    axes: tuple[Axis, ...]
    is_last: bool


def _orders(axes: Sequence[Sequence[Axis]], wants_last: bool) -> list[_Order]:
    """Return the possible orders, the preferred one first. Each axis of the output is given in parts."""
    orders = [(list(axes), False)]
    if len(axes) > 2:
        orders.insert(1 - wants_last, ([axes[at] for at in last_of(range(len(axes)))], True))
    return [_Order(tuple(part for axis in order for part in axis if part.extent > 1), last) for order, last in orders]


def _in_parts(lazy: Lazy) -> tuple[list[list[Axis]], Node]:
    """Return the axes of the output and the expression. An axis that is read by its quotient and its remainder, such as
    that of channels in groups, becomes two."""
    parts = [[axis] for axis in axes_for(lazy.shape)]
    while True:
        root = lazy.at(tuple(flat(map(Index.of, each), (one.extent for one in each)) for each in parts))
        cuts = _cuts(root, {axis for each in parts for axis in each})
        if not cuts:
            return parts, root
        for each in parts:
            each[:] = [half for axis in each for half in _halves(axis, cuts)]


def cut_along(axes: Sequence[Axis], root: Node) -> tuple[tuple[Axis, ...], Node]:
    """Return the axes in the parts in which an expression reads them, and the expression of these."""
    found = tuple(axes)
    while cuts := _cuts(root, set(found)):
        halves = {axis: _halves(axis, cuts) for axis in found}
        places = {axis: flat(map(Index.of, each), (one.extent for one in each)) for axis, each in halves.items()}
        root = placed(root, places)
        found = tuple(half for axis in found for half in halves[axis])
    return found, root


def _cuts(root: Node, axes: Set[Axis]) -> dict[Axis, int]:
    """Return the axes that are divided into equal parts by themselves, with the extent of a part."""
    found = {}
    for node in in_order(root):
        for index in indices_within(node):
            for atom in index.atoms:
                if isinstance(atom, Quotient | Remainder) and (axis := _cut_axis(atom)) is not None and axis in axes:
                    found[axis] = atom.by
    return found


def _cut_axis(atom: Quotient | Remainder) -> Axis | None:
    """Return the axis that is divided by itself, or None where something else is."""
    terms = atom.of.terms
    if len(terms) != 1 or terms[0][1] != 1 or atom.of.constant:
        return None
    axis = terms[0][0]
    return axis if isinstance(axis, Axis) and axis.extent % atom.by == 0 else None


def _halves(axis: Axis, cuts: Mapping[Axis, int]) -> tuple[Axis, ...]:
    if axis not in cuts:
        return (axis,)
    return Axis(f"{axis.name}q", axis.extent // cuts[axis]), Axis(f"{axis.name}r", cuts[axis])


def _map(root: Node, dtype: str, order: _Order, names: _Names) -> Map:
    groups, made, _ = _merged([list(order.axes)], _lowered(root, names))
    (axes,), made = _renamed(groups, ["i"], made)
    return Map(names.operands, dtype, text_of(made), shape=tuple(axis.extent for axis in axes))


def _lowered(root: Node, names: _Names) -> Node:
    """Return the expression with loads in place of elements. An element that is read from a narrow float is not rounded
    to it again."""
    narrow: dict[Node, str] = {}  # loads, with the function that changes none of their values

    def change(node: Node, arguments: tuple[Node, ...]) -> Node:
        made = lowered(node, arguments)
        if isinstance(node, Element) and not node.guards:
            narrow[made] = ROUNDED.get(names.held(node.tensor).dtype, "")
        if isinstance(made, Call) and narrow.get(made.arguments[0]) == made.function:
            return made.arguments[0]
        return made

    def lowered(node: Node, arguments: tuple[Node, ...]) -> Node:
        if isinstance(node, Position):
            return Position(_with_tables(node.at, names))
        if isinstance(node, Place):
            assert not names.held(node.tensor).is_last, "places are counted in the model's order of axes"
            return Lookup(names(node.tensor), arguments[0], node.dtype)
        if isinstance(node, Byte):
            return arguments[0]
        if not isinstance(node, Element):
            return with_arguments(node, arguments)
        one = names.held(node.tensor)
        guards = tuple(
            guard.moved(lambda index: _with_tables(index, names)) for guard in node.guards if guard.is_needed
        )
        fill = arguments[0] if guards else None
        if one.values is not None and one.values.size == 1:
            operand, place = names.place(node.tensor, one.dtype)
            return Load(operand, place, node.dtype, guards, fill)
        return Load(names(node.tensor), _with_tables(one.offset(node.indices), names), node.dtype, guards, fill)

    return rewritten(root, change)


def _with_tables(index: Index, names: _Names) -> Index:
    # In an order that another process has as well: keys name the operands.
    return index.renamed({table: names.table(table) for table in sorted(index.tables)}) if index.tables else index


def _merged(
    groups: list[list[Axis]], root: Node, order: Sequence[Axis] = ()
) -> tuple[list[list[Axis]], Node, list[Axis]]:
    """Merge neighbouring axes of a group, the slower first, which every index uses like one axis. Axes of `order` are
    merged only where they are neighbours there as well; return the order of the merged ones."""
    order = list(order)
    for group in groups:
        at = len(group) - 2
        while at >= 0:
            outer, inner = group[at], group[at + 1]
            places = [order.index(axis) if axis in order else -1 for axis in (outer, inner)]
            are_beside = places == [-1, -1] or (places[0] >= 0 and places[1] == places[0] + 1)
            if are_beside and all(_is_as_one(index, outer, inner) for index in _indices(root)):
                joined = Axis(f"{outer.name}_{inner.name}", outer.extent * inner.extent)
                group[at : at + 2] = [joined]
                if places[0] >= 0:
                    order[places[0] : places[0] + 2] = [joined]
                root = substituted(root, joining(outer, inner, joined))
            at -= 1
    return groups, root, order


def _indices(root: Node) -> list[Index]:
    return [index for node in in_order(root) for index in indices_of(node)]


def _is_as_one(index: Index, outer: Axis, inner: Axis) -> bool:
    steps = {atom: times for atom, times in index.terms if isinstance(atom, Axis)}
    inside = {axis for atom, _ in index.terms if not isinstance(atom, Axis) for axis in Index(((atom, 1),)).axes}
    return not inside & {outer, inner} and steps.get(outer, 0) == inner.extent * steps.get(inner, 0)


def _renamed(groups: list[list[Axis]], letters: Sequence[str], root: Node) -> tuple[list[list[Axis]], Node]:
    """Name the axes of each group by its letter and their numbers."""
    named: dict[Axis, Axis] = {}
    made = []
    for group, letter in zip(groups, letters, strict=True):
        made.append([Axis(f"{letter}{at}", axis.extent) for at, axis in enumerate(group)])
        named |= dict(zip(group, made[-1], strict=True))
    return made, substituted(root, lambda axis: Index.of(named[axis]))


@dataclass(frozen=True)
class _Split:
    """The axes of a reduction: rows, columns, and the axes of the output that are columns."""

    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    outputs: tuple[Axis, ...]


def _split(folds: Sequence[Folding], order: Sequence[Axis]) -> _Split | None:
    """Return which axes of the output are rows, or None where this order of them makes no reduction."""
    if len({tuple(axis.extent for axis in fold.columns) for fold in folds}) > 1:
        return None
    columns = tuple(axis for axis in folds[0].columns if axis.extent > 1)
    own = {axis for fold in folds for axis in fold.columns}
    if any(not own.isdisjoint(_free(fold)) for fold in folds):  # a fold of folds, each of other elements
        return None
    used = {
        axis for fold in folds for node in in_order(fold.of) for index in indices_within(node) for axis in index.axes
    }
    rows = [axis for axis in order if axis in used - own]
    rest = [axis for axis in order if axis not in rows]
    if not rest:
        return _Split(tuple(rows), columns, ())
    if list(order) != [*rows, *rest] or [axis.extent for axis in rest] != [axis.extent for axis in columns]:
        return None
    return _Split(tuple(rows), columns, tuple(rest))


def _free(root: Node) -> frozenset[Axis]:
    """Return the axes on which a value depends, without the columns of its folds."""
    free: dict[Node, frozenset[Axis]] = {}
    for node in in_order(root):
        axes = (axis for index in indices_within(node) for axis in index.axes)
        found = frozenset(axes).union(*(free[each] for each in node.arguments))
        free[node] = found.difference(node.columns) if isinstance(node, Folding) else found
    return free[root]


def _reduction(root: Node, dtype: str, folds: Sequence[Folding], split: _Split, names: _Names) -> Reduce:
    first = folds[0].columns
    same = {axis: one for fold in folds for axis, one in zip(fold.columns, first, strict=True)}
    same |= dict(zip(split.outputs, split.columns, strict=True)) if split.outputs else {}

    def folded(node: Node, arguments: tuple[Node, ...]) -> Node:
        return Fold(node.kind, arguments[0]) if isinstance(node, Folding) else with_arguments(node, arguments)

    made = substituted(rewritten(_lowered(root, names), folded), lambda axis: Index.of(same.get(axis, axis)))
    columns = list(split.columns) or [Axis(first[0].name if first else "c", 1)]
    groups, made, _ = _merged([list(split.rows), columns], made)
    (rows, columns), made = _renamed(groups, ["r", "c"], made)
    return Reduce(
        names.operands,
        dtype,
        text_of(made),
        rows=tuple(axis.extent for axis in rows),
        columns=tuple(axis.extent for axis in columns),
    )


def _product(root: Node, dtype: str, order: _Order, names: _Names) -> MatMul:
    made = _lowered(root, names)
    (inner,) = [node for node in in_order(made) if isinstance(node, Product)]
    sums = [axis for axis in inner.sums if axis.extent > 1]
    in_a, in_b = _axes(inner.a), _axes(inner.b)
    rest = list(order.axes)
    batch = [axis for axis in rest if axis in in_a and axis in in_b]
    n = [axis for axis in rest if axis in in_b and axis not in in_a]
    m = [axis for axis in rest if axis not in batch and axis not in n]

    def folded(node: Node, arguments: tuple[Node, ...]) -> Node:
        if isinstance(node, Product):
            return Fold("sum", Call("multiply", arguments))
        return with_arguments(node, arguments)

    made = rewritten(made, folded)
    groups, made, rest = _merged([batch, m, n, sums], made, rest)
    named, made = _renamed(groups, ["b", "m", "n", "k"], made)
    new = {old: axis for group, axes in zip(groups, named, strict=True) for old, axis in zip(group, axes, strict=True)}
    extents = {
        key: tuple(axis.extent for axis in axes) for key, axes in zip(("batch", "m", "n", "k"), named, strict=True)
    }
    return MatMul(names.operands, dtype, text_of(made), order=",".join(new[axis].name for axis in rest), **extents)


def _axes(root: Node) -> set[Axis]:
    return {axis for index in _indices(root) for axis in index.axes}
