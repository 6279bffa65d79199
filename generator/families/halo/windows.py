"""The windows of the input that a tile of `halo` depends on: one where neighbouring outputs read neighbouring pixels,
else several."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from qconv.generator.plan import ceil_div
from qconv.generator.tensor_map import CHUNK
from qconv.problem.convolution import Conv2d

# Columns of a tile: a row of it is the eight rows of a core matrix of `wgmma`.
COLUMNS = 8
# Bytes of a pixel in shared memory, one for each swizzle. More channels take several slabs of the widest.
ROWS = (32, 64, 128)
# Bytes of the reduction per instruction.
STEP = 32
# Instructions per tile, which are all written out.
MOST_PRODUCTS = 160
# Bytes after which a swizzle repeats: windows begin at multiples.
REPEATS = 1024


def is_gathered(problem: Conv2d) -> bool:
    """True if lanes bring the pixels: TMA copies only whole chunks."""
    return problem.c % CHUNK > 0


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
    channels: int  # of a pixel
    row: int  # bytes of a pixel in a slab
    slabs: int  # of a pixel's channels
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
            channels=problem.c,
            row=next((row for row in ROWS if row >= problem.c), ROWS[-1]),
            slabs=ceil_div(problem.c, ROWS[-1]),
            strided=problem.stride != (1, 1) and problem.r * problem.s > 1,
            skips=stride_w > 1 and problem.r * problem.s > 1,
        )

    @property
    def last_row(self) -> int:
        """Bytes of a pixel that are multiplied in its last slab: zeros lie behind them."""
        return ceil_div(self.channels - (self.slabs - 1) * self.row, STEP) * STEP

    @property
    def steps(self) -> int:
        """Instructions per tap and 64 rows of the product."""
        return ((self.slabs - 1) * self.row + self.last_row) // STEP

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
