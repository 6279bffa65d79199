"""The base class of problems that an expression describes: axes, operands, the expression, and the output's type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from qconv.arithmetic.narrow import narrow
from qconv.dtypes import ELEMENT_TYPES, FLOAT8
from qconv.expression.bounds import bounds
from qconv.expression.function import BOOL, COMPUTED, FLOAT, INT, LONG
from qconv.expression.index import Axis, Index
from qconv.expression.node import Evaluation, Fold, Guard, Load, Lookup, Node, in_order, indices_of, parsed, text_of
from qconv.op import (
    FULL,
    INT_MAX,
    LARGEST,
    WIDEST,
    Array,
    Option,
    Problem,
    Sample,
    Tensor,
    alignment,
    check_choice,
    checked_size,
    quoted,
    read_integer,
    read_key,
)

MOST_OPERANDS = 32
# Element types that a store makes from each type of a value.
STORED = {
    FLOAT: ("float32", "float16", "bfloat16", *FLOAT8),
    INT: ("int32", "int8", "uint8", "int16", "uint16"),
    LONG: ("int64",),
    BOOL: ("bool",),
}


@dataclass(frozen=True)
class Operand:
    """A contiguous array that an expression reads. A constant one stays the same from call to call; only such an
    operand may be a table, whose values, between `low` and `high`, are indices."""

    dtype: str
    elements: int
    is_constant: bool = False
    low: int | None = None
    high: int | None = None

    def __post_init__(self) -> None:
        check_choice("the type of an operand", self.dtype, tuple(COMPUTED))
        checked_size("elements", self.elements, 1)
        if (self.low is None) != (self.high is None) or (self.low is not None and not self._is_table):
            raise ValueError(
                f"{self.text}: a table is int32 and constant, with its least and largest value: int32*8!0..7"
            )

    @property
    def _is_table(self) -> bool:
        least, most = self.low or 0, self.high or 0
        return self.dtype == INT and self.is_constant and -LARGEST <= least <= most <= LARGEST

    @property
    def text(self) -> str:
        values = "" if self.low is None else f"{self.low}..{self.high}"
        return f"{self.dtype}*{self.elements}{'!' * self.is_constant}{values}"

    @classmethod
    def of(cls, text: str) -> Self:
        dtype, _, rest = text.partition("*")
        elements, is_constant, values = rest.partition("!")
        low, _, high = values.partition("..")
        limits = (read_integer("low", low), read_integer("high", high)) if values else (None, None)
        return cls(dtype, read_integer("elements", elements), bool(is_constant), *limits)


@dataclass(frozen=True, eq=False)
class Expression(Problem):
    """A problem of an expression. Subclasses have their axes as tuples of extents, in the fields of `axis_names`."""

    operands: tuple[Operand, ...]
    y_type: str
    do: str
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    # The first letter of each axis' name, by the field with the extents.
    axis_names: ClassVar[Mapping[str, str]] = {}
    # Other fields, which are texts, and stand in the key unless they are empty.
    texts: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self.axis_names:
            given = getattr(self, name)
            object.__setattr__(self, name, tuple(checked_size(name, extent, 1) for extent in given))
        if self.elements > LARGEST:
            raise ValueError(f"the axes have {self.elements} elements; at most {LARGEST} are supported: split them")
        checked_size("operands", len(self.operands), 0, MOST_OPERANDS)
        check_choice("y_type", self.y_type, tuple(COMPUTED))
        try:
            object.__setattr__(self, "do", text_of(self.root))  # canonical
            self._check_root()
        except RecursionError:
            raise ValueError(f"do={quoted(self.do)} is too deep: give its parts names, as in t0=x0[i0]") from None
        axes = (f"{name}={','.join(map(str, getattr(self, name)))}" for name in self.axis_names if getattr(self, name))
        operands = [f"in={','.join(operand.text for operand in self.operands)}"] if self.operands else []
        texts = (f"{name}={getattr(self, name)}" for name in self.texts if getattr(self, name))
        self._name(":".join([self.op, *axes, *operands, f"out={self.y_type}", *texts, f"do={self.do}"]))

    def _check_root(self) -> None:
        if self.y_type not in STORED[self.root.dtype]:
            stored = " or ".join(STORED[self.root.dtype])
            raise ValueError(f"out={self.y_type}: the expression makes {self.root.dtype}, which is stored as {stored}")
        for node in in_order(self.root):
            for index in indices_of(node):
                if index.largest > INT_MAX:
                    raise ValueError(
                        f"the index {quoted(str(index))} has numbers up to {index.largest}, beyond an int32"
                    )
                for entry in index.entries:
                    self._check_range(entry.table, entry.at, ())
            if isinstance(node, Load):
                self._check_range(node.operand, node.at, node.guards)
            if isinstance(node, Lookup):
                elements = self.named[node.operand].elements
                if node.most is None or node.most >= elements:
                    raise ValueError(
                        f"a place in {node.operand} is at most {node.most}: clamp it to the operand's last element"
                    )

    def _check_range(self, name: str, at: Index, guards: Sequence[Guard]) -> None:
        """Raise ValueError unless every element that is read exists."""
        elements = self.named[name].elements
        if at.low >= 0 and at.high < elements:
            return
        found = bounds(at, guards)
        if found is not None and not (found[0] >= 0 and found[1] < elements):
            raise ValueError(
                f"{quoted(f'{name}[{at}]')} reads elements {found[0]} to {found[1]} of {elements}: guard it, or use"
                " fewer axes in a guard"
            )

    @cached_property
    def root(self) -> Node:
        return parsed(
            self.do,
            {axis.name: axis for axis in self.axes},
            {name: operand.dtype for name, operand in self.named.items()},
            {name: (one.low, one.high or 0) for name, one in self.named.items() if one.low is not None},
        )

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Return all axes, the slowest first."""
        return tuple(axis for name in self.axis_names for axis in self.axes_of(name))

    def axes_of(self, name: str) -> tuple[Axis, ...]:
        letter = self.axis_names[name]
        return tuple(Axis(f"{letter}{at}", extent) for at, extent in enumerate(getattr(self, name)))

    @cached_property
    def named(self) -> Mapping[str, Operand]:
        return {f"x{at}": operand for at, operand in enumerate(self.operands)}

    @property
    def elements(self) -> int:
        """Return the number of elements of all axes."""
        return prod(prod(getattr(self, name)) for name in self.axis_names)

    @property
    def y_shape(self) -> tuple[int, ...]:
        """Return the shape of the output."""
        raise NotImplementedError

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        return tuple(node for node in in_order(self.root) if isinstance(node, Fold))

    @classmethod
    def read(cls, key: str) -> Self:
        """Return the problem of a key."""
        _, given = read_key(key, ())
        known = (*cls.axis_names, "in", "out", *cls.texts, "do")
        for name in given:
            if name not in known:
                raise ValueError(f"unknown field {quoted(name)} in a key of {cls.op}; it has {', '.join(known)}")
        return cls.of(given)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the problem of texts by name."""
        for name in ("out", "do"):
            if not given.get(name):
                raise ValueError(
                    f"{cls.op} has no {name}; it needs the expression (do) and the type that it makes (out)"
                )
        operands = [Operand.of(text) for text in str(given.get("in") or "").split(",") if text]
        axes = {name: _extents(name, given.get(name)) for name in cls.axis_names}
        texts = {name: str(given.get(name) or "") for name in cls.texts}
        return cls(operands=tuple(operands), y_type=str(given["out"]), do=str(given["do"]), **axes, **texts)

    @classmethod
    def asked(cls, given: Mapping[str, Any]) -> Self:
        """Return the problem of a command's options."""
        fields = {"in": given.get("operands"), "out": given.get("y_type")}
        axes = {name: given.get(_option(cls, name)) for name in cls.axis_names}
        return cls.of({**given, **fields, **axes})

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(Tensor(name, (operand.elements,), operand.dtype) for name, operand in self.named.items())

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", self.y_shape, self.y_type),)

    @property
    def packed(self) -> tuple[str, ...]:
        return tuple(name for name, operand in self.named.items() if operand.is_constant)

    @property
    def io_bytes(self) -> int:
        return sum(prod(each.shape) * ELEMENT_TYPES[each.dtype].bytes for each in (*self.inputs, *self.outputs))

    @property
    def extents(self) -> dict[str, int]:
        return {"elements": min(self.elements, FULL)}

    @property
    def kinds(self) -> tuple[object, ...]:
        return (self.y_type, self.do)

    @property
    def shape_class(self) -> tuple[object, ...]:
        return (alignment(self.axes[-1].extent if self.axes else 1, WIDEST),)

    def evaluation(self, arrays: Sequence[Array], more: Mapping[str, Array] | None = None, **how: Any) -> Evaluation:
        """Return an evaluation over all axes at once. `more` are further operands, by name."""
        ranges = np.ogrid[tuple(slice(axis.extent) for axis in self.axes)] if self.axes else ()
        axes = {axis.name: values for axis, values in zip(self.axes, ranges, strict=True)}
        operands = {name: array.reshape(-1) for name, array in zip(self.named, arrays, strict=True)}
        return Evaluation(axes, {**operands, **(more or {})}, **how)


