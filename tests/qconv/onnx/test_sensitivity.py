"""The error of one quantized layer among floats: beside a model in which the quantizer itself left all others out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import onnxruntime
import quantized_networks as networks
from onnx import numpy_helper

from qconv.onnx.comparison import Output
from qconv.onnx.model import session_options
from qconv.onnx.options import EXACT_SUMS
from qconv.onnx.quantizer import PRODUCTS, Quantizing, prepared, quantize
from qconv.onnx.sensitivity import Sensitive, sensitivity

SAMPLES = [{"x": networks.images(1, seed)} for seed in range(3)]


def made(folder: Path, name: str, **how: object) -> tuple[str, str]:
    real, quantized = folder / f"{name}.onnx", folder / f"{name}.int8.onnx"
    onnx.save(networks.NETWORKS[name](), real)
    quantize(str(real), quantized, SAMPLES, Quantizing(**how))  # type: ignore[arg-type]
    return str(real), str(quantized)


def alone(folder: Path, real: str, layer: str, activation: str | None) -> Output:
    """Return the error of the output where the quantizer leaves all layers out but one and its activation."""
    kept = {layer, activation}
    others = [node.name for node in prepared(real).graph.node if node.name not in kept]
    only = folder / "only.onnx"
    quantize(real, only, SAMPLES, Quantizing(leave_out=tuple(others)))
    options = session_options(EXACT_SUMS)
    whole, one = (onnxruntime.InferenceSession(str(path), options) for path in (real, only))
    (name,) = (value.name for value in whole.get_outputs())
    output = Output(name)
    for feeds in SAMPLES:
        output.add(whole.run(None, feeds)[0], one.run(None, feeds)[0])
    return output


# Layers for which the quantizer chooses the same scales if it leaves all others out.
SAME_SCALES = {"resnet": ("gemm16", "conv10", "conv0"), "mobilenet": ("conv12", "conv8", "conv4")}


@pytest.mark.parametrize("name", SAME_SCALES)
def test_it_is_what_the_quantizer_gives_for_one_layer(name: str, tmp_path: Path) -> None:
    real, quantized = made(tmp_path, name)
    nodes = list(prepared(real).graph.node)
    readers = {one: node.name for node in nodes for one in node.input}
    found = {one.name: one for one in sensitivity(real, quantized, SAMPLES)}
    outputs_of = {node.name: node.output[0] for node in nodes}
    for layer in (found[each] for each in SAME_SCALES[name]):
        activation = readers[outputs_of[layer.name]] if " " in layer.op else None
        want = alone(tmp_path, real, layer.name, activation).error
        assert layer.worst.noise == pytest.approx(want.noise, rel=1e-6), layer.name
        assert layer.worst.signal == pytest.approx(want.signal, rel=1e-6)


def test_the_costly_one_is_first(tmp_path: Path) -> None:
    """One channel of a layer has huge weights, and one scale serves all channels: the others are rounded to nothing."""
    real, _ = made(tmp_path, "resnet")
    model = onnx.load(real)
    conv = next(node for node in model.graph.node if node.op_type == "Conv" and node.name == "conv3")
    (weights,) = (tensor for tensor in model.graph.initializer if tensor.name == conv.input[1])
    values = numpy_helper.to_array(weights).copy()
    values[0, 0, 0, 0] = 60 * np.abs(values).max()
    weights.CopyFrom(numpy_helper.from_array(values, weights.name))
    onnx.save(model, real)
    quantized = str(tmp_path / "coarse.onnx")
    quantize(real, Path(quantized), SAMPLES, Quantizing(per_channel=False))
    found = sensitivity(real, quantized, SAMPLES)
    assert found[0].name == "conv3"
    assert len(found) == sum(node.op_type in PRODUCTS for node in prepared(real).graph.node)
    decibels = [one.worst.decibels for one in found]
    assert decibels == sorted(decibels, key=lambda one: np.inf if one is None else one)
    own = [one.own.decibels for one in found]
    assert None not in own
    assert min(own) == own[0]  # type: ignore[type-var]
    assert found[0].as_dict()["outputs_db"] == decibels[0]


def test_layers_in_floats_are_none_of_them(tmp_path: Path) -> None:
    real, quantized = made(tmp_path, "resnet", leave_out=("conv3", "gemm16"))
    names = {one.name for one in sensitivity(real, quantized, SAMPLES)}
    assert names == {"conv0", "conv5", "conv8", "conv10", "conv11"}


def test_a_layer_without_noise_is_last() -> None:
    noisy, exact = (Sensitive(name, "Conv", outputs=(Output("y"),)) for name in ("noisy", "exact"))
    noisy.outputs[0].add(np.float32([1]), np.float32([2]))
    exact.outputs[0].add(np.float32([1]), np.float32([1]))
    assert (noisy.worst.decibels, exact.worst.decibels) == (0.0, None)


def test_models_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    real, quantized = made(tmp_path, "resnet")
    with pytest.raises(ValueError, match="quantized already, as its DequantizeLinear says"):
        sensitivity(quantized, quantized, SAMPLES)
    with pytest.raises(ValueError, match="no layer of the float model with quantized weights: give a model in the QDQ"):
        sensitivity(real, real, SAMPLES)
