from __future__ import annotations

from itertools import product

from covering import covering


def test_every_pair_that_occurs_is_there_and_most_items_are_not() -> None:
    items = [item for item in product(range(4), range(4), range(4), range(3)) if item[0] != item[1]]

    def facts(item: tuple[int, ...]) -> list[tuple[int, int]]:
        return list(enumerate(item))

    def pairs(of: list[tuple[int, ...]]) -> set[frozenset[tuple[int, int]]]:
        return {frozenset((a, b)) for item in of for a in facts(item) for b in facts(item) if a < b}

    chosen = covering(items, facts)
    assert pairs(chosen) == pairs(items)
    assert len(chosen) < len(items) / 4


def test_of_nothing_there_is_nothing() -> None:
    assert covering([], lambda item: []) == []
