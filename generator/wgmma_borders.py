"""Which output pixels have the same taps outside of the image: the copy engine pads with zeros, so what an input zero
point adds depends on it."""

from __future__ import annotations

from dataclasses import dataclass

from qconv.generator.plan import Constant, ceil_div
from qconv.problem import Conv2d


@dataclass(frozen=True)
class Axis:
    """Rows or columns of the output: those whose windows cross the first border, and the last one. Between them all
    are alike; each of the others is a class of its own."""

    before: int
    behind: int
    classes: int

    @classmethod
    def of(cls, size: int, outputs: int, span: int, stride: int, pad: int) -> Axis:
        """`span`: from a window's first element to its last."""
        before = min(outputs, ceil_div(pad, stride))
        # The first output whose window reaches beyond the last element.
        first_behind = max(0, (size - 1 - span + pad) // stride + 1)
        behind = outputs - min(outputs, first_behind)
        if before + behind >= outputs:
            return cls(outputs, 0, outputs)
        return cls(before, behind, before + 1 + behind)


@dataclass(frozen=True)
class Borders:
    rows: Axis
    columns: Axis

    @classmethod
    def of(cls, problem: Conv2d) -> Borders:
        span_h, span_w = (problem.r - 1) * problem.dilation[0], (problem.s - 1) * problem.dilation[1]
        return cls(
            Axis.of(problem.h, problem.oh, span_h, problem.stride[0], problem.pad[0]),
            Axis.of(problem.w, problem.ow, span_w, problem.stride[1], problem.pad[1]),
        )

    @property
    def classes(self) -> int:
        return self.rows.classes * self.columns.classes

    @property
    def constants(self) -> tuple[Constant, ...]:
        return (
            Constant("ROWS_BEFORE", self.rows.before, "whose windows cross the image's first row"),
            Constant("ROWS_BEHIND", self.rows.behind, "whose windows cross its last"),
            Constant("ROW_CLASSES", self.rows.classes),
            Constant("COLUMNS_BEFORE", self.columns.before),
            Constant("COLUMNS_BEHIND", self.columns.behind),
            Constant("COLUMN_CLASSES", self.columns.classes),
        )
