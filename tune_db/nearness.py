"""The distance between two problems, from columns of the database, so that distant problems need no parsing."""

from __future__ import annotations

import json
from functools import lru_cache
from math import log2
from typing import NamedTuple

from qconv.op import BETWEEN, Problem

# The number of extents that the database itself compares. Chains have more.
COARSE = 4


class Shape(NamedTuple):
    """The properties of a problem that decide which others are near. Databases store them: a change of a problem's
    `shape_class`, `extents` or `kinds` needs a new SCHEMA_VERSION."""

    group: str  # op and shape class; problems of different groups are never neighbours
    extents: tuple[int, ...]
    kinds: str  # a list, as JSON

    @property
    def coarse(self) -> tuple[float, ...]:
        """Logarithms to base 2 of the first extents. The sum of their differences is a lower bound of the distance."""
        return tuple(map(log2, self.extents[:COARSE]))


class Neighbour(NamedTuple):
    """A problem and its distance. Sorts by distance, then by key."""

    distance: float
    key: str


@lru_cache(maxsize=4096)  # a lookup asks for those of all rows
def shape_of(problem: Problem) -> Shape:
    return Shape(_text([problem.op, *problem.shape_class]), tuple(problem.extents.values()), _text(list(problem.kinds)))


def kin(key: str) -> tuple[str, int]:
    """Return what all keys of one op have in common, so that other keys need no parsing."""
    return key.partition(":")[0], key.count(BETWEEN)


def read_extents(text: object) -> tuple[int, ...]:
    """Parse the extents of a database row. Raises ValueError unless they are a list of positive integers."""
    values = json.loads(text) if isinstance(text, str) else None
    if not isinstance(values, list) or not all(type(value) is int and value > 0 for value in values):
        raise ValueError(f"extents={repr(text)[:160]} must be a list of positive integers")
    return tuple(values)


def distance(a: Shape, b: Shape) -> float:
    """Return the distance of two shapes of one group, in doublings of the extents. A different data type counts as half
    a doubling."""
    doublings: float = sum(abs(log2(own / other)) for own, other in zip(a.extents, b.extents, strict=True))
    return doublings + 0.5 * _different(a.kinds, b.kinds)


@lru_cache(maxsize=4096)
def _different(a: str, b: str) -> int:
    if a == b:
        return 0
    of_a, of_b = json.loads(a), json.loads(b)
    if not isinstance(of_b, list):
        raise ValueError(f"kinds={b[:160]!r} must be a list")
    return sum(own != other for own, other in zip(of_a, of_b, strict=True))


def _text(values: list[object]) -> str:
    return json.dumps(values, separators=(",", ":"))
