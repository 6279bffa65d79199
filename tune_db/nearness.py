"""How near two problems are, from what a database keeps of each: no problem need be parsed to be found far away."""

from __future__ import annotations

import json
from functools import lru_cache
from math import log2
from typing import NamedTuple

from qconv.op import BETWEEN, Problem

# The database compares so many extents itself; a chain has more.
COARSE = 4


class Shape(NamedTuple):
    """What of a problem decides which others are near. Whoever changes what a problem's `shape_class`, `extents` or
    `kinds` are changes what databases hold: raise SCHEMA_VERSION then."""

    group: str  # problems of another op or shape class are no neighbours
    extents: tuple[int, ...]
    kinds: str  # a list as JSON

    @property
    def coarse(self) -> tuple[float, ...]:
        """In doublings. Two problems are at least as far apart as the sum of how far these are."""
        return tuple(map(log2, self.extents[:COARSE]))


class Neighbour(NamedTuple):
    """Sorted: the nearest first; of equals, in the order of their keys."""

    distance: float
    key: str


def shape_of(problem: Problem) -> Shape:
    return Shape(_text([problem.op, *problem.shape_class]), tuple(problem.extents.values()), _text(list(problem.kinds)))


def kin(key: str) -> tuple[str, int]:
    """What the keys of one op have in common: no other key need be parsed."""
    return key.partition(":")[0], key.count(BETWEEN)


def read_extents(text: object) -> tuple[int, ...]:
    """From a database: ValueError for what is no list of positive integers."""
    values = json.loads(text) if isinstance(text, str) else None
    if not isinstance(values, list) or not all(type(value) is int and value > 0 for value in values):
        raise ValueError(f"extents={repr(text)[:160]} must be a list of positive integers")
    return tuple(values)


def distance(a: Shape, b: Shape) -> float:
    """In doublings of the extents, between two of one group; another data type is half of one."""
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
