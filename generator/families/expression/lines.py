"""Expressions as lines of C++: one statement each, which `functions.j2` and the prelude give their meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from qconv.arithmetic.narrow import NARROW_FLOATS
from qconv.dtypes import ELEMENT_TYPES, RANGES
from qconv.expression.function import BOOL, CTYPES, FLOAT, INT, LONG
from qconv.expression.index import Axis, Index
from qconv.expression.node import Call, Fold, Guard, Load, Lookup, Node, Number, Position, Statement, with_indices
from qconv.expression.problem import Expression, Operand
from qconv.generator.plan import Context, Field
from qconv.op import WIDEST

# Returns the C++ of the element that a load reads, or None for one that is loaded by itself.
Element = Callable[[Load], str | None]


@dataclass(frozen=True, kw_only=True)
class ExpressionContext(Context):
    vector_page: str = "families/conversion/vector.j2"


@dataclass(frozen=True)
class Chosen:
    """A node that a page computed before, for each element of a vector."""

    number: int
    dtype: str

    @property
    def arguments(self) -> tuple[Node, ...]:
        return ()

    def __str__(self) -> str:
        return f"chosen{self.number}"


def index_of(index: Index) -> str:
    """Return the index in C++, where tables are members of the arguments."""
    return str(index.renamed({name: f"args.{name}" for name in index.tables}))


def number(node: Number) -> str:
    """Return a number in C++."""
    if node.dtype == FLOAT:
        text = node.text
        if text.lstrip("-") in ("inf", "nan"):
            bits = {"inf": "0x7f800000u", "-inf": "0xff800000u", "nan": "0x7fc00000u"}[text]
            return f"tile::as_float({bits})"
        return f"{text}f"
    value, suffix = str(node.value).lower(), "ll" if node.dtype == LONG else ""
    if node.value == RANGES[LONG if node.dtype == LONG else INT][0]:  # its magnitude is no number of the type
        return f"({node.value + 1}{suffix} - 1)"
    return value + suffix


def guarded(guards: Iterable[Guard]) -> str:
    """Return the condition that all guards hold. A negative index is a large unsigned one."""
    conditions = []
    for guard in guards:
        conditions.append(f"static_cast<unsigned>({index_of(guard.index)}) < {guard.extent}u")
    return " && ".join(conditions)


def begins_vector(index: Index, axis: Axis, vector: int) -> bool:
    """True for an index that rises by one along an axis, and is a multiple of a vector where one begins."""
    rest = index - Index.of(axis)
    return axis in index.axes and axis not in rest.axes and (rest % vector) == Index()


def is_vector(load: Load, axis: Axis, vector: int) -> bool:
    """True where the loads of a vector of elements are one vector, inside or outside of all guards."""
    along = [guard for guard in load.guards if axis in guard.index.axes]
    return (
        vector > 1
        and begins_vector(load.at, axis, vector)
        and all(begins_vector(guard.index, axis, vector) and guard.extent % vector == 0 for guard in along)
    )


def address(load: Load) -> str:
    """Return the address of an element in C++."""
    index = index_of(load.at)
    if index == "0":
        return f"args.{load.operand}"
    return f"args.{load.operand} + {index if index.isidentifier() else f'({index})'}"


def loaded(load: Load, words: int = 0) -> str:
    """Return the vector of a load, or its `words`, which are read only where its guards hold."""
    vector = f"tile::load_words<{words}>({address(load)})" if words else f"load_vector({address(load)})"
    return f"{guarded(load.guards)} ? {vector} : {vector_type(load, words)}{{}}" if load.guards else vector


def vector_type(load: Load, words: int = 0) -> str:
    return f"tile::Words<{words}>" if words else f"Vector<{load.operand.upper()}>"


def first_of(axis: Axis) -> Axis:
    """Return the axis with the name of the index of a vector's first element."""
    return Axis(f"first_{axis.name}", axis.extent)


def with_axis(node: Node, axis: Axis, instead: Axis) -> Node:
    """Return a node with another axis in the place of one in its indices."""
    return with_indices(node, lambda index: index.substituted(lambda each: Index.of(instead if each == axis else each)))


def vector_loaded(load: Load, axis: Axis, number: int, words: int = 0) -> str:
    """Return the line that loads a vector along an axis, or its `words`, from the element `first_<axis>` on."""
    moved = with_axis(load, axis, first_of(axis))
    assert isinstance(moved, Load)
    return f"const {vector_type(load, words)} v{number} = {loaded(moved, words)};"


