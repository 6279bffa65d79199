"""The input as the tiles of `halo` read it.

A tile depends on one window where neighbouring outputs read neighbouring pixels, else on several. Some convolutions
take less work over other images: one column of rows, or columns merged into pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from qconv.generator.plan import Constant, ceil_div
from qconv.generator.tensor_map import CHUNK
from qconv.problem.convolution import Conv2d

# Columns of a tile: a row of it is the eight rows of a core matrix of `wgmma`.
COLUMNS = 8
# Bytes of a pixel in shared memory, one for each swizzle. Larger pixels take several slabs of the widest.
ROWS = (32, 64, 128)
# Bytes of the reduction per instruction.
STEP = 32
# Instructions per tile, which are all written out.
MOST_PRODUCTS = 160
# Bytes after which a swizzle repeats: windows begin at multiples.
REPEATS = 1024


def is_gathered(problem: Conv2d) -> bool:
    """True if lanes bring the pixels: TMA copies only whole chunks."""
    return problem.frame_bytes % CHUNK > 0


@dataclass(frozen=True)
class Windows:
    """The windows of a tile.

    In a window, the pixels that a tap reads for a row of the tile are neighbours. With a stride of two, a window has
    every second column, and there is one for each remainder of the taps' columns by the stride. A window has all rows,
    unless the taps read few of them.
    """

    rows: int  # of a window
    columns: int  # of a window
    row_step: int  # of the input, from one row of a window to the next
    down: int  # windows, one for each remainder of rows
    across: int  # and one for each remainder of columns
    pixel: int  # bytes of one of a frame
    row: int  # bytes of a pixel in a slab
    frames: int  # whose pixels are an image's
    frame_slabs: int  # of a pixel's channels in a frame
    strided: bool  # whether the taps of neighbouring outputs lie a stride apart
    skips: bool  # whether a window skips columns

    @classmethod
    @lru_cache(maxsize=256)  # a plan asks several times
    def of(cls, problem: Conv2d, rows: int) -> Windows:
        """Return the windows of a tile of `rows` rows."""
        (stride_h, stride_w), (dilation_h, dilation_w) = problem.stride, problem.dilation
        remainders = _remainders(problem.r, dilation_h, stride_h)
        row_step = 1 if remainders == stride_h else stride_h
        return cls(
            rows=((rows - 1) * stride_h + (problem.r - 1) * dilation_h) // row_step + 1,
            columns=COLUMNS + (problem.s - 1) * dilation_w // stride_w,
            row_step=row_step,
            down=remainders if row_step > 1 else 1,
            across=_remainders(problem.s, dilation_w, stride_w),
            pixel=problem.frame_bytes,
            row=next((row for row in ROWS if row >= problem.frame_bytes), ROWS[-1]),
            frames=1 if problem.frames is None else problem.frames.taps,
            frame_slabs=ceil_div(problem.frame_bytes, ROWS[-1]),
            strided=problem.stride != (1, 1) and problem.r * problem.s > 1,
            skips=stride_w > 1 and problem.r * problem.s > 1,
        )

    @property
    def slabs(self) -> int:
        """Slabs of the pixels of all frames."""
        return self.frames * self.frame_slabs

    @property
    def last_row(self) -> int:
        """Bytes of a pixel that are multiplied in its last slab: zeros lie behind them."""
        return ceil_div(self.pixel - (self.frame_slabs - 1) * self.row, STEP) * STEP

    @property
    def steps(self) -> int:
        """Instructions per tap and 64 rows of the product."""
        return self.frames * ((self.frame_slabs - 1) * self.row + self.last_row) // STEP

    @property
    def count(self) -> int:
        """Windows per tile."""
        return self.down * self.across

    @property
    def bytes(self) -> int:
        """Bytes of a window that TMA copies."""
        return self.slabs * self.rows * self.columns * self.row

    @property
    def room(self) -> int:
        """Bytes of shared memory per window: a swizzle begins with a slab."""
        return self.slabs * ceil_div(self.rows * self.columns * self.row, REPEATS) * REPEATS


def _remainders(taps: int, dilation: int, stride: int) -> int:
    """Remainders of the taps' places by the stride, from zero to the largest."""
    return 1 + max(tap * dilation % stride for tap in range(taps))


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
    if not is_pointwise or problem.pixels % COLUMNS or problem.is_shuffled or problem.frames is not None:
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
        is_plain = problem.groups == 1 and problem.frames is None and problem.layout == "nhwc"
        if not is_possible or not is_plain or problem.quantization.types.x.bytes > 1:
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
