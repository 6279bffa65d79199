"""The bytes that a report counts as crossing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qconv.network import Layer, Network, Tensor
from qconv.network.run.report import ELSEWHERE, HERE, explained
from qconv.network.run.work import operations_of


def test_what_crosses_is_counted_once() -> None:
    """x -> a (elsewhere) -> b, c (here) -> d (elsewhere); d and the caller read c's output."""
    layers = (
        Layer("a", "Quantize", ("X",), ("A",)),
        Layer("b", "Conv", ("A", "W"), ("B",)),
        Layer("c", "Conv", ("B", "W"), ("C",)),
        Layer("d", "Pool", ("C",), ("D",)),
    )
    sizes = {"X": 40, "A": 10, "B": 20, "C": 30, "D": 5, "W": 99}
    tensors = {name: Tensor(name, "int8", (size,)) for name, size in sizes.items()}
    network = Network(("X",), ("C", "D"), layers, tensors, {"W": None})  # type: ignore[dict-item]
    reasons = {"a": (ELSEWHERE, "why"), "b": (HERE, "so"), "c": (HERE, "so"), "d": (ELSEWHERE, "why")}
    explanation = explained(network, layers, reasons, {}, {})
    assert [(row.bytes_in, row.bytes_out) for row in explanation.rows] == [(0, 10), (10, 0), (0, 30), (30, 0)]
    assert explanation.crossing_bytes == 40
    assert explanation.fallen_back == {"Quantize": 1, "Pool": 1}
    assert "2 of 4 layers run on qconv's kernels; elsewhere: Quantize 1, Pool 1" in str(explanation)


def test_multiplications_are_counted_on_both_sides() -> None:
    """The cause of the most multiplications comes first, and what follows from another layer's is no cause."""
    layers = (
        Layer("a", "QuantizeLinear", ("X",), ("A",)),
        Layer("b", "QLinearConv", ("A", "s", "z", "W"), ("B",)),
        Layer("c", "DequantizeLinear", ("B",), ("C",)),
        Layer("d", "Softmax", ("C",), ("D",)),
        Layer("e", "MatMul", ("D", "V"), ("E",)),
        Layer("f", "Conv", ("E", "W"), ("F",)),
        Layer("g", "Softmax", ("F",), ("G",)),
    )
    tensors = {"D": Tensor("D", "float32", (2, 3)), "E": Tensor("E", "float32", (2, 4))}
    tensors |= {"F": Tensor("F", "float32", (1, 8, 5))}
    weights = {"W": np.ones((8, 2, 3)), "V": np.ones((3, 4))}
    network = Network(("X",), ("G",), layers, tensors, weights)
    reasons = dict.fromkeys("ab", (HERE, "so")) | {"c": (ELSEWHERE, "the floats that it makes are read elsewhere")}
    reasons |= {"d": (ELSEWHERE, "no softmax"), "g": (ELSEWHERE, "no softmax"), "e": (ELSEWHERE, "no product")}
    reasons |= {"f": (ELSEWHERE, "floats")}
    explanation = replace(explained(network, layers, reasons, {}, {"a": 0, "b": 1000}), islands=2)
    assert [row.operations for row in explanation.rows] == [0, 1000, 0, 0, 2 * 8 * 3, 2 * 40 * 6, 0]
    assert explanation.share == 1000 / 1528
    assert explanation.causes == ("Conv 1: floats", "MatMul 1: no product", "Softmax 2: no softmax")
    assert explanation.advice == (
        "5 of 7 layers, with 34.6 % of the multiplications, run elsewhere, in 2 parts, and ? cross in each run: "
        "Conv 1: floats; MatMul 1: no product; Softmax 2: no softmax"
    )
    assert "multiplications on qconv's kernels: 65.4 %; subgraphs elsewhere: 2" in str(explanation)


def test_nothing_elsewhere_needs_no_advice() -> None:
    layer = Layer("a", "Relu", ("X",), ("A",))
    network = Network(("X",), ("A",), (layer,), {}, {})
    explanation = explained(network, (layer,), {"a": (HERE, "so")}, {}, {})
    assert (explanation.advice, explanation.share) == ("", 1.0)


@pytest.mark.parametrize(
    ("layer", "shapes", "count"),
    [
        (Layer("a", "ConvTranspose", ("x", "w"), ("y",)), {"x": (1, 4, 5), "w": (4, 6, 3), "y": (1, 6, 11)}, 720),
        (Layer("a", "Gemm", ("x", "w"), ("y",), {"transA": 1}), {"x": (7, 2), "w": (7, 3), "y": (2, 3)}, 84),
        (Layer("a", "MatMul", ("x", "w"), ("y",)), {"x": (5, 2, 7), "w": (5, 7, 3), "y": (5, 2, 3)}, 420),
        (Layer("a", "Conv", ("x", "w"), ("y",)), {"x": (1, 4, 5), "w": (6, 4, 3), "y": None}, None),
        (Layer("a", "Softmax", ("x",), ("y",)), {}, 0),
    ],
)
def test_operations_follow_from_shapes(layer: Layer, shapes: dict[str, Any], count: int | None) -> None:
    assert operations_of(layer, shapes.get) == count


def test_a_shape_that_is_not_known_is_not_guessed() -> None:
    layer = Layer("a", "Pool", ("X",), ("A",))
    tensors = {"X": Tensor("X", "int8", (None, 4)), "A": Tensor("A", "int8", (2, 4))}
    network = Network(("X",), ("A",), (layer,), tensors, {})
    explanation = explained(network, (layer,), {"a": (HERE, "so")}, {}, {})
    assert (explanation.rows[0].bytes_in, explanation.rows[0].bytes_out) == (None, 8)
    assert explanation.crossing_bytes is None
    seen = {"X": Tensor("X", "int8", (3, 4))}
    assert explained(network, (layer,), {"a": (HERE, "so")}, seen, {"a": 0}).crossing_bytes == 20