def widened(dtype: str, element: str) -> str:
    """Return an element in the type in which it is computed."""
    return NARROW_FLOATS[dtype].read.format(element) if dtype in NARROW_FLOATS else element


def stored(dtype: str, value: str) -> str:
    """Return a value as an element of the output. Devices make different NaN; one of them is stored."""
    if dtype in NARROW_FLOATS:
        narrow_float = NARROW_FLOATS[dtype]
        return f"{value} == {value} ? {narrow_float.round.format(value)} : static_cast<Output>({narrow_float.nan:#x})"
    if dtype == FLOAT:
        return f"{value} == {value} ? {value} : tile::as_float(0x7fc00000u)"
    return f"static_cast<Output>({value})"


@dataclass(frozen=True)
class Lines:
    """The lines of statements. `element` spells the loads that a page does itself."""

    problem: Expression
    element: Element = lambda load: None

    def of(self, statements: Sequence[Statement]) -> list[str]:
        names: dict[str, str] = {}  # numbers that are statements of their own
        return [f"const {CTYPES[one.node.dtype]} {one.name} = {self._right(one, names)};" for one in statements]

    def nested(self, node: Node) -> str:
        """Return a condition on positions as one expression."""
        if isinstance(node, Call):
            return f"scalar::{node.function}({', '.join(map(self.nested, node.arguments))})"
        assert isinstance(node, Number | Position), "a condition is one on positions"
        return number(node) if isinstance(node, Number) else index_of(node.at)

    def _right(self, one: Statement, names: Mapping[str, str]) -> str:
        node = one.node
        if isinstance(node, Number):
            return number(node)
        if isinstance(node, Position):
            return index_of(node.at)
        if isinstance(node, Chosen):
            return f"{node}[lane]"
        arguments = [
            number(each) if isinstance(each, Number) else name
            for each, name in zip(node.arguments, one.arguments, strict=True)
        ]
        if isinstance(node, Call):
            return f"scalar::{node.function}({', '.join(arguments)})"
        if isinstance(node, Fold):
            raise ValueError(f"{node.kind}_of is computed by its page, not by a line")
        if isinstance(node, Lookup):
            return widened(self.problem.named[node.operand].dtype, f"tile::load(args.{node.operand} + {arguments[0]})")
        assert isinstance(node, Load), "a line is that of a node of an expression"
        dtype = self.problem.named[node.operand].dtype
        element = self.element(node) or f"tile::load({address(node)})"
        return (
            f"{guarded(node.guards)} ? {widened(dtype, element)} : {arguments[0]}"
            if node.guards
            else widened(dtype, element)
        )


def fields_of(named: Mapping[str, Operand]) -> tuple[Field, ...]:
    """Return the members of the argument struct: the operands, then the output."""
    operands = (Field(name, f"const {name.upper()}*", name, one.text) for name, one in named.items())
    return (*operands, Field("y", "Output*", "y", "output"))


def aliases_of(named: Mapping[str, Operand], y_type: str) -> dict[str, str]:
    """Return the element types of the operands and of the output, by their names in C++. Bools are bytes: CUDA loads no
    bool through the read-only cache, and clang moves an array of bools from registers to AMD's shared memory."""
    types = {**{name.upper(): operand.dtype for name, operand in named.items()}, "Output": y_type}
    return {name: "uint8" if dtype == BOOL else dtype for name, dtype in types.items()}


def alignment_of(problem: Expression, vectors: Iterable[Load], vector: int) -> dict[str, int]:
    """Return the bytes to which arrays are aligned: those that the given loads read by vectors, and the output, to a
    vector of at most WIDEST bytes."""
    along = {"y", *(load.operand for load in vectors)}
    types = {**{name: operand.dtype for name, operand in problem.named.items()}, "y": problem.y_type}
    return {
        name: min(WIDEST, (vector if name in along else 1) * ELEMENT_TYPES[dtype].bytes)
        for name, dtype in types.items()
    }


def axes_of(axes: Sequence[Axis], of: str) -> list[str]:
    """Return the lines that split a number into the indices of axes, the fastest first."""
    lines, rest = [], of
    for at, axis in reversed(list(enumerate(axes))):
        if axis.extent > 1:
            value = f"{rest} % {axis.extent}" if at else rest
            lines.append(f"[[maybe_unused]] const int {axis.name} = {value};")
            rest = f"{rest} / {axis.extent}"
    return lines


def split(problem: Expression, *places: tuple[str, str]) -> list[str]:
    """Return the lines that split places into indices; each is a field of axes, and its number in C++."""
    return [line for field, of in places for line in axes_of(problem.axes_of(field), of)]