def _extents(name: str, given: Any) -> tuple[int, ...]:
    if given is None or given == "":
        return ()
    if isinstance(given, str):
        return tuple(read_integer(name, part) for part in given.split(","))
    return tuple(given) if isinstance(given, Sequence) else (int(given),)


def options(kind: type[Expression], says: Mapping[str, str]) -> tuple[Option, ...]:
    """Return the options of a command: the axes, the operands, the output's type and the expression."""
    axes = (Option(_option(kind, name), f"{kind.op}: {says[name]}", "extents") for name in kind.axis_names)
    return (
        *axes,
        Option("operands", f"{kind.op}: operands, as in float32*64,int8*8!", metavar="OPERANDS"),
        Option("y_type", f"{kind.op}: type of the output.", metavar="TYPE", required=True),
        Option("do", f"{kind.op}: the expression, as in t0=x0[i0];t1=add(t0,1.0).", metavar="TEXT", required=True),
    )


def _option(kind: type[Expression], name: str) -> str:
    """Return the name of the option of axes. Several are told apart from the integers n, k and rows of other ops."""
    return f"{name}_axes" if len(kind.axis_names) > 1 else name


def draw(problem: Expression, seed: int, fixed: dict[str, int]) -> Sample:
    """Draw uniform integers of the whole range, floats of both signs and many magnitudes, and valid tables."""
    rng = np.random.default_rng(seed)
    return Sample(tuple(_drawn(operand, rng) for operand in problem.operands))


def _drawn(operand: Operand, rng: np.random.Generator) -> Array:
    if operand.low is not None and operand.high is not None:
        return rng.integers(operand.low, operand.high, operand.elements, np.int32, endpoint=True)
    if operand.dtype == "bool":
        return rng.integers(0, 2, operand.elements).astype(bool)
    if limits := ELEMENT_TYPES[operand.dtype].limits:
        return rng.integers(*limits, operand.elements, operand.dtype, endpoint=True)
    values = rng.standard_normal(operand.elements) * np.exp2(rng.integers(-3, 4, operand.elements))
    return narrow(values, operand.dtype)


def stored(values: Array, y_type: str) -> Array:
    """Convert values as a store does: narrow floats are rounded, integers wrap, and there is one NaN."""
    if y_type in FLOAT8:
        return np.ascontiguousarray(narrow(values, y_type))
    with np.errstate(over="ignore", invalid="ignore"):
        made = np.array(values, ELEMENT_TYPES[y_type].numpy, order="C")
    if COMPUTED[y_type] == FLOAT:
        made[np.isnan(made)] = np.nan
    return made
