"""The op `table`: any function of an 8-bit tensor, as a table of 256 in which the kernel looks every element up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from qconv.arithmetic.parameter import ENTRIES
from qconv.op import FULL, LARGEST, WIDEST, Array, Op, Option, Sample, Tensor, alignment
from qconv.sampling import operands
from qconv.tensor_ops.problem import TensorOp


@dataclass(frozen=True, eq=False)
class Table(TensorOp):
    """A lookup. Entry `i` is the output for the element whose byte is `i`; in int8, -1 has entry 255."""

    op: ClassVar[str] = "table"

    elements: int
    x_type: str = "int8"
    out_type: str = "int8"
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    numbers: ClassVar[tuple[str, ...]] = ("elements",)

    def __post_init__(self) -> None:
        self._check_fields()
        if self.elements > LARGEST:
            raise ValueError(f"x has {self.elements} elements; at most {LARGEST} are supported: split it")
        self._name_by_fields()

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (Tensor("x", (self.elements,), self.x_type), Tensor("table", (ENTRIES,), self.out_type))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", (self.elements,), self.out_type),)

    @property
    def packed(self) -> tuple[str, ...]:
        return ("table",)

    @property
    def extents(self) -> dict[str, int]:
        return {"elements": min(self.elements, FULL)}

    @property
    def kinds(self) -> tuple[object, ...]:
        return ()  # types differ in name only: bytes go in, bytes come out

    @property
    def shape_class(self) -> tuple[object, ...]:
        return (alignment(self.elements, WIDEST),)


def _asked(given: dict[str, Any]) -> Table:
    shape = given["shape"]
    rest = {name: value for name, value in given.items() if name != "shape"}
    return Table(shape if isinstance(shape, int) else int(np.prod(shape)), **rest)


def draw(problem: Table, seed: int, fixed: dict[str, int]) -> Sample:
    """Draw uniform bytes, and a table that is a permutation of all bytes."""
    rng = np.random.default_rng(seed)
    table = rng.permutation(ENTRIES).astype(np.uint8).view(problem.out_type)
    return Sample((operands.uniform(problem.x_type, (problem.elements,), rng), table))


def compute(problem: Table, drawn: Sample) -> tuple[Array, ...]:
    x, table = drawn.arrays
    return (table[x.view(np.uint8)],)


OP = Op(
    name="table",
    says="Any function of one tensor of 8 bits, by a table of 256.",
    problems=(Table,),
    read=Table.read,
    ask=_asked,
    options=(
        Option("shape", "table: shape of x and y.", "extents", required=True),
        Option("x_type", "table: int8 (default), uint8.", metavar="TYPE"),
        Option("out_type", "table: int8 (default), uint8.", metavar="TYPE"),
    ),
    draw=draw,
    compute=compute,
)
