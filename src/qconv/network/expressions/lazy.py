"""A tensor that is not computed yet, as a function of an index.

A layer's reader takes such tensors and returns one: elementwise functions join the nodes of their inputs, movement
changes the index. An `Element` is of a tensor that is in memory between two kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.dtypes import FLOAT8, why_not_fnuz
from qconv.expression.function import BOOL, COMPUTED, FLOAT, INT, LONG, ROUNDED
from qconv.expression.index import Axis, Index
from qconv.expression.node import Call, Guard, Node, Number, call, in_order, indices_of, with_indices
from qconv.expression.node import with_arguments as of_lowered
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.served import Unserved

Array = NDArray[Any]
Shape = tuple[int, ...]
Indices = tuple[Index, ...]


@dataclass(frozen=True)
class Element:
    """An element of a tensor in memory, whose order of axes is decided later; where a guard does not hold, `fill`."""

    tensor: str
    indices: Indices
    dtype: str  # in which it is computed
    guards: tuple[Guard, ...] = ()
    fill: Node | None = None

    @cached_property
    def _hash(self) -> int:
        return hash((self.tensor, self.indices, self.guards, self.fill))

    def __hash__(self) -> int:
        return self._hash

    @property
    def arguments(self) -> tuple[Node, ...]:
        return () if self.fill is None else (self.fill,)


@dataclass(frozen=True)
class Place:
    """An element of a tensor in memory whose place, counted in the model's order of axes, is a value, clamped to the
    tensor."""

    tensor: str
    at: Node
    dtype: str  # in which it is computed

    @cached_property
    def _hash(self) -> int:
        return hash((self.tensor, self.at))

    def __hash__(self) -> int:
        return self._hash

    @property
    def arguments(self) -> tuple[Node, ...]:
        return (self.at,)


@dataclass(frozen=True)
class Byte:
    """A value that is in the range of int8 or of uint8. It says so, and computes nothing."""

    of: Node
    stored: str

    @cached_property
    def _hash(self) -> int:
        return hash((self.of, self.stored))

    def __hash__(self) -> int:
        return self._hash

    @property
    def arguments(self) -> tuple[Node, ...]:
        return (self.of,)

    @property
    def dtype(self) -> str:
        return INT


@dataclass(frozen=True)
class Folding:
    """A fold of an expression over axes of its own."""

    kind: str
    of: Node
    columns: tuple[Axis, ...]

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.of, self.columns))

    def __hash__(self) -> int:
        return self._hash

    @property
    def arguments(self) -> tuple[Node, ...]:
        return (self.of,)

    @property
    def dtype(self) -> str:
        return INT if self.kind in ("argmax", "argmin") else self.of.dtype


@dataclass(frozen=True)
class Product:
    """A sum of products over axes of its own, as `matmul` computes it."""

    a: Node
    b: Node
    sums: tuple[Axis, ...]

    @property
    def arguments(self) -> tuple[Node, ...]:
        return (self.a, self.b)

    @property
    def dtype(self) -> str:
        return self.a.dtype


@dataclass(frozen=True)
class Lazy:
    """A tensor with a shape and an element type. `at` returns the node of an element."""

    shape: Shape
    dtype: str
    at: Callable[[Indices], Node]

    @property
    def computed(self) -> str:
        """Return the type in which its elements are computed."""
        return COMPUTED[self.dtype]

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def expanded(self, shape: Shape) -> Callable[[Indices], Node]:
        """Return the elements of the tensor, broadcast to a shape."""
        missing = len(shape) - len(self.shape)

        def at(indices: Indices) -> Node:
            own = indices[missing:]
            return self.at(tuple(Index() if size == 1 else one for one, size in zip(own, self.shape, strict=True)))

        return at


@dataclass
class Reader:
    """The input of a reader: the layer, its inputs, and the constants of the network. None stands for an
    input that is not given."""

    layer: Layer
    network: Network
    inputs: Sequence[Lazy | None]
    added: dict[str, Array] = field(default_factory=dict)  # constants that readers make, by new names

    def x(self, number: int = 0) -> Lazy:
        found = self.inputs[number] if number < len(self.inputs) else None
        if found is None:
            raise Unserved(f"its input {number} is not given")
        return found

    def of(self, name: str) -> Lazy:
        """Return the input of this name."""
        return self.x(self.layer.inputs.index(name))

    def has(self, number: int) -> bool:
        return number < len(self.inputs) and self.inputs[number] is not None

    def placed(self, number: int = 0) -> Callable[[Node], Node]:
        """Return the elements of an input by their places. It is in memory: READ_BY_PLACE names it. A place outside of
        the tensor is that of its first or last element."""
        x, name = self.x(number), self.layer.inputs[number]
        last = Number(x.elements - 1, INT)

        def at(place: Node) -> Node:
            return Place(name, call("minimum", call("maximum", place, Number(0, INT)), last), x.computed)

        return at

    def constant(self, number: int, what: str) -> Array:
        """Return the value of an input that has to be known."""
        array = self.optional(number)
        if array is None:
            raise Unserved(f"the kernels need a constant {what}")
        return array

    def optional(self, number: int) -> Array | None:
        """Return the value of an input, or None if it is computed or not given."""
        name = self.layer.inputs[number] if number < len(self.layer.inputs) else ""
        return self.network.constant(name) if name else None

    def attribute(self, name: str, default: Any = None) -> Any:
        given = self.layer.attributes.get(name, default)
        return given.decode() if isinstance(given, bytes) else given

    def integers(self, name: str, number: int) -> tuple[int, ...] | None:
        """Return integers that are an attribute in some versions and an input in others; None if they are not given."""
        given = self.layer.attributes.get(name)
        if given is None and self.has(number):
            given = self.constant(number, name)
        return None if given is None else tuple(int(each) for each in np.reshape(given, -1))

    def add(self, array: Array) -> str:
        """Add a constant, and return its name."""
        name = f"{self.layer.name}/{len(self.added)}"
        self.added[name] = array
        return name

    def table(self, values: Array, at: Index) -> Index:
        """Return an entry of a table of indices."""
        values = np.asarray(values, np.int32).reshape(-1)
        if values.size == 1:
            return Index((), int(values[0]))
        entry = Index.entry("", at, values)
        return Index.entry(self.add(values), at, values) if entry.tables else entry

    def element(self, array: Array, at: Index) -> Node:
        """Return an element of a new constant vector."""
        array = np.ascontiguousarray(array).reshape(-1)
        if array.size == 1:
            at = Index()
        return Element(self.add(array), (at,), COMPUTED[str(array.dtype)])

    def entries(self, values: Array) -> Callable[[Index], Index]:
        """Add a table of indices, and return its entries. An index outside of the table has the entry of another."""
        values = np.asarray(values, np.int32).reshape(-1)
        size = values.size
        name = self.add(values) if Index.entry("", Index.of(Axis("", size)), values).tables else ""

        def at(index: Index) -> Index:
            is_inside = not name or (index.low >= 0 and index.high < size)
            return Index.entry(name, index if is_inside else index % size, values)

        return at

    def vector(self, array: Array) -> Callable[[Index], Node]:
        """Add a constant vector, and return its elements."""
        array = np.ascontiguousarray(array).reshape(-1)
        is_one = bool((array == array[0]).all())
        name, dtype = self.add(array[:1] if is_one else array), COMPUTED[str(array.dtype)]
        return lambda index: Element(name, (Index() if is_one else index,), dtype)

    @property
    def y_dtype(self) -> str:
        """Return the element type of the first output."""
        dtype = self.network.tensor(self.layer.outputs[0]).dtype
        if dtype not in COMPUTED:
            raise Unserved(f"its output is {dtype}; the kernels make {', '.join(COMPUTED)}{why_not_fnuz(dtype)}")
        return dtype


def check_saturates(reader: Reader) -> None:
    """Raise Unserved where an 8-bit float is to overflow."""
    if reader.y_dtype in FLOAT8 and not int(reader.attribute("saturate", 1)):
        raise Unserved("saturate=0; the kernels round what is beyond an 8-bit float to its largest number")


def stored(name: str, shape: Shape, dtype: str) -> Lazy:
    """Return a tensor in memory."""
    computed = COMPUTED[dtype]
    return Lazy(shape, dtype, lambda indices: Element(name, indices, computed))


def indices_within(node: Node) -> list[Index]:
    """Return the indices of a node before or after it is lowered."""
    if isinstance(node, Element):
        return [*node.indices, *(guard.index for guard in node.guards)]
    return list(indices_of(node))


def rewritten(root: Node, change: Callable[[Node, tuple[Node, ...]], Node]) -> Node:
    made: dict[Node, Node] = {}
    for node in in_order(root):
        made[node] = change(node, tuple(made[each] for each in node.arguments))
    return made[root]


def with_arguments(node: Node, arguments: tuple[Node, ...]) -> Node:
    """Return a node, before or after it is lowered, with other arguments."""
    if isinstance(node, Folding):
        return Folding(node.kind, arguments[0], node.columns)
    if isinstance(node, Product):
        return Product(arguments[0], arguments[1], node.sums)
    if isinstance(node, Element) and arguments:
        return Element(node.tensor, node.indices, node.dtype, node.guards, arguments[0])
    if isinstance(node, Place):
        return Place(node.tensor, arguments[0], node.dtype)
    if isinstance(node, Byte):
        return Byte(arguments[0], node.stored)
    return of_lowered(node, arguments)


def substituted(root: Node, replaced: Callable[[Axis], Index]) -> Node:
    """Return an expression, before or after it is lowered, with other indices in the place of its axes."""

    def moved(index: Index) -> Index:
        return index.substituted(replaced)

    def change(node: Node, arguments: tuple[Node, ...]) -> Node:
        if not isinstance(node, Element):
            return with_indices(with_arguments(node, arguments), moved)
        guards = tuple(guard.moved(moved) for guard in node.guards)
        return Element(node.tensor, tuple(map(moved, node.indices)), node.dtype, guards, *arguments)

    return rewritten(root, change)


def placed(root: Node, places: Mapping[Axis, Index]) -> Node:
    """Return an expression with indices in the place of some of its axes."""
    return substituted(root, lambda axis: places.get(axis, Index.of(axis)))


def broadcast(*given: Lazy) -> Shape:
    """Return the common shape."""
    try:
        return tuple(np.broadcast_shapes(*(one.shape for one in given)))
    except ValueError:
        shapes = ", ".join(str(one.shape) for one in given)
        raise Unserved(f"tensors of the shapes {shapes} have no common shape") from None


def converted(node: Node, dtype: str) -> Node:
    """Return a value in the type in which elements of a tensor type are computed, with that type's range and
    precision."""
    target = COMPUTED[dtype]
    if node.dtype != target:
        node = call({FLOAT: "to_float32", INT: "to_int32", LONG: "to_int64", BOOL: "to_bool"}[target], node)
    return narrowed(node, dtype)


def narrowed(node: Node, dtype: str) -> Node:
    """Return a value rounded or wrapped to a narrower type than it was computed in."""
    if dtype in ROUNDED:
        return call(ROUNDED[dtype], node)
    if dtype in ("int8", "uint8", "int16", "uint16"):
        return call(f"wrap_{dtype}", node)
    return node


def number(value: float, dtype: str) -> Number:
    """Return a number in the type in which a tensor type is computed."""
    computed = COMPUTED[dtype]
    return Number(float(value) if computed == FLOAT else bool(value) if computed == BOOL else int(value), computed)


def clamped(node: Node, low: float, high: float, dtype: str) -> Node:
    return call("minimum", call("maximum", node, number(low, dtype)), number(high, dtype))


def has_fold(root: Node) -> bool:
    return any(isinstance(node, Folding | Product) for node in in_order(root))


def has_product(root: Node) -> bool:
    return any(isinstance(node, Product) for node in in_order(root))


def cost_of(root: Node) -> tuple[int, int]:
    """Return the number of elements read, without single numbers, and of functions."""
    nodes = in_order(root)
    read = sum(isinstance(node, Element) and any(index.axes for index in node.indices) for node in nodes)
    return read, sum(isinstance(node, Call) for node in nodes)


def root_of(lazy: Lazy) -> Node:
    """Return the expression of an element, over the axes of the tensor."""
    return lazy.at(tuple(map(Index.of, axes_for(lazy.shape))))


def axes_for(shape: Shape) -> tuple[Axis, ...]:
    """Return the axes over which a kernel that makes this shape loops."""
    return tuple(Axis(f"o{at}", extent) for at, extent in enumerate(shape))


def tensor_of(root: Node, dtype: str, axes: tuple[Axis, ...]) -> Lazy:
    """Return an expression as a tensor of its axes."""

    def at(indices: Indices) -> Node:
        return placed(root, dict(zip(axes, indices, strict=True)))

    return Lazy(tuple(axis.extent for axis in axes), dtype, at)
