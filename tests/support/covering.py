"""Pairwise covering: few plans that together contain every pair of values of different choices that occur together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from itertools import combinations
from typing import TypeVar

Item = TypeVar("Item")


def covering(items: Collection[Item], facts: Callable[[Item], Collection[Hashable]]) -> list[Item]:
    """Choose items greedily, so that every pair of facts of any item is a pair of a chosen item. Faults of a generator
    come from one value or from two in combination, and testing the whole product mostly repeats these."""
    pairs = [(item, {frozenset(pair) for pair in combinations(facts(item), 2)}) for item in items]
    missing = set[frozenset[Hashable]]().union(*(has for _, has in pairs))
    chosen: list[Item] = []
    least = max((len(has) for _, has in pairs), default=0)
    while missing:
        most = 0
        for item, has in pairs:
            new = has & missing
            if len(new) >= least:
                chosen.append(item)
                missing -= new
            else:
                most = max(most, len(new))
        least = most
    return chosen
