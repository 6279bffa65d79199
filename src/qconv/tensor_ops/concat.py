"""The op `concat`: rows of several tensors joined, like QLinearConcat, whose tensors have scales of their own, and like
Concat, Split and Slice, which copy bytes.

An 8-bit tensor is seen as `rows` rows of `stride` elements. One slice of each row is used, `width` elements from
`offset` on, and a row of the output is the slices of all tensors in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from qconv.arithmetic.parameter import ENTRIES
from qconv.op import FULL, LARGEST, WIDEST, Array, Op, Option, Sample, Tensor, alignment, checked_size
from qconv.sampling import operands
from qconv.tensor_ops.problem import TensorOp

# Tensors per kernel: the address of each is an argument.
MOST_TENSORS = 16


class Slice(NamedTuple):
    """A slice of each row of a tensor. `begin` is its position in a row of the output, and `table` the index of its
    table, or -1 for a copy."""

    width: int
    stride: int
    offset: int
    begin: int
    table: int

    @property
    def end(self) -> int:
        return self.begin + self.width


@dataclass(frozen=True, eq=False)
class Concat(TensorOp):
    """The joined rows. `tables` has a 1 for each slice that is looked up in a table of 256 of its own, for example to
    change its scale. Without strides, the slice is the whole row."""

    op: ClassVar[str] = "concat"

    rows: int
    widths: Any = ()
    strides: Any = ()
    offsets: Any = ()
    tables: Any = ()
    x_type: str = "int8"
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    numbers: ClassVar[tuple[str, ...]] = ("rows",)
    extents_of_key: ClassVar[tuple[str, ...]] = ("widths", "strides", "offsets", "tables")
    types: ClassVar[tuple[str, ...]] = ("x_type",)

    def __post_init__(self) -> None:
        self._check_fields()
        for name, least in (("widths", 1), ("strides", 1), ("offsets", 0), ("tables", 0)):
            given = getattr(self, name)
            several = (given,) if isinstance(given, int) else tuple(given)
            object.__setattr__(self, name, tuple(checked_size(name, each, least) for each in several))
        count = len(self.widths)
        if not 1 <= count <= MOST_TENSORS:
            raise ValueError(f"widths has {count} numbers: it must have 1 to {MOST_TENSORS}, one for each tensor")
        for name, usual in (("strides", self.widths), ("offsets", (0,) * count), ("tables", (0,) * count)):
            if len(getattr(self, name)) not in (0, count):
                raise ValueError(f"{name}={getattr(self, name)} must have {count} numbers, as many as widths, or none")
            if getattr(self, name) == usual:
                object.__setattr__(self, name, ())
        self._check_slices()
        self._name_by_fields()

    def _check_slices(self) -> None:
        if any(table > 1 for table in self.tables):
            raise ValueError(f"tables={self.tables} must be 1 for a tensor that is looked up, 0 for one that is copied")
        for each in self.slices:
            if each.offset + each.width > each.stride:
                raise ValueError(
                    f"a slice of {each.width} elements from {each.offset} on does not lie in a row of {each.stride}"
                )
        longest = max(self.width, *(each.stride for each in self.slices))
        if self.rows * longest > LARGEST:
            raise ValueError(f"a tensor has {self.rows * longest} elements; at most {LARGEST} are supported: split it")

    @property
    def slices(self) -> tuple[Slice, ...]:
        count = len(self.widths)
        begins = accumulate(self.widths, initial=0)
        looked_up = self.tables or (0,) * count
        before = accumulate(looked_up, initial=0)
        numbers = (number if has else -1 for has, number in zip(looked_up, before, strict=False))
        every = (self.widths, self.strides or self.widths, self.offsets or (0,) * count, begins, numbers)
        return tuple(Slice(*numbers) for numbers in zip(*every, strict=False))

    @property
    def width(self) -> int:
        """Return the number of elements per row of the output."""
        return sum(self.widths)

    @property
    def widest(self) -> int:
        """Return the number of neighbouring elements that can be read at once in all slices."""
        numbers = [number for each in self.slices for number in (each.width, each.stride, each.offset) if number]
        return min(alignment(number, WIDEST) for number in numbers)

    @property
    def widest_store(self) -> int:
        """Return the number of neighbouring elements of the output that can be written at once: those of one slice."""
        return min(alignment(width, WIDEST) for width in self.widths)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        tensors = [Tensor(f"x{i}", (self.rows, each.stride), self.x_type) for i, each in enumerate(self.slices)]
        tables = [Tensor("tables", (sum(self.tables), ENTRIES), self.x_type)] if self.tables else []
        return (*tensors, *tables)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", (self.rows, self.width), self.x_type),)

    @property
    def packed(self) -> tuple[str, ...]:
        return ("tables",) if self.tables else ()

    @property
    def extents(self) -> dict[str, int]:
        return {"elements": min(self.rows * self.width, FULL)}

    @property
    def kinds(self) -> tuple[object, ...]:
        return (len(self.widths), bool(self.tables))

    @property
    def shape_class(self) -> tuple[object, ...]:
        return (self.widest, self.widest_store)

    @classmethod
    def of(cls, rows: int, slices: Sequence[tuple[int, int, int, bool]], x_type: str) -> Self:
        """Return the problem of slices, each given by width, stride, offset and whether it has a table."""
        widths, strides, offsets, tables = zip(*slices, strict=True)
        return cls(rows, widths, strides, offsets, tuple(map(int, tables)), x_type)


def draw(problem: Concat, seed: int, fixed: dict[str, int]) -> Sample:
    """Draw uniform bytes, and tables that are permutations of all bytes."""
    rng = np.random.default_rng(seed)
    tensors = [operands.uniform(problem.x_type, (problem.rows, each.stride), rng) for each in problem.slices]
    tables = [rng.permutation(ENTRIES).astype(np.uint8).view(problem.x_type) for each in problem.tables if each]
    return Sample((*tensors, np.stack(tables)) if tables else tuple(tensors))


def compute(problem: Concat, drawn: Sample) -> tuple[Array, ...]:
    return (np.concatenate(list(_slices(problem, drawn)), axis=1),)


def _slices(problem: Concat, drawn: Sample) -> Iterator[Array]:
    for x, each in zip(drawn.arrays, problem.slices, strict=False):
        found = x[:, each.offset : each.offset + each.width]
        yield found if each.table < 0 else drawn.arrays[-1][each.table][found.view(np.uint8)]


OP = Op(
    name="concat",
    says="Tensors one behind the other along an axis, and slices of them.",
    problems=(Concat,),
    read=Concat.read,
    ask=lambda given: Concat(**given),
    options=(
        Option("rows", "concat: rows of each tensor.", "integer", required=True),
        Option("widths", "concat: elements per row of each tensor's slice.", "extents", required=True),
        Option("strides", "concat: elements per row of each tensor. Default: the widths.", "extents"),
        Option("offsets", "concat: the first element of each slice. Default 0.", "extents"),
        Option("tables", "concat: 1 for each tensor that is looked up in a table. Default 0.", "extents"),
        Option("x_type", "concat: int8 (default), uint8.", metavar="TYPE"),
    ),
    draw=draw,
    compute=compute,
)
