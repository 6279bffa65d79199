"""The op `argmax`: the index of the largest element along an axis, like ONNX's ArgMax of an 8-bit tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from qconv.op import (
    FULL,
    LARGEST,
    WIDEST,
    Array,
    Op,
    Option,
    Sample,
    Tensor,
    alignment,
    checked_axis,
    checked_size,
    read_integer,
)
from qconv.sampling import operands
from qconv.tensor_ops.problem import TensorOp

# An unsigned word holds the 8 bits of an element and an index of this many bits.
INDEX_BITS = 24
MOST_LENGTH = 2**INDEX_BITS
# Half of the rows have their low bits cleared, so that the maximum often occurs several times.
CLEARED_BITS = 5


@dataclass(frozen=True, eq=False)
class ArgMax(TensorOp):
    """The index of the maximum along an axis of `length` elements that lie `inner` elements apart. Of equal elements
    the first counts, or with `last` the last."""

    op: ClassVar[str] = "argmax"

    outer: int
    length: int
    inner: int = 1
    last: bool = False
    x_type: str = "int8"
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    numbers: ClassVar[tuple[str, ...]] = ("outer", "length", "inner")
    flags: ClassVar[tuple[str, ...]] = ("last",)
    types: ClassVar[tuple[str, ...]] = ("x_type",)

    def __post_init__(self) -> None:
        self._check_fields()
        checked_size("length", self.length, 1, MOST_LENGTH)
        if self.outer * self.length * self.inner > LARGEST:
            count = self.outer * self.length * self.inner
            raise ValueError(f"x has {count} elements; at most {LARGEST} are supported: split outer")
        self._name_by_fields()

    @classmethod
    def of(cls, shape: Sequence[int], axis: int, **spec: Any) -> Self:
        """Return the problem for an array and one of its axes."""
        at = checked_axis(axis, "x", shape)
        return cls(prod(shape[:at]), shape[at], prod(shape[at + 1 :]), **spec)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (Tensor("x", (self.outer, self.length, self.inner), self.x_type),)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Return the output. ONNX and NumPy use int64 for indices."""
        return (Tensor("y", (self.outer, self.inner), "int64"),)

    @property
    def extents(self) -> dict[str, int]:
        return {"outputs": min(self.outer * self.inner, FULL), "length": self.length}

    @property
    def kinds(self) -> tuple[object, ...]:
        return (self.inner == 1,)  # true where elements along the axis are adjacent

    @property
    def shape_class(self) -> tuple[object, ...]:
        return (alignment(self.length if self.inner == 1 else self.inner, WIDEST),)


def draw(problem: ArgMax, seed: int, fixed: dict[str, int]) -> Sample:
    """Draw uniform bytes, and rows with few distinct values, in which the maximum occurs several times."""
    rng = np.random.default_rng(seed)
    x = operands.uniform(problem.x_type, problem.inputs[0].shape, rng)
    few = rng.random((problem.outer, 1, problem.inner)) < 0.5
    return Sample((np.where(few, x >> CLEARED_BITS << CLEARED_BITS, x).astype(problem.x_type),))


def compute(problem: ArgMax, drawn: Sample) -> tuple[Array, ...]:
    (x,) = drawn.arrays
    if problem.last:
        return (problem.length - 1 - x[:, ::-1].argmax(axis=1),)
    return (x.argmax(axis=1),)


def _asked(given: dict[str, Any]) -> ArgMax:
    shape = given["shape"]
    rest = {name: value for name, value in given.items() if name not in ("shape", "axis")}
    axis = read_integer("axis", given.get("axis", "-1"))
    return ArgMax.of((shape,) if isinstance(shape, int) else shape, axis, **rest)


OP = Op(
    name="argmax",
    says="Where along an axis the largest elements are.",
    problems=(ArgMax,),
    read=ArgMax.read,
    ask=_asked,
    options=(
        Option("shape", "argmax: shape of x.", "extents", required=True),
        Option("axis", "argmax: the axis that is searched. Default -1, the last."),
        Option("last", "argmax: the last of equal elements counts, not the first.", "switch"),
        Option("x_type", "argmax: int8 (default), uint8.", metavar="TYPE"),
    ),
    draw=draw,
    compute=compute,
)
