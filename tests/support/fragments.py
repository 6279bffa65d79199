"""Operands in the registers of a warp, laid out as the instruction tables say."""

from __future__ import annotations

from typing import Any

import numpy as np

from qconv.dtypes import ELEMENT_TYPES
from qconv.ops.real_attempt import MOST_FACTOR
from qconv.targets.instruction import Fragment
from qconv.targets.target import TARGETS

BY_NAME = {each.name: each for entry in TARGETS.values() for each in entry.instructions}
INSTRUCTIONS = list(BY_NAME.values())


def places(fragment: Fragment) -> list[list[tuple[int, int]]]:
    """Return the coordinates of each lane's elements, in order."""
    return [
        [fragment.coordinates(lane, element) for element in range(fragment.elements)] for lane in range(fragment.lanes)
    ]


def whole(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Draw whole numbers: of the full range of integers, and floats whose products and sums are exact."""
    element_type = ELEMENT_TYPES[dtype]
    most = min(256, MOST_FACTOR.get(dtype, 0))
    kind, (low, high) = element_type.numpy, element_type.limits or (-most, most)
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
