"""Bytes are stored that products would compute for each of their tiles."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from qconv.expression.index import Index
from qconv.expression.node import Node, call
from qconv.network import Layer, Network, Tensor
from qconv.network.expressions import again
from qconv.network.expressions.again import TILE, is_worth_a_launch
from qconv.network.expressions.lazy import Element, Folding

ROWS, DEPTH, COLUMNS = 130, 8, 200
COST = 3
ALL: Callable[[Layer], bool] = lambda layer: True  # noqa: E731
ELEMENT = Element("x", (Index(),), "int32")


def costing(count: int) -> Node:
    node: Node = ELEMENT
    for _ in range(count):
        node = call("negate", node)
    return node


def network(
    *layers: Layer, dtype: str = "uint8", outputs: tuple[str, ...] = ("y",), **shapes: tuple[int, ...]
) -> Network:
    tensors = {name: Tensor(name, dtype, shape) for name, shape in shapes.items()}
    return Network(("x",), outputs, layers, tensors, {})


def product(a: str, b: str, y: str = "y") -> Layer:
    return Layer(y, "QLinearMatMul", (a, "s", "z", b, "s", "z", "s", "z"), (y,))


LEFT = {"a": (ROWS, DEPTH), "b": (DEPTH, COLUMNS), "y": (ROWS, COLUMNS)}


def computed(made: Network, name: str, monkeypatch: pytest.MonkeyPatch, is_expressed: Any = ALL) -> int:
    """Return how many more elements than there are products compute, by the launch that just does not pay."""
    elements = int(np.prod(made.tensor(name).extents or ()))
    for times in range(12):
        monkeypatch.setattr(again, "LAUNCH", COST * elements * times)
        if not is_worth_a_launch(made, name, costing(COST), is_expressed):
            return times
    raise AssertionError("no launch is long enough")


def test_a_factor_is_computed_for_each_tile_of_the_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(product("a", "b"), **LEFT)
    assert TILE == 64
    assert computed(made, "a", monkeypatch) == 4 - 1
    assert computed(made, "b", monkeypatch) == 3 - 1


def test_a_square_is_two_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(product("a", "a"), a=(130, 130), y=(130, 130))
    assert computed(made, "a", monkeypatch) == 2 * 3 - 1


def test_what_is_moved_and_computed_before_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two halves is half of the elements."""
    halves = (Layer("s:l", "Split", ("a",), ("l",)), Layer("s:r", "Split", ("a",), ("r",)))
    moved = Layer("t", "Transpose", ("r",), ("rt",))
    scaled = Layer("m", "Mul", ("rt", "s"), ("rs",))
    shapes = {"a": (260, DEPTH), "l": (130, DEPTH), "r": (130, DEPTH), "rt": (DEPTH, 130), "rs": (DEPTH, 130)}
    made = network(*halves, moved, scaled, product("l", "rs"), **shapes, y=(130, 130))
    assert computed(made, "a", monkeypatch) == 3 - 1


def test_a_tensor_is_counted_once_however_many_ways_lead_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are 4,096 ways here."""
    names = ["a", *(f"t{at}" for at in range(12))]
    layers = [Layer(y, "Mul", (x, x2), (y,)) for x, y in pairwise(names) for x2 in [f"n{x}"]]
    layers += [Layer(f"n{x}", "Neg", (x,), (f"n{x}",)) for x in names]
    shapes = dict.fromkeys((*names, *(f"n{x}" for x in names)), (ROWS, DEPTH))
    made = network(*layers, product(names[-1], "b"), **LEFT | shapes)
    assert computed(made, "a", monkeypatch) == 4 - 1


def test_what_other_kernels_read_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(product("a", "b"), **LEFT)
    assert computed(made, "a", monkeypatch, lambda layer: False) == 0
    folded = network(Layer("f", "Softmax", ("a",), ("c",)), product("c", "b"), **LEFT, c=(ROWS, DEPTH))
    assert computed(folded, "a", monkeypatch) == 0


@pytest.mark.parametrize(
    ("root", "more"),
    [
        (costing(COST), {"dtype": "float32"}),
        (costing(COST), {"outputs": ("y", "a")}),
        (Folding("sum", costing(COST), ()), {}),
    ],
)
def test_what_is_no_byte_or_in_memory_anyway(root: Node, more: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "LAUNCH", 0)
    assert is_worth_a_launch(network(product("a", "b"), **LEFT), "a", costing(COST), ALL)
    assert not is_worth_a_launch(network(product("a", "b"), **LEFT, **more), "a", root, ALL)


def test_unknown_shapes_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "LAUNCH", 0)
    made = network(product("a", "b"), a=LEFT["a"], y=LEFT["y"])
    assert is_worth_a_launch(made, "a", costing(COST), ALL)
    assert not is_worth_a_launch(network(product("a", "b"), a=LEFT["a"]), "a", costing(COST), ALL)
    assert not is_worth_a_launch(network(product("a", "b"), y=LEFT["y"]), "a", costing(COST), ALL)
