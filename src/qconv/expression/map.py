"""The op `map`: each element of the output is an expression of elements of the operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qconv.expression.problem import Expression, draw, options, stored
from qconv.op import Array, Op, Sample


@dataclass(frozen=True, eq=False)
class Map(Expression):
    """A map. The axes i0, i1, ... of `shape` are those of the output, which is contiguous."""

    op: ClassVar[str] = "map"
    axis_names: ClassVar[Mapping[str, str]] = {"shape": "i"}

    shape: tuple[int, ...] = ()

    def _check_root(self) -> None:
        super()._check_root()
        if self.folds:
            raise ValueError(f"{self.folds[0].kind}_of combines the elements of a row; a map has no rows: use reduce")

    @property
    def y_shape(self) -> tuple[int, ...]:
        return self.shape


def compute(problem: Map, drawn: Sample) -> tuple[Array, ...]:
    values = problem.evaluation(drawn.arrays)(problem.root)
    return (stored(np.broadcast_to(values, problem.y_shape), problem.y_type),)


OP = Op(
    name="map",
    says="An expression for each element: functions, conversions, broadcasts and movement.",
    problems=(Map,),
    read=Map.read,
    ask=Map.asked,
    options=options(Map, {"shape": "shape of the output, whose axes are i0, i1, ..."}),
    draw=draw,
    compute=compute,
)
