"""What of the input comes for a tile of `halo`: one window where outputs look at neighbouring pixels, else several."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from qconv.generator.plan import ceil_div
from qconv.generator.tensor_map import CHUNK
from qconv.problem.convolution import Conv2d

# Columns of a tile: the pixels of a row of it are those of a core matrix, which lie one behind the other.
COLUMNS = 8
# Bytes of a pixel in shared memory: what a swizzle exchanges. More channels are slabs of the widest.
ROWS = (32, 64, 128)
# Bytes of the reduction that an instruction multiplies.
STEP = 32
# Instructions of a tile, which are all written out.
MOST_PRODUCTS = 160
# What a swizzle repeats after, and where windows begin.
REPEATS = 1024


def is_gathered(problem: Conv2d) -> bool:
    """Whether lanes bring the pixels: they are no whole chunks, and TMA moves nothing else."""
    return problem.c % CHUNK > 0


@dataclass(frozen=True)
class Windows:
    """In a window, what a tap sees of the outputs in a row of a tile are neighbours. With a stride of two it has every
    second column, and there is a window for each remainder that the taps' columns have. Rows need not follow each
    other: all of them come, unless the taps look at few."""

    rows: int  # of a window
    columns: int
    row_step: int  # of the input, from one row of a window to the next
    down: int  # windows, by the remainders of rows
    across: int  # and of columns
    channels: int  # of a pixel
    row: int  # bytes of a pixel in a slab
    slabs: int  # of a pixel's channels
    strided: bool  # whether taps, or the rows that lanes gather, lie a stride from each other
    skips: bool  # whether columns in between do not come

    @classmethod
    @lru_cache(maxsize=256)  # a plan asks several times
    def of(cls, problem: Conv2d, rows: int) -> Windows:
        """For a tile of so many rows."""
        (stride_h, stride_w), (dilation_h, dilation_w) = problem.stride, problem.dilation
        seen = _remainders(problem.r, dilation_h, stride_h)
        row_step = 1 if seen == stride_h else stride_h
        return cls(
            rows=((rows - 1) * stride_h + (problem.r - 1) * dilation_h) // row_step + 1,
            columns=COLUMNS + (problem.s - 1) * dilation_w // stride_w,
            row_step=row_step,
            down=seen if row_step > 1 else 1,
            across=_remainders(problem.s, dilation_w, stride_w),
            channels=problem.c,
            row=next((row for row in ROWS if row >= problem.c), ROWS[-1]),
            slabs=ceil_div(problem.c, ROWS[-1]),
            strided=problem.stride != (1, 1) and (problem.r * problem.s > 1 or is_gathered(problem)),
            skips=stride_w > 1 and problem.r * problem.s > 1,
        )

    @property
    def last_row(self) -> int:
        """Bytes of a pixel's last slab that are multiplied: behind them, to the end of the row, lie zeros."""
        return ceil_div(self.channels - (self.slabs - 1) * self.row, STEP) * STEP

    @property
    def steps(self) -> int:
        """How many a tap takes, of what an instruction multiplies of each pixel."""
        return ((self.slabs - 1) * self.row + self.last_row) // STEP

    @property
    def count(self) -> int:
        return self.down * self.across

    @property
    def bytes(self) -> int:
        """What comes as one window."""
        return self.slabs * self.rows * self.columns * self.row

    @property
    def room(self) -> int:
        """And where it comes to lie: a swizzle counts from the beginning of a slab."""
        return self.slabs * ceil_div(self.rows * self.columns * self.row, REPEATS) * REPEATS


def _remainders(taps: int, dilation: int, stride: int) -> int:
    """By the stride, from none to the largest that a tap has."""
    return 1 + max(tap * dilation % stride for tap in range(taps))
