"""Expressions: nodes that compute one element from elements of operands, and their text.

The text is a list of statements, `t0 = x0[i0 * 8 + i1]; t1 = add(t0, 1.0)`, which `parsed` reads again, and of which
every right-hand side is nearly C++.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isinf, isnan
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from qconv.dtypes import RANGES
from qconv.expression.function import BOOL, COMPUTED, FLOAT, FUNCTIONS, INT, LONG
from qconv.expression.index import Axis, Entry, Index
from qconv.op import quoted

Array = NDArray[Any]


class Node(Protocol):
    """A value of one element. Besides the nodes of this module there are those of networks, before they are lowered."""

    @property
    def dtype(self) -> str: ...

    @property
    def arguments(self) -> tuple[Node, ...]: ...


@dataclass(frozen=True, eq=False)
class Number:
    """A number that the source contains. Numbers that differ from layer to layer are loaded instead. Numbers are equal
    where their texts are: NaN equals itself, and zeros of two signs differ."""

    value: float | int | bool
    dtype: str = FLOAT

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and (self.text, self.dtype) == (other.text, other.dtype)

    def __hash__(self) -> int:
        return hash((self.text, self.dtype))

    @cached_property
    def text(self) -> str:
        if self.dtype == FLOAT:
            with np.errstate(over="ignore"):
                value = float(np.float32(self.value))
            return "nan" if isnan(value) else ("inf" if value > 0 else "-inf") if isinf(value) else repr(value)
        return (
            f"long({int(self.value)})"
            if self.dtype == LONG
            else str(bool(self.value) if self.dtype == BOOL else self.value)
        )

    @property
    def arguments(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class Guard:
    """The condition that an index is one of an axis of this extent."""

    index: Index
    extent: int

    @property
    def is_needed(self) -> bool:
        return not (self.index.low >= 0 and self.index.high < self.extent)

    def moved(self, to: Callable[[Index], Index]) -> Guard:
        return Guard(to(self.index), self.extent)


@dataclass(frozen=True)
class Load:
    """An element of an operand; where a guard does not hold, the element of `fill`."""

    operand: str
    at: Index
    dtype: str  # in which it is computed
    guards: tuple[Guard, ...] = ()
    fill: Node | None = None

    @property
    def arguments(self) -> tuple[Node, ...]:
        return () if self.fill is None else (self.fill,)


@dataclass(frozen=True)
class Lookup:
    """An element of an operand whose place is a value. The value is clamped, so that it is a place of the operand."""

    operand: str
    at: Node
    dtype: str  # in which it is computed

    @cached_property
    def _hash(self) -> int:
        return hash((self.operand, self.at))

    def __hash__(self) -> int:
        return self._hash

    @property
    def arguments(self) -> tuple[Node, ...]:
        return (self.at,)

    @property
    def most(self) -> int | None:
        """Return the largest place, or None where the value is not clamped."""
        return most_of(self.at)


@dataclass(frozen=True)
class Position:
    """The value of an index, as an int32."""

    at: Index
    dtype: str = INT

    @property
    def arguments(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class Call:
    """A function of other nodes."""

    function: str
    arguments: tuple[Node, ...]

    @cached_property
    def dtype(self) -> str:
        function = FUNCTIONS[self.function]
        return function.result or self.arguments[-1].dtype

    @cached_property
    def _hash(self) -> int:
        return hash((self.function, self.arguments))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Fold:
    """A number per row: all elements of the row, combined. `kind` is one of FOLDS."""

    kind: str
    of: Node

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.of))

    def __hash__(self) -> int:
        return self._hash

    @property
    def arguments(self) -> tuple[Node, ...]:
        return (self.of,)

    @property
    def dtype(self) -> str:
        return INT if self.kind in POSITIONS else self.of.dtype


# Forms that are written like functions.
FORMS = {
    "looked_up": "looked_up(x0,t1): an element and its place, a value such as bit_and(t0,255)",
    "position": "position(i0*8+i1)",
    "long": "long(2), of an integer",
    "guarded": "guarded(x0[i0-1],0.0,i0-1,8): an element, what takes its place, then each index and its extent",
}
MOST_STATEMENTS = 4096
# The last two are the first column of the largest and of the least element.
POSITIONS = ("argmax", "argmin")
FOLDS = ("sum", "product", "maximum", "minimum", *POSITIONS)


def call(function: str, *arguments: Node) -> Node:
    """Return a call, checked."""
    entry = FUNCTIONS.get(function)
    if entry is None:
        raise ValueError(f"an expression has no function {quoted(function)}; it has {', '.join(FUNCTIONS)}")
    if len(arguments) != entry.arity:
        raise ValueError(f"{function} takes {entry.arity} arguments; {len(arguments)} were given")
    typed = arguments[1:] if function == "select" else arguments
    dtypes = {argument.dtype for argument in typed}
    if len(dtypes) > 1 or not dtypes <= set(entry.takes) or (function == "select" and arguments[0].dtype != BOOL):
        given = ", ".join(argument.dtype for argument in arguments)
        raise ValueError(
            f"{function}({given}): its arguments are of one type, which is one of {', '.join(entry.takes)}"
        )
    return Call(function, arguments)


def most_of(place: Node) -> int | None:
    """Return the largest value of an integer that is known to lie between 0 and a bound: minimum(maximum(x, 0), N),
    bit_and(x, N), the value of an index, and sums of such."""
    if isinstance(place, Position):
        return place.at.high if place.at.low >= 0 else None
    if isinstance(place, Call) and place.function == "add" and place.dtype == INT:
        bounds = [most_of(each) for each in place.arguments]
        return None if None in bounds else sum(bound or 0 for bound in bounds)
    if not isinstance(place, Call) or place.dtype != INT or not isinstance(place.arguments[-1], Number):
        return None
    most = int(place.arguments[-1].value)
    if place.function == "bit_and" and most >= 0:
        return most
    inner = place.arguments[0]
    is_clamped = isinstance(inner, Call) and inner.function == "maximum" and inner.arguments[-1] == Number(0, INT)
    return most if place.function == "minimum" and is_clamped and most >= 0 else None


def in_order(*roots: Node) -> tuple[Node, ...]:
    """Return every node once, after its arguments."""
    found: dict[Node, None] = {}
    seen: set[int] = set()  # objects: the hash of a node would be computed recursively before those of its arguments
    waiting = list(reversed(roots))
    while waiting:
        node = waiting[-1]
        missing = [argument for argument in node.arguments if id(argument) not in seen]
        if missing:
            waiting.extend(reversed(missing))
        else:
            waiting.pop()
            seen.add(id(node))
            found.setdefault(node)
    return tuple(found)


def replaced(root: Node, change: Callable[[Node], Node | None]) -> Node:
    """Return the expression with what `change` returns for each node, whose arguments are changed already; None leaves
    the node."""
    made: dict[Node, Node] = {}
    same: dict[Node, Node] = {}  # equal nodes are one object
    for node in in_order(root):
        new = with_arguments(node, tuple(made[each] for each in node.arguments))
        new = change(new) or new
        made[node] = same.setdefault(new, new)
    return made[root]


def with_arguments(node: Node, arguments: tuple[Node, ...]) -> Node:
    """Return a node with other arguments."""
    if isinstance(node, Call):
        return Call(node.function, arguments)
    if isinstance(node, Fold):
        return Fold(node.kind, *arguments)
    if isinstance(node, Lookup):
        return Lookup(node.operand, arguments[0], node.dtype)
    if isinstance(node, Load) and arguments:
        return Load(node.operand, node.at, node.dtype, node.guards, *arguments)
    return node


def with_indices(node: Node, moved: Callable[[Index], Index]) -> Node:
    """Return a node with other indices."""
    if isinstance(node, Position):
        return Position(moved(node.at))
    if isinstance(node, Load):
        guards = tuple(guard.moved(moved) for guard in node.guards)
        return Load(node.operand, moved(node.at), node.dtype, guards, node.fill)
    return node


def indices_of(node: Node) -> Iterator[Index]:
    """Yield the indices that the node itself reads or computes."""
    if isinstance(node, Load):
        yield node.at
        yield from (guard.index for guard in node.guards)
    elif isinstance(node, Position):
        yield node.at


@dataclass(frozen=True)
class Statement:
    """A node with the names of its arguments."""

    name: str
    node: Node
    arguments: tuple[str, ...]

    @property
    def text(self) -> str:
        node = self.node
        if isinstance(node, Number):
            return node.text
        if isinstance(node, Position):
            return f"position({node.at})"
        if isinstance(node, Lookup):
            return f"looked_up({node.operand}, {self.arguments[0]})"
        if isinstance(node, Load):
            element = f"{node.operand}[{node.at}]"
            if not node.guards:
                return element
            guards = ", ".join(f"{guard.index}, {guard.extent}" for guard in node.guards)
            return f"guarded({element}, {self.arguments[0]}, {guards})"
        assert isinstance(node, Call | Fold), "a statement is a node of an expression"
        name = node.function if isinstance(node, Call) else node.kind + "_of"
        return f"{name}({', '.join(self.arguments)})"


def statements(*roots: Node) -> tuple[Statement, ...]:
    """Return the nodes as statements. Numbers stand in the calls that take them."""
    names: dict[Node, str] = {}
    made: list[Statement] = []
    for node in in_order(*roots):
        if isinstance(node, Number) and node not in roots:
            names[node] = node.text
            continue
        names[node] = f"t{len(made)}"
        made.append(Statement(names[node], node, tuple(names[each] for each in node.arguments)))
    return tuple(made)


def text_of(root: Node) -> str:
    return ";".join(f"{each.name}={each.text}".replace(" ", "") for each in statements(root))


def parsed(
    text: str, axes: Mapping[str, Axis], operands: Mapping[str, str], ranges: Mapping[str, tuple[int, int]]
) -> Node:
    """Return the expression of a text. `operands` have element types, `ranges` the least and the largest value of the
    operands that are tables."""
    return _Parser(axes, operands, ranges).root(text)


class _Parser:
    """Reads statements with Python's own parser: the text of an expression is Python as well."""

    def __init__(
        self, axes: Mapping[str, Axis], operands: Mapping[str, str], ranges: Mapping[str, tuple[int, int]]
    ) -> None:
        self._axes, self._operands, self._ranges = axes, operands, ranges
        self._named: dict[str, Node] = {}
        self._made: dict[Node, Node] = {}  # equal nodes are one object, so that comparing two compares no arguments

    def root(self, text: str) -> Node:
        try:
            lines = ast.parse(text.strip().rstrip(";")).body
        except (SyntaxError, ValueError, MemoryError) as error:
            raise ValueError(f"the expression {quoted(text)} cannot be read: {error}") from None
        if len(lines) > MOST_STATEMENTS:
            raise ValueError(f"the expression has {len(lines)} statements; at most {MOST_STATEMENTS} are supported")
        last: Node | None = None
        for line in lines:
            if not isinstance(line, ast.Assign) or len(line.targets) != 1 or not isinstance(line.targets[0], ast.Name):
                raise self._wrong(line, "a statement is name=expression")
            last = self._named[line.targets[0].id] = self._node(line.value)
        if last is None:
            raise ValueError(f"the expression {quoted(text)} is empty")
        return last

    def _wrong(self, tree: ast.AST, says: str) -> ValueError:
        return ValueError(f"{quoted(ast.unparse(tree))} in an expression: {says}")

    def _node(self, tree: ast.expr) -> Node:
        if isinstance(tree, ast.Name) and tree.id in self._named:
            return self._named[tree.id]
        if isinstance(tree, ast.Subscript):
            made: Node = self._load(tree)
        elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords:
            made = self._call(tree.func.id, tree)
        else:
            made = self._number(tree)
        return self._made.setdefault(made, made)

    def _number(self, tree: ast.expr, integer: str = INT) -> Number:
        """Read a number; one without a point is of the type `integer`."""
        given, sign = tree, 1
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
            sign, tree = -1, tree.operand
        if isinstance(tree, ast.Name) and tree.id in ("inf", "nan"):
            return Number(sign * float(tree.id))
        if isinstance(tree, ast.Constant) and isinstance(tree.value, bool | int | float):
            value = sign * tree.value
            if isinstance(tree.value, float):
                return Number(value)
            if isinstance(tree.value, bool) and sign > 0:
                return Number(tree.value, BOOL)
            low, high = RANGES[integer]
            if low <= value <= high and not isinstance(tree.value, bool):
                return Number(value, integer)
            raise self._wrong(given, f"a number of {integer} is between {low} and {high}")
        raise self._wrong(given, "it is no number, element or function of them")

    def _lookup(self, operand: ast.expr, place: ast.expr) -> Lookup:
        if not isinstance(operand, ast.Name) or operand.id not in self._operands:
            raise self._wrong(operand, f"the operands are {', '.join(self._operands)}")
        made = Lookup(operand.id, self._node(place), COMPUTED[self._operands[operand.id]])
        if made.most is None:
            clamped = "minimum(maximum(t0,0),255) or bit_and(t0,255)"
            raise self._wrong(place, f"a place is clamped, as in {clamped}, or a sum of such and of positions")
        return made

    def _load(self, tree: ast.Subscript) -> Load:
        if not isinstance(tree.value, ast.Name) or tree.value.id not in self._operands:
            raise self._wrong(tree, f"its operands are {', '.join(self._operands)}")
        return Load(tree.value.id, self._index(tree.slice), COMPUTED[self._operands[tree.value.id]])

    def _call(self, name: str, tree: ast.Call) -> Node:
        given = tree.args
        if name == "looked_up" and len(given) == 2:
            return self._lookup(given[0], given[1])
        if name == "position" and len(given) == 1:
            return Position(self._index(given[0]))
        if name == "long" and len(given) == 1 and (number := self._number(given[0], LONG)).dtype == LONG:
            return number
        if name == "guarded" and len(given) >= 4 and len(given) % 2 == 0 and isinstance(given[0], ast.Subscript):
            load, fill = self._load(given[0]), self._node(given[1])
            if fill.dtype != load.dtype:
                raise self._wrong(tree, f"its element is {load.dtype}, and {fill.dtype} takes its place: convert it")
            guards = tuple(self._guard(*pair) for pair in zip(given[2::2], given[3::2], strict=True))
            return Load(load.operand, load.at, load.dtype, guards, fill)
        if name in FORMS:
            raise self._wrong(tree, f"it is written {FORMS[name]}")
        kind = name.removesuffix("_of")
        if kind != name and kind in FOLDS and len(given) == 1:
            return Fold(kind, self._node(given[0]))
        return call(name, *map(self._node, given))

    def _guard(self, at: ast.expr, extent: ast.expr) -> Guard:
        given = self._number(extent)
        if given.dtype != INT or given.value < 1:
            raise self._wrong(extent, "the extent of a guard is a positive integer")
        return Guard(self._index(at), int(given.value))

    def _index(self, tree: ast.expr) -> Index:
        if isinstance(tree, ast.Name) and tree.id in self._axes:
            return Index.of(self._axes[tree.id])
        if isinstance(tree, ast.Constant) and type(tree.value) is int:
            return Index((), tree.value)
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
            return self._index(tree.operand) * -1
        if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name) and tree.value.id in self._ranges:
            name = tree.value.id
            return Index(((Entry(name, self._index(tree.slice), *self._ranges[name]), 1),))
        if not isinstance(tree, ast.BinOp):
            raise self._wrong(tree, f"it is no index; the axes are {', '.join(self._axes)}")
        one, other = self._index(tree.left), self._index(tree.right)
        if isinstance(tree.op, ast.Add):
            return one + other
        if isinstance(tree.op, ast.Sub):
            return one - other
        if isinstance(tree.op, ast.Mult) and other.terms and not one.terms:
            one, other = other, one
        if other.terms or other.constant < 1:
            raise self._wrong(tree, "an index is multiplied and divided by positive numbers")
        if isinstance(tree.op, ast.Mult):
            return one * other.constant
        if isinstance(tree.op, ast.Div) and one.low >= 0:
            return one // other.constant
        if isinstance(tree.op, ast.Mod) and one.low >= 0:
            return one % other.constant
        raise self._wrong(tree, "an index is made by +, -, *, / and %, and no dividend is negative")


