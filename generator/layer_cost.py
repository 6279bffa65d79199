"""What the cost models of layers have in common: what a tile takes, in clocks, and what that was fitted to."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

# Fitted with the rest of the model (see `FusedPlan.cost`): clocks of an instruction of a warp that is alone, where many
# warps take one.
ALONE = 4


class Work(NamedTuple):
    """What one tile takes, in clocks."""

    issued: float  # in which a multiprocessor issues the instructions of all warps
    longest: float  # until the longest warp is done


@lru_cache(maxsize=1024)
def times_asked(pixels: int, width: int, row: int, column_stride: int) -> float:
    """How often shared memory is asked for eight neighbouring pixels of a tile, which may share banks."""
    banks = [(pixel // width * row + pixel % width * column_stride) % 8 for pixel in range(pixels // 8 * 8)]
    eights = [banks[i : i + 8] for i in range(0, len(banks), 8)]
    return sum(max(map(eight.count, eight)) for eight in eights) / len(eights) if eights else 1.0
