"""The bytes that a report counts as crossing."""

from __future__ import annotations

from qconv.network import Layer, Network, Tensor
from qconv.network.run.report import ELSEWHERE, HERE, explained


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
    explanation = explained(network, layers, reasons, {})
    assert [(row.bytes_in, row.bytes_out) for row in explanation.rows] == [(0, 10), (10, 0), (0, 30), (30, 0)]
    assert explanation.crossing_bytes == 40
    assert explanation.fallen_back == {"Quantize": 1, "Pool": 1}
    assert "2 of 4 layers run on qconv's kernels; elsewhere: Quantize 1, Pool 1" in str(explanation)


def test_a_shape_that_is_not_known_is_not_guessed() -> None:
    layer = Layer("a", "Conv", ("X",), ("A",))
    tensors = {"X": Tensor("X", "int8", (None, 4)), "A": Tensor("A", "int8", (2, 4))}
    network = Network(("X",), ("A",), (layer,), tensors, {})
    explanation = explained(network, (layer,), {"a": (HERE, "so")}, {})
    assert (explanation.rows[0].bytes_in, explanation.rows[0].bytes_out) == (None, 8)
    assert explanation.crossing_bytes is None
    seen = {"X": Tensor("X", "int8", (3, 4))}
    assert explained(network, (layer,), {"a": (HERE, "so")}, seen).crossing_bytes == 20