class Evaluation:
    """Evaluates nodes with NumPy, for all elements at once. `fold` combines the elements of a row."""

    def __init__(
        self,
        axes: Mapping[str, Array],
        operands: Mapping[str, Array],
        fold: Callable[[str, Array], Array] | None = None,
    ) -> None:
        self._axes, self._operands, self._fold = axes, operands, fold

    def __call__(self, root: Node) -> Array:
        values: dict[Node, Array] = {}
        with np.errstate(all="ignore"):
            for node in in_order(root):
                values[node] = self._value(node, [values[each] for each in node.arguments])
        return values[root]

    def _value(self, node: Node, arguments: Sequence[Array]) -> Array:
        if isinstance(node, Number):
            return np.asarray(node.value, node.dtype)
        if isinstance(node, Position):
            return self._index(node.at).astype(np.int32)
        if isinstance(node, Load):
            return self._loaded(node, arguments)
        if isinstance(node, Lookup):
            return self._operands[node.operand][arguments[0]].astype(node.dtype)
        if isinstance(node, Fold):
            assert self._fold is not None, "a fold is a node of a reduction"
            return self._fold(node.kind, arguments[0])
        assert isinstance(node, Call), "a value is that of a node of an expression"
        return np.asarray(FUNCTIONS[node.function].numpy(*arguments)).astype(node.dtype, copy=False)

    def _index(self, index: Index) -> Array:
        return index.evaluated(self._axes, self._operands)

    def _loaded(self, load: Load, arguments: Sequence[Array]) -> Array:
        at = self._index(load.at)
        if not load.guards:
            return self._operands[load.operand][at].astype(load.dtype)
        inside = np.asarray(True)
        for guard in load.guards:
            index = self._index(guard.index)
            inside = inside & (index >= 0) & (index < guard.extent)
        at, inside = np.broadcast_arrays(at, inside)
        element = self._operands[load.operand][np.where(inside, at, 0)].astype(load.dtype)
        return np.where(inside, element, arguments[0])
