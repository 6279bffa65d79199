"""Indices equal their definition, element for element, however they are made, simplified, written and read again."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from qconv.expression import Axis, Index, Load, flat, unflat
from qconv.expression.index import Entry, Quotient, Remainder
from qconv.expression.node import parsed

Array = NDArray[Any]
AXES = (Axis("i0", 4), Axis("i1", 1), Axis("i2", 6), Axis("r0", 5))
POINTS = [
    dict(zip((axis.name for axis in AXES), at, strict=True))
    for at in itertools.product(*(range(a.extent) for a in AXES))
]
VALUES = {axis.name: np.array([point[axis.name] for point in POINTS]) for axis in AXES}
TABLE = np.random.default_rng(3).integers(0, 50, 4000).astype(np.int32)


@dataclass(frozen=True)
class Made:
    """An index, and what it is by definition, for all points."""

    index: Index
    means: Array


def made(rng: random.Random, depth: int) -> Made:
    """Return a random index that is not negative."""
    if depth == 0:
        axis = rng.choice(AXES)
        return Made(Index.of(axis), VALUES[axis.name])
    one, number = made(rng, depth - 1), rng.choice((1, 2, 3, 4, 6, 7, 12))
    other = made(rng, depth - 1)
    ways: list[Callable[[], Made]] = [
        lambda: Made(one.index + other.index, one.means + other.means),
        lambda: Made(one.index * number + other.index, one.means * number + other.means),
        lambda: Made(one.index + number, one.means + number),
        lambda: Made(one.index - other.index + other.index.high, one.means - other.means + other.index.high),
        lambda: Made(one.index // number, one.means // number),
        lambda: Made(one.index % number, one.means % number),
        lambda: Made((one.index - number) // number + 1, (one.means - number) // number + 1),
        lambda: Made((one.index * -1) % number, -one.means % number),
        lambda: Made(Index.entry("x0", one.index % 50, TABLE), TABLE[one.means % 50]),
    ]
    return rng.choice(ways)()


def values_of(index: Index) -> Array:
    return np.broadcast_to(index.evaluated(VALUES, {"x0": TABLE}), len(POINTS))


def drawn(count: int) -> list[Made]:
    return [made(random.Random(f"index {seed}"), seed % 5) for seed in range(count)]


def test_every_value_is_the_definitions() -> None:
    for each in drawn(400):
        assert np.array_equal(values_of(each.index), np.broadcast_to(each.means, len(POINTS))), str(each.index)


def test_no_value_is_outside_of_the_bounds() -> None:
    for each in drawn(300):
        assert each.index.low <= each.means.min() <= each.means.max() <= each.index.high <= each.index.largest


def atoms_of(index: Index) -> list[Any]:
    return list(index.atoms)


def test_no_dividend_is_negative_and_no_division_is_without_effect() -> None:
    for each in drawn(400):
        for atom in atoms_of(each.index):
            if isinstance(atom, Quotient | Remainder):
                assert atom.of.low >= 0, str(each.index)
                assert atom.of.high >= atom.by > 1, str(each.index)


def read(text: str) -> Index:
    axes = {axis.name: axis for axis in AXES}
    load = parsed(f"t0=x1[{text}]", axes, {"x0": "int32", "x1": "int8"}, {"x0": (0, 49)})
    assert isinstance(load, Load)
    return load.at


def test_a_text_is_read_as_the_same_index() -> None:
    for each in drawn(400):
        assert read(str(each.index)) == each.index


def test_a_text_is_its_value_in_python_and_in_cpp() -> None:
    """Python's // and C's / are the same, because no dividend is negative."""
    for each in drawn(80):
        text = str(each.index).replace("/", "//")
        got = [eval(text, {"x0": TABLE} | point) for point in POINTS]
        assert np.array_equal(got, np.broadcast_to(each.means, len(POINTS))), text


def test_an_index_in_the_place_of_an_axis() -> None:
    other = {axis: made(random.Random(f"other {axis.name}"), 2) for axis in AXES}
    other = {axis: Made(one.index % axis.extent, one.means % axis.extent) for axis, one in other.items()}
    moved = {axis.name: np.broadcast_to(one.means, len(POINTS)) for axis, one in other.items()}
    for each in drawn(200):
        got = each.index.substituted(lambda axis: other[axis].index)
        want = np.broadcast_to(each.index.evaluated(moved, {"x0": TABLE}), len(POINTS))
        assert np.array_equal(values_of(got), want), str(each.index)


@pytest.mark.parametrize("seed", range(6))
def test_flat_and_unflat_are_inverse(seed: int) -> None:
    rng = random.Random(seed)
    shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
    axes = [Axis(f"i{at}", extent) for at, extent in enumerate(shape)]
    offset = flat(map(Index.of, axes), shape)
    assert (offset.low, offset.high) == (0, prod(shape) - 1)
    assert unflat(offset, shape) == tuple(map(Index.of, axes))
    whole = Axis("i0", prod(shape))
    assert flat(unflat(Index.of(whole), shape), shape) == Index.of(whole)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (Index.of(AXES[0]) * 6 + Index.of(AXES[2]), "i0 * 6 + i2"),
        ((Index.of(AXES[0]) * 6 + Index.of(AXES[2])) // 6, "i0"),
        ((Index.of(AXES[0]) * 6 + Index.of(AXES[2])) % 6, "i2"),
        ((Index.of(AXES[0]) * 6 + Index.of(AXES[2])) // 3, "i0 * 2 + i2 / 3"),
        ((Index.of(AXES[0]) * 4 + 2) // 6, "(i0 * 2 + 1) / 3"),
        (Index.of(AXES[2]) // 4 * 4 + Index.of(AXES[2]) % 4, "i2"),
        (Index.of(AXES[1]) * 9, "0"),
        ((Index.of(AXES[2]) - 1) // 4, "(i2 + 3) / 4 - 1"),
        (Index.of(AXES[2]) * -1 - 3, "-3 - i2"),
    ],
)
def test_what_is_simplified(index: Index, text: str) -> None:
    assert str(index) == text
    assert str(read(text)) == text


def test_values_that_rise_evenly_need_no_table() -> None:
    own = Index.of(AXES[2])
    assert Index.entry("x0", own, np.arange(6) * 3 + 2) == own * 3 + 2
    assert Index.entry("x0", own + 1, np.arange(7, 0, -1)) == own * -1 + 6
    assert Index.entry("x0", own, np.array([0, 1, 4])).tables == {"x0"}


def test_tables_are_renamed() -> None:
    entry = Index.entry("x0", Index.of(AXES[2]), np.array([0, 5, 1, 2, 3, 4]))
    moved = ((entry * 2 + 1) // 3 + Index.entry("x1", entry, np.array([0, 1, 4, 2, 2, 2]))).renamed(
        {"x0": "a", "x1": "b"}
    )
    assert moved.tables == {"a", "b"}
    assert {type(atom) for atom in moved.atoms} >= {Entry, Quotient}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("i0 / -2", "multiplied and divided by positive numbers"),
        ("i0 * i2", "multiplied and divided by positive numbers"),
        ("i0 % 0", "multiplied and divided by positive numbers"),
        ("(i0 - 1) / 2", "no dividend is negative"),
        ("(i0 - 1) % 2", "no dividend is negative"),
        ("i0 // 2", "made by"),
        ("i0 ** 2", "made by|positive"),
        ("i9", "the axes are i0, i1, i2, r0"),
        ("1.5", "no index"),
        ("True", "no index"),
        ("x1[0]", "no index"),
        ("i0 if i0 else i2", "no index"),
    ],
)
def test_what_is_no_index(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read(text)
