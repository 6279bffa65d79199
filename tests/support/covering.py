"""Pairwise covering: few plans in which every two values of different choices that occur together do so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from itertools import combinations
from typing import TypeVar

Item = TypeVar("Item")


def covering(items: Collection[Item], facts: Callable[[Item], Collection[Hashable]]) -> list[Item]:
    """Some of the items, greedily: every pair of facts that one of all items has, one of these has. Faults of a
    generator come from one value or from two that meet, which is what testing a whole product mostly repeats."""
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
