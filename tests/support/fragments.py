"""Operands in the registers of a warp, laid out as the instruction tables say."""

from __future__ import annotations

from typing import Any

import numpy as np

from qconv.targets import instruction_tables
from qconv.targets.instruction import Fragment, MatrixInstruction

INSTRUCTIONS = [value for value in vars(instruction_tables).values() if isinstance(value, MatrixInstruction)]
BY_NAME = {instruction.name: instruction for instruction in INSTRUCTIONS}


def places(fragment: Fragment) -> list[list[tuple[int, int]]]:
    """Return the coordinates of each lane's elements, in order."""
    return [
        [fragment.coordinates(lane, element) for element in range(fragment.elements)] for lane in range(fragment.lanes)
    ]


def whole(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Draw whole numbers: of the full range of integers, and floats whose products and sums are exact."""
    kind = np.dtype(dtype)
    low, high = (-256, 255) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
    return rng.integers(low, high, shape, np.int64, endpoint=True).astype(kind)


def scatter(tile: np.ndarray[Any, Any], fragment: Fragment) -> np.ndarray[Any, Any]:
    """Return the 32-bit registers of each lane, with elements packed from the lowest bits on, as in hardware."""
    held = np.array([[tile[place] for place in lane] for lane in places(fragment)], dtype=tile.dtype)
    return held.view(np.dtype("<u4"))


def gather(registers: np.ndarray[Any, Any], fragment: Fragment, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return the tile that the registers hold; copies must agree and no element may be missing."""
    held = registers.view(dtype)
    tile: dict[tuple[int, int], int] = {}
    for lane, row in enumerate(places(fragment)):
        for element, place in enumerate(row):
            assert tile.setdefault(place, held[lane, element]) == held[lane, element]
    rows, columns = fragment.shape
    return np.array([[tile[i, j] for j in range(columns)] for i in range(rows)], dtype=np.int64)
