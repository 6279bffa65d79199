"""Indices of moved elements: sums of multiples of axes wherever there is such an index."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from expressed_layers import drawn, keys_of, model_of_nodes
from onnx import helper

from qconv.expression import Axis, Index, flat, unflat

RNG = np.random.default_rng(54)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def node(op: str, inputs: str, y: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), [y], **attributes)


def moved(x: tuple[int, ...], perm: list[int], first: Any, last: Any) -> tuple[Any, ...]:
    """Return a reshape, a transposition and a reshape, with the shape of x."""
    nodes = [node("Reshape", "x s", "a"), node("Transpose", "a", "b", perm=perm), node("Reshape", "b t", "y")]
    return nodes, x, {"s": first, "t": last}


# The nodes, the shape of x, the constants, and the end of the expected key.
CASES: dict[str, tuple[Any, ...]] = {
    "channels in another order": (
        *moved((2, 8, 6, 4), [0, 2, 1, 3, 4], ints(2, 2, 4, 6, 4), ints(2, 8, 6, 4)),
        "shape=2,4,2,24:in=float32*384:out=float32:do=t0=x0[i0*192+i2*96+i1*24+i3]",
    ),
    "pixels out of channels": (
        *moved((1, 8, 6, 4), [0, 1, 4, 2, 5, 3], ints(1, 2, 2, 2, 6, 4), ints(1, 2, 12, 8)),
        "shape=2,6,2,4,2:in=float32*192:out=float32:do=t0=x0[i0*96+i2*48+i4*24+i1*4+i3]",
    ),
    "windows of an image": (
        *moved((1, 8, 8, 3), [0, 1, 3, 2, 4, 5], ints(1, 2, 4, 2, 4, 3), ints(-1, 16, 3)),
        "shape=2,2,4,12:in=float32*192:out=float32:do=t0=x0[i0*96+i2*24+i1*12+i3]",
    ),
    "a head of attention": (
        [
            node("Reshape", "x s", "a"),
            node("Transpose", "a", "b", perm=[2, 0, 3, 1, 4]),
            node("Gather", "b g", "y", axis=0),
        ],
        (2, 5, 24),
        {"s": ints(2, 5, 3, 2, 4), "g": np.int64(1)},
        "shape=2,2,5,4:in=float32*240:out=float32:do=t0=x0[i0*120+i2*24+i1*4+i3+8]",
    ),
    "every second element, backwards": (
        [node("Slice", "x s e a t", "y")],
        (4, 9),
        {"s": ints(-1), "e": ints(-99), "a": ints(1), "t": ints(-2)},
        "do=t0=x0[i0*9-i1*2+8]",
    ),
    "an even gather": (
        [node("Gather", "x g", "y", axis=1)],
        (4, 9),
        {"g": ints(1, 4, 7)},
        "shape=12:in=float32*36:out=float32:do=t0=x0[i0*3+1]",
    ),
    "channels of two tensors": (
        [
            node("Slice", "x b e a", "p"),
            node("Slice", "x z c a", "q"),
            node("Concat", "p q", "y", axis=1),
        ],
        (2, 8, 4, 4),
        {"z": ints(0), "c": ints(2), "b": ints(3), "e": ints(8), "a": ints(1)},
        "do=t0=guarded(x0[i0*128+i1*16+i2-80],0.0,i1-5,2);t1=guarded(x0[i0*128+i1*16+i2+48],t0,i1,5)",
    ),
    "channels that are rotated": (
        [
            node("Slice", "x b e a", "p"),
            node("Slice", "x z b a", "q"),
            node("Concat", "p q", "y", axis=1),
        ],
        (2, 8, 4, 4),
        {"z": ints(0), "b": ints(4), "e": ints(8), "a": ints(1)},
        "shape=2,8,16:in=float32*256:out=float32:do=t0=x0[i0*128+(i1+4)%8*16+i2]",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_neighbours_stay_neighbours(name: str) -> None:
    nodes, shape, constants, key = CASES[name]
    (made,) = keys_of(model_of_nodes(nodes, {"x": drawn(RNG, shape)}, constants))
    assert made.endswith(key), made


def drawn_index(axes: list[Axis], values: list[Any]) -> tuple[Index, Any]:
    """Draw sums, quotients and remainders of axes, with their values."""
    pool: list[tuple[Index, Any]] = [(Index.of(axis), each) for axis, each in zip(axes, values, strict=True)]
    for _ in range(6):
        (one, of_one), (other, of_other) = (pool[each] for each in RNG.integers(0, len(pool), 2))
        number, more = int(RNG.choice([1, 2, 3, 4, 6, 8, 12, 24])), int(RNG.integers(-9, 10))
        pool += [
            [(one + other, of_one + of_other), (one * number + other, of_one * number + of_other)],
            [(one // number, of_one // number), (one % number, of_one % number)],
            [(one - other, of_one - of_other), (one + more, of_one + more)],
        ][int(RNG.integers(0, 3))]
    return pool[-1]


def test_every_index_has_the_value_and_the_range_of_its_arithmetic() -> None:
    for _ in range(300):
        axes = [Axis(f"i{at}", int(RNG.choice([1, 2, 3, 4, 6, 8, 12]))) for at in range(3)]
        values = list(np.ogrid[tuple(slice(axis.extent) for axis in axes)])
        index, wanted = drawn_index(axes, values)
        got = index.evaluated(dict(zip((axis.name for axis in axes), values, strict=True)), {})
        assert (np.asarray(got - wanted) == 0).all(), str(index)
        assert index.low <= np.min(wanted)
        assert index.high >= np.max(wanted)


@pytest.mark.parametrize("fine", [8, 9])
def test_a_fine_part_that_reaches_the_unit_carries(fine: int) -> None:
    coarse, rest = np.ogrid[:3, :fine]
    index = Index.of(Axis("i0", 3)) * 8 + Index.of(Axis("i1", fine))
    for made, wanted in ((index // 16, (coarse * 8 + rest) // 16), (index % 16, (coarse * 8 + rest) % 16)):
        got = made.evaluated({"i0": coarse, "i1": rest}, {})
        np.testing.assert_array_equal(got + 0 * wanted, wanted)


def test_a_reshape_there_and_back_is_nothing() -> None:
    for _ in range(200):
        shape = [int(each) for each in RNG.choice([1, 2, 3, 4, 6], 3)]
        first = int(RNG.choice([each for each in range(1, prod(shape) + 1) if prod(shape) % each == 0]))
        other = (first, prod(shape) // first)
        indices = [Index.of(Axis(f"i{at}", extent)) for at, extent in enumerate(shape)]
        back = unflat(flat(unflat(flat(indices, shape), other), other), shape)
        assert list(back) == indices


@pytest.mark.parametrize(
    ("values", "text"),
    [([4, 4, 4], "4"), ([1, 3, 5], "i0 * 2 + 1"), ([5, 4, 3], "5 - i0"), ([2, 2, 5, 5, 8], "i0 / 2 * 3 + 2")],
)
def test_values_that_rise_evenly_need_no_table(values: list[int], text: str) -> None:
    assert str(Index.entry("table", Index.of(Axis("i0", len(values))), np.array(values))) == text


@pytest.mark.parametrize("values", [[0, 1, 3], [1, 0, 0], [0, 1, 0], [0, 1, 5, 3]])
def test_other_values_are_a_table(values: list[int]) -> None:
    assert Index.entry("table", Index.of(Axis("i0", len(values))), np.array(values)).tables == {"table"}
