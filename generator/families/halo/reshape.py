"""The same convolution over other images, which take less work: one column of rows, or columns merged into pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from qconv.generator.families.halo.windows import COLUMNS, MOST_PRODUCTS, ROWS, STEP
from qconv.generator.plan import Constant, ceil_div
from qconv.generator.tensor_map import CHUNK
from qconv.problem.convolution import Conv2d

# Merged columns may take up to MOST_MORE times the products for at most FEW_OUTPUTS output channels. TMA is spared the
# columns in between and the rows that it fills with zeros, which counts where a window is multiplied once. Pixels that
# lanes bring (`is_gathered`) take longer than the products of any number of channels.
MOST_MORE, FEW_OUTPUTS = 4 / 3, 64


@lru_cache(maxsize=256)  # a plan asks several times
def reshaped(problem: Conv2d) -> Conv2d:
    """Return the convolution whose tiles a kernel counts.

    Where an output depends on one pixel, all images become one column of rows as wide as a tile, so that no tile
    reaches beyond an image. Where outputs lie a stride of columns apart, these columns may become the channels of one
    pixel.
    """
    if (merged := MergedColumns.of(problem)) is not None:
        return merged.reshaped
    is_pointwise = problem.r * problem.s == 1 and problem.stride == (1, 1) and not any(problem.pad)
    if not is_pointwise or problem.pixels % COLUMNS:
        return problem
    return replace(problem, n=1, h=problem.pixels // COLUMNS, w=COLUMNS)


@dataclass(frozen=True)
class MergedColumns:
    """A stride's neighbouring columns as one pixel with the channels of all. The filter begins with the first column of
    a pixel and ends with the last column of one: columns that it does not have are zeros."""

    problem: Conv2d
    reshaped: Conv2d

    @classmethod
    def of(cls, problem: Conv2d) -> MergedColumns | None:
        """Return None where columns stay apart."""
        columns = problem.stride[1]
        is_possible = columns > 1 and problem.dilation[1] == 1 and problem.w % columns == 0
        if not is_possible or problem.groups > 1 or problem.layout != "nhwc":
            return None
        left = ceil_div(problem.pad[1], columns)
        taps = ceil_div(left * columns - problem.pad[1] + problem.s, columns)
        products = problem.r * taps * ceil_div(columns * problem.c, STEP)
        may_take_more = problem.k <= FEW_OUTPUTS or problem.c % CHUNK > 0
        worth = _products(problem) * (MOST_MORE if may_take_more else 1)
        if columns * problem.c > ROWS[-1] or products > min(MOST_PRODUCTS, worth):
            return None
        width = problem.w // columns
        try:
            made = replace(
                problem,
                w=width,
                c=columns * problem.c,
                s=taps,
                stride=(problem.stride[0], 1),
                pad=(problem.pad[0], left, problem.pad[2], problem.ow - 1 + taps - width - left),
            )
        except ValueError:
            return None  # with the zeros, its arrays or its sums are larger than a problem's may be
        return cls(problem, made)

    @property
    def columns(self) -> int:
        """Columns of a pixel."""
        return self.problem.stride[1]

    @property
    def constants(self) -> tuple[Constant, ...]:
        zeros = self.reshaped.pad[1] * self.columns - self.problem.pad[1]
        return (
            Constant("MERGED_COLUMNS", self.columns, "neighbouring columns of x that are one pixel here"),
            Constant("X_C", self.problem.c, "channels of x"),
            Constant("FILTER_W", self.problem.s, "columns of a filter, without zeros"),
            Constant("ZERO_COLUMNS", zeros, "columns of zeros in front of a filter, so that it begins with a pixel"),
        )


def _products(problem: Conv2d) -> int:
    """Instructions for 64 rows of the product, each of which multiplies 32 bytes of the reduction."""
    return problem.r * problem.s * ceil_div(problem.c, STEP)
