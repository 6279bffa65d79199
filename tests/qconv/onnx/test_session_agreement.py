"""The default meaning beside ONNX Runtime's bits: what is reached over whole networks (docs/networks.md has more)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import onnxruntime
import quantized_networks as networks
from agreement import Agreement, Alone, Integers, measured
from onnx import numpy_helper

from qconv.onnx import Session
from qconv.onnx.asked_shapes import with_batch


@pytest.mark.turns
@pytest.mark.parametrize(
    ("name", "types"),
    [*((name, "u8s8") for name in networks.NETWORKS), ("resnet", "s8s8"), ("mobilenet_v3", "s8s8")],
)
def test_networks_of_integers_are_equal(name: str, types: str) -> None:
    """Outputs in their quanta, and every layer alone."""
    model = with_batch(networks.quantized(networks.NETWORKS[name](), "QDQ", types, True), 4)
    batches = [{"x": networks.images(4, seed)} for seed in range(3)]
    found = measured(model, batches, config=networks.INT8_ALLOWED)
    assert found.alone.elements > 1000
    assert found.alone == Integers(found.alone.elements)
    assert not any(found.of_floats.values())
    assert found.layers_compared == found.layers_in_all
    assert found.outputs == Integers(3 * 4 * networks.CLASSES)
    assert found.same == found.decisions == 3 * 4


def test_an_error_of_a_layer_is_in_no_layer_behind_it() -> None:
    """Other weights in the first convolution."""
    model = with_batch(networks.quantized(networks.NETWORKS["resnet"](), "QDQ", "u8s8", True), 4)
    other = onnx.ModelProto()
    other.CopyFrom(model)
    weights = next(tensor for tensor in other.graph.initializer if tensor.name == "w0_quantized")
    weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights) // 2, weights.name))
    found = Agreement()
    Alone(Session(model, "cpu"), other).add({"x": networks.images(4, 0)}, found)
    assert {op for op, one in found.layers.items() if one.share} == {"QLinearConv"}
    assert found.layers["QLinearConv"].share > 0.1
    assert found.layers_compared == found.layers_in_all > len(found.layers)


@pytest.mark.turns
@pytest.mark.parametrize("name", list(networks.NETWORKS))
def test_signed_activations_are_those_of_floats(name: str) -> None:
    """ONNX Runtime's default makes them unsigned. On a processor without VNNI, it then saturates sums, and is up to 9
    steps from the floats that the model describes."""
    model = with_batch(networks.quantized(networks.NETWORKS[name](), "QDQ", "s8s8", True), 4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    floats = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = measured(model, [{"x": networks.images(4, seed)} for seed in range(3)], reference=floats)
    assert found.outputs.by_more <= 1
    assert found.outputs.by_one + found.outputs.by_more <= 3
    assert found.same == found.decisions == 3 * 4


def test_differences_are_counted_in_quanta() -> None:
    found = Agreement()
    want = np.array([[0.5, 1.0, -1.5, 2.0]], np.float32)
    got = want + np.array([[0, 0.5, 0, -1.0]], np.float32)
    found.add_output(got, want, 0.5, lambda y: y.argmax(1))
    assert found.outputs == Integers(4, 1, 1)
    assert found.outputs.share == 0.5
    assert (found.largest, found.same, found.decisions, found.decided_alike) == (None, 0, 1, 0.0)
    found.add_output(got, want, None, lambda y: y.argmin(1))
    assert (found.largest, found.same, found.decisions) == (pytest.approx(1.0 / 3.5), 1, 2)


def trained(name: str) -> Any:
    for package in ("cv2", "rapidocr_onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install '.[networks]'")
    import fallback_table
    from drawn_text import drawn

    model = fallback_table.with_weights(fallback_table.load(name))
    key = model.graph.input[0].name
    model = networks.quantized(model, "QDQ", "u8s8", True, batches=[{key: drawn(1, (48, 160), at)} for at in range(4)])
    fallback_table.fix(model, (4, 3, 48, 160))
    return model, [{key: drawn(4, (48, 160), 100 + at)} for at in range(4)]


@pytest.mark.slow
def test_a_trained_classifier_decides_alike() -> None:
    """It has 35 layers with separate normalizations: one step in the first of them changed 4 of 96 decisions."""
    model, batches = trained("ch_ppocr_mobile")
    found = measured(model, batches, lambda y: y.argmax(-1))
    assert found.alone == Integers(found.alone.elements)
    assert found.same == found.decisions == 16
    assert found.largest is not None
    assert found.largest <= 1e-6
