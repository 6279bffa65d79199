"""Fusion of layers to expressions: tensors without an inferred shape, and outputs of a layer that has several."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from one_expression import evaluated

from qconv.network import Layer, Network, Tensor
from qconv.network.expressions.fuse import unfolded


def test_a_made_scalar_has_a_shape_without_inference() -> None:
    """ONNX Runtime says of a scalar what it says of an unknown shape."""
    layers = (
        Layer("most", "ReduceMax", ("x",), ("most",), {"keepdims": 0}),
        Layer("least", "ReduceMin", ("x",), ("least",), {"keepdims": 0}),
        Layer("range", "Sub", ("most", "least"), ("range",)),
        Layer("scaled", "Div", ("x", "range"), ("y",)),
    )
    tensors = {name: Tensor(name, "float32") for name in ("most", "least", "range")}
    tensors |= {name: Tensor(name, "float32", (5, 7)) for name in "xy"}
    x = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    got = evaluated(Network(("x",), ("y", "range"), layers, tensors, {}), {"x": x})
    np.testing.assert_array_equal(got, x / (x.max() - x.min()))


def test_an_output_of_a_layer_with_several_stays_a_layer() -> None:
    split = Layer("s", "Split", ("x",), ("a", "b"))
    outputs = [Layer(f"s:{y}", "Split", ("x",), (y,), parts=(split,)) for y in "ab"]
    parts = (Layer("relu", "Relu", ("a",), ("c",)), Layer("neg", "Neg", ("c",), ("d",)))
    folded = Layer("neg", "Neg", ("a",), ("d",), parts=parts)
    network = Network(("x",), ("d", "b"), (*outputs, folded), {}, {})
    assert unfolded(network, ()).layers == (*outputs, *parts)
    assert unfolded(network, ("neg",)).layers == (*outputs, folded)
