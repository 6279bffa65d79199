"""From a float model to integer kernels, with ONNX Runtime's quantizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import quantized_networks as networks
from onnx import helper, numpy_helper

from qconv.onnx.quantizer import Quantized, Quantizing, quantize

SAMPLES = [{"x": networks.images(1, seed)} for seed in range(3)]


def made(folder: Path, model: Any, how: Quantizing | None = None) -> tuple[Quantized, Any]:
    out = folder / "quantized.onnx"
    return quantize(model, out, SAMPLES, how), onnx.load(out)


@pytest.mark.parametrize("name", ["resnet", "mobilenet_v3"])
def test_every_layer_ends_on_a_kernel(tmp_path: Path, name: str) -> None:
    done, proto = made(tmp_path, networks.NETWORKS[name]())
    assert done.quantized == done.products > 5
    assert done.elsewhere == {}
    assert done.on_kernels is not None
    assert done.on_kernels >= done.products
    zero_points = {str(numpy_helper.to_array(t).dtype) for t in proto.graph.initializer if "zero_point" in t.name}
    assert zero_points == {"int8", "int32", "uint8"}
    assert any(numpy_helper.to_array(t).size > 1 for t in proto.graph.initializer if t.name.endswith("_scale"))


def test_the_settings_reach_the_quantizer(tmp_path: Path) -> None:
    _, proto = made(tmp_path, networks.NETWORKS["resnet"](), Quantizing("int8", False, 7, "percentile"))
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    weights = [array for name, array in arrays.items() if name.endswith("_quantized") and array.dtype == np.int8]
    assert max(np.abs(array.astype(int)).max() for array in weights) <= 64
    assert all(array.size == 1 for name, array in arrays.items() if name.endswith("_scale"))
    assert "uint8" not in {str(array.dtype) for array in arrays.values()}


@pytest.mark.parametrize(("word", "left"), [("conv5", 1), ("Conv", 6)])
def test_what_is_left_out_stays_in_floats(tmp_path: Path, word: str, left: int) -> None:
    done, proto = made(tmp_path, networks.NETWORKS["resnet"](), Quantizing(leave_out=(word,)))
    assert done.products - done.quantized == left
    dequantized = {name for node in proto.graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    convolutions = {node.name: node for node in proto.graph.node if node.op_type == "Conv"}
    assert convolutions["conv5"].input[1] not in dequantized


def normed(opset: int) -> Any:
    """Return a convolution with a batch norm behind it, which becomes part of the convolution."""
    scales = {name: np.full(3, 0.5, np.float32) for name in ("scale", "shift", "mean", "variance")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("BatchNormalization", ["c", *scales], ["y"], name="norm"),
    ]
    shape = ["N", 3, 16, 16]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("x", "y")]
    arrays = {"w": np.ones((3, 3, 1, 1), np.float32), **scales}
    held = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "normed", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=6)


def test_a_layer_that_was_fused_is_known_by_its_output(tmp_path: Path) -> None:
    assert made(tmp_path, normed(17))[0].quantized == 1
    assert made(tmp_path, normed(17), Quantizing(leave_out=("norm",)))[0].quantized == 0


def test_an_old_opset_is_converted(tmp_path: Path) -> None:
    done, proto = made(tmp_path, normed(11))
    assert done.quantized == done.products == 1
    assert proto.opset_import[0].version == 13


def test_a_model_that_is_quantized_or_has_no_layers_is_refused(tmp_path: Path) -> None:
    _, proto = made(tmp_path, networks.NETWORKS["resnet"]())
    with pytest.raises(ValueError, match="the model is quantized already"):
        made(tmp_path, proto)
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 3]) for name in ("x", "y")]
    model = helper.make_model(
        helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", ends[:1], ends[1:]), ir_version=9
    )
    with pytest.raises(ValueError, match="the model has none of Conv, ConvTranspose, Gemm, MatMul"):
        made(tmp_path, model)
    with pytest.raises(ValueError, match=r"no layer and no op 'conv55' \(did you mean 'conv5'\?\)"):
        made(tmp_path, networks.NETWORKS["resnet"](), Quantizing(leave_out=("conv55",)))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"activations": "int4"}, "activations='int4' is not one of uint8, int8"),
        ({"method": "max"}, "method='max' is not one of minmax"),
        ({"weight_bits": 4}, "weight_bits=4 must be 7 or 8"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Quantizing(**given)
