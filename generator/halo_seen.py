"""The problem as a kernel of `halo` counts it: the same bytes as other images, where these take less work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from qconv.generator.halo_windows import COLUMNS, MOST_PRODUCTS, ROWS, STEP
from qconv.generator.plan import Constant, ceil_div
from qconv.generator.tensor_map import CHUNK
from qconv.problem import Conv2d

# How many times the products columns as channels may take, and for how many output channels: the copy engine (TMA) is
# spared the columns between and rows that it fills with zeros, which counts where a window is multiplied once. Pixels
# that lanes bring (`is_gathered`) take longer than products of any number of channels.
WORTH, FEW_OUTPUTS = 4 / 3, 64


@lru_cache(maxsize=256)  # a plan asks several times
def as_seen(problem: Conv2d) -> Conv2d:
    """Where each pixel's output depends on it alone, images are one column of rows that are as wide as a tile: nothing
    of a tile lies beyond the edges of images. Where outputs lie a stride of columns from each other, these columns may
    be the channels of one pixel."""
    if (together := ColumnsTogether.of(problem)) is not None:
        return together.seen
    alone = problem.r * problem.s == 1 and problem.stride == (1, 1) and not any(problem.pad)
    if not alone or problem.pixels % COLUMNS:
        return problem
    return replace(problem, n=1, h=problem.pixels // COLUMNS, w=COLUMNS)


@dataclass(frozen=True)
class ColumnsTogether:
    """As many neighbouring columns as the stride are one pixel with the channels of all. The filter begins with the
    first column of a pixel and ends with the last of one: columns that it does not have are zeros."""

    problem: Conv2d
    seen: Conv2d

    @classmethod
    def of(cls, problem: Conv2d) -> ColumnsTogether | None:
        """None where columns stay apart."""
        columns = problem.stride[1]
        is_possible = columns > 1 and problem.dilation[1] == 1 and problem.w % columns == 0
        if not is_possible or problem.groups > 1 or problem.layout != "nhwc":
            return None
        left = ceil_div(problem.pad[1], columns)
        taps = ceil_div(left * columns - problem.pad[1] + problem.s, columns)
        products = problem.r * taps * ceil_div(columns * problem.c, STEP)
        is_worth_more = problem.k <= FEW_OUTPUTS or problem.c % CHUNK > 0
        worth = _products(problem) * (WORTH if is_worth_more else 1)
        if columns * problem.c > ROWS[-1] or products > min(MOST_PRODUCTS, worth):
            return None
        width = problem.w // columns
        try:
            seen = replace(
                problem,
                w=width,
                c=columns * problem.c,
                s=taps,
                stride=(problem.stride[0], 1),
                pad=(problem.pad[0], left, problem.pad[2], problem.ow - 1 + taps - width - left),
            )
        except ValueError:
            return None  # with the zeros, its arrays or its sums are larger than a problem's may be
        return cls(problem, seen)

    @property
    def columns(self) -> int:
        """So many are a pixel."""
        return self.problem.stride[1]

    @property
    def constants(self) -> tuple[Constant, ...]:
        zeros = self.seen.pad[1] * self.columns - self.problem.pad[1]
        return (
            Constant("COLUMNS_TOGETHER", self.columns, "neighbouring columns of x, which are one pixel here"),
            Constant("X_C", self.problem.c, "channels of each"),
            Constant("FILTER_W", self.problem.s, "columns of x that a filter has"),
            Constant("ZERO_COLUMNS", zeros, "before them, so that a filter begins with a pixel"),
        )


def _products(problem: Conv2d) -> int:
    """Instructions for 32 bytes of the reduction each."""
    return problem.r * problem.s * ceil_div(problem.c, STEP)
