"""The bytes that a report counts as crossing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qconv.instances.load.needs import Needs
from qconv.network import Layer, Network, Reason, Tensor
from qconv.network.run.report import ELSEWHERE, HERE, Explanation, LayerTime, Placed, Profile, explained
from qconv.network.run.work import operations_of

SO = Placed(HERE, Reason("so"))


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
    there = Placed(ELSEWHERE, Reason("why"))
    explanation = explained(network, layers, {"a": there, "b": SO, "c": SO, "d": there}, {})
    assert [(row.bytes_in, row.bytes_out) for row in explanation.rows] == [(0, 10), (10, 0), (0, 30), (30, 0)]
    assert explanation.crossing_bytes == 40
    assert explanation.fallen_back == {"Quantize": 1, "Pool": 1}
    assert "2 of 4 layers run on qconv's kernels; elsewhere: Quantize 1, Pool 1" in str(explanation)


def network_of_both() -> Explanation:
    """Return the report on a convolution here, and one of each kind elsewhere."""
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
    tensors |= {"F": Tensor("F", "float32", (1, 8, 5)), "B": Tensor("B", "int8", (7,))}
    weights = {"W": np.ones((8, 2, 3)), "V": np.ones((3, 4))}
    network = Network(("X",), ("G",), layers, tensors, weights)
    reasons = {"c": Reason("the floats that it makes are read elsewhere", "d"), "d": Reason("no softmax")}
    reasons |= {"g": Reason("no softmax"), "e": Reason("no product"), "f": Reason("floats", cure="quantize it")}
    places = {name: Placed(ELSEWHERE, why) for name, why in reasons.items()}
    places |= {"a": replace(SO, operations=0), "b": replace(SO, operations=1000, needs=Needs(96, 8, 2.5))}
    return replace(explained(network, layers, places, {}), islands=2)


def test_multiplications_are_counted_on_both_sides() -> None:
    """The cause of the most multiplications comes first, and what follows from another layer's is no cause."""
    explanation = network_of_both()
    assert [row.operations for row in explanation.rows] == [0, 1000, 0, 0, 2 * 8 * 3, 2 * 40 * 6, 0]
    assert explanation.share == 1000 / 1528
    assert explanation.float_share == 528 / 1528
    causes = ["Conv 1: floats; quantize it", "MatMul 1: no product", "Softmax 2: no softmax"]
    assert list(map(str, explanation.causes)) == causes
    assert explanation.advice == (
        "5 of 7 layers, with 34.6 % of the multiplications, run elsewhere, in 2 parts, and ? cross in each run: "
        + "; ".join(causes)
    )
    assert "multiplications on qconv's kernels: 65.4 %; subgraphs elsewhere: 2" in str(explanation)
    assert "predicted 2.50 us, without 1 layers whose time is unknown" in str(explanation)
    assert "weights and constants in 96 B; workspaces in 8 B" in str(explanation)


def test_a_report_is_data_as_well() -> None:
    data = json.loads(json.dumps(network_of_both().as_dict()))
    assert [layer["name"] for layer in data["layers"]] == list("abcdefg")
    assert data["layers"][1]["weight_bytes"] == data["weight_bytes"] == 96
    assert data["layers"][2]["follows"] == "d"
    assert [cause["operations"] for cause in data["causes"]] == [480, 48, 0]
    assert data["causes"][0] | {"operations": 0} == {
        "why": "floats; quantize it", "ops": {"Conv": 1}, "layers": ["f"], "operations": 0, "bytes": 0,
        "cure": "quantize it",
    }  # fmt: skip
    assert (data["share"], data["islands"], data["crossing_bytes"]) == (1000 / 1528, 2, None)


def test_a_profile_adds_measured_times() -> None:
    """An island's time stands at its first layer, and sums count it once."""
    rows = (
        LayerTime("b", "QLinearConv", HERE, 3.0, ("b",)),
        LayerTime("c ... g", "5 layers", ELSEWHERE, 40.0, tuple("cdefg")),
    )
    explanation = network_of_both().with_times(Profile(rows))
    assert [row.measured_us for row in explanation.rows] == [None, 3.0, 40.0, None, None, None, None]
    assert explanation.measured_us == 43.0
    assert "measured 43.00 us" in str(explanation)
    assert network_of_both().measured_us is None


def test_floats_on_kernels_are_a_cause_above_a_twentieth() -> None:
    layers = (Layer("a", "QLinearConv", ("X",), ("A",)), Layer("b", "MatMul", ("A", "A"), ("B",)))
    network = Network(("X",), ("B",), layers, {}, {})
    for floats, is_told in ((50, False), (54, True)):
        places = {"a": replace(SO, operations=950), "b": replace(SO, operations=floats, floats="float32")}
        explanation = explained(network, layers, places, {})
        assert explanation.float_share == floats / (950 + floats)
        assert bool(explanation.advice) is is_told
    assert explanation.advice.startswith(
        "5.4 % of the multiplications are in floats: MatMul 1: its products are of floats"
    )
    assert "quantize_static" in explanation.advice


def test_nothing_elsewhere_needs_no_advice() -> None:
    layer = Layer("a", "Relu", ("X",), ("A",))
    network = Network(("X",), ("A",), (layer,), {}, {})
    explanation = explained(network, (layer,), {"a": SO}, {})
    assert (explanation.advice, explanation.share, explanation.float_share) == ("", 1.0, 0.0)


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
    explanation = explained(network, (layer,), {"a": SO}, {})
    assert (explanation.rows[0].bytes_in, explanation.rows[0].bytes_out) == (None, 8)
    assert explanation.crossing_bytes is None
    seen = {"X": Tensor("X", "int8", (3, 4))}
    assert explained(network, (layer,), {"a": SO}, seen).crossing_bytes == 20
