"""Bounds of an index under guards contain what it takes there, and are exact where variables are joined."""

from __future__ import annotations

import itertools
import random

import pytest

from qconv.expression import Axis, Guard, Index
from qconv.expression import bounds as module
from qconv.expression.bounds import bounds
from qconv.expression.index import Entry

I0, I1, I2 = Axis("i0", 7), Axis("i1", 5), Axis("i2", 3)
A, B, C = Index.of(I0), Index.of(I1), Index.of(I2)


def drawn(rng: random.Random) -> Index:
    terms = [A, B, C, (A + B) // 3, (A * 2 + C) % 4, (B + C) // 2]
    return sum((term * rng.randint(-4, 9) for term in rng.sample(terms, 3)), Index((), rng.randint(-9, 9)))


def taken(index: Index, guards: list[Guard]) -> list[int]:
    """Return all values where the guards hold."""
    found = []
    for at in itertools.product(*(range(axis.extent) for axis in (I0, I1, I2))):
        point = dict(zip(("i0", "i1", "i2"), at, strict=True))
        if all(0 <= int(guard.index.evaluated(point, {})) < guard.extent for guard in guards):
            found.append(int(index.evaluated(point, {})))
    return found


def test_all_values_are_within() -> None:
    for seed in range(60):
        rng = random.Random(f"bounds {seed}")
        index, guards = drawn(rng), [Guard(drawn(rng), rng.randint(1, 9)) for _ in range(rng.randint(0, 2))]
        found, values = bounds(index, guards), taken(index, guards)
        if found is None:
            assert not values
        elif values:
            assert found[0] <= min(values) <= max(values) <= found[1]


@pytest.mark.parametrize(
    ("index", "guards", "want"),
    [
        ((A - 2) * 5 + B, [Guard(A - 2, 5)], (0, 24)),
        ((A + C - 1) * 5 + B - 1, [Guard(A + C - 1, 7), Guard(B - 1, 4)], (0, 33)),
        (A // 2 * 5 + B, [Guard(A % 2, 1)], (0, 19)),
        (A * 4 + 3, [], (3, 27)),
        (A, [Guard(A - 9, 1)], None),
        (B, [Guard(A - 9, 1)], None),
        (A, [Guard(Index((), 3), 3)], None),
        (A, [Guard(Index((), 2), 3)], (0, 6)),
        (Index(((Entry("x0", A, -1, 6), 2),)), [Guard(Index(((Entry("x0", A, -1, 6), 1),)), 7)], (0, 12)),
    ],
)
def test_bounds_are_exact(index: Index, guards: list[Guard], want: tuple[int, int] | None) -> None:
    assert bounds(index, guards) == want


def test_beyond_a_number_of_combinations_guards_are_not_considered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TRIED", 6)
    assert bounds(A - 2, [Guard(A - 2, 3)]) == (-2, 4)
