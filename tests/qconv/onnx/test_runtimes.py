"""The modes of other systems, of a quantized model: which layers each takes, and how many outputs differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import quantized_networks as networks
from called import document_here, here
from onnx import TensorProto, helper, numpy_helper

from qconv.arithmetic.mode import PRESETS
from qconv.onnx.quantizer import quantize
from qconv.onnx.runtimes import Runtime, Runtimes

X = np.arange(-128, 128, dtype=np.float32).reshape(1, 1, 16, 16) / 2


def halves(y_zero: int, zero_type: Any = np.int8, w_zero: int = 0) -> onnx.ModelProto:
    """Return a model of one convolution whose sums are its inputs, and whose outputs are half of them: odd sums are
    ties."""
    constants = {
        "x_scale": np.float32(0.5), "x_zero": zero_type(0), "w": np.full((1, 1, 1, 1), 1 + w_zero, np.int8),
        "w_scale": np.float32(1), "w_zero": np.int8(w_zero), "y_scale": np.float32(1), "y_zero": zero_type(y_zero),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "x_scale", "x_zero"], ["xr"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["wr"]),
        helper.make_node("Conv", ["xr", "wr"], ["c"], name="conv"),
        helper.make_node("QuantizeLinear", ["c", "y_scale", "y_zero"], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", "y_scale", "y_zero"], ["y"]),
    ]
    shape = list(X.shape)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "halves", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def found(model: onnx.ModelProto, *samples: Any) -> dict[str, Runtime]:
    runtimes = Runtimes(model)
    for x in samples:
        runtimes.add({"x": x})
    return {one.mode: one for one in runtimes.found}


def test_a_zero_point_that_is_added_before_rounding_moves_every_tie() -> None:
    made = found(halves(y_zero=1), X)
    odd = int(np.count_nonzero(np.arange(-128, 128) % 2))
    for mode in PRESETS:
        before = mode in ("onnx-ref", "torch-onednn")
        expected = (256, odd, 1) if before else (256, 0, 0) if made[mode].taken else (0, 0, 0)
        assert (made[mode].outputs, made[mode].different, made[mode].most) == expected, mode
    assert (made["ck"].taken, made["torch-cudnn"].taken) == (0, 0)
    assert made["ck"].refused == {
        "conv": "y_zero_point in mode 'ck' (Composable Kernel, example 40): that system has none"
    }


def test_weights_have_their_zero_point() -> None:
    """With a weight of 2, no sum would be odd."""
    made = found(halves(y_zero=1, w_zero=1), X)
    assert made["onnx-ref"].different == np.count_nonzero(np.arange(-128, 128) % 2)


def test_truncation_is_not_rounding() -> None:
    made = found(halves(y_zero=0), X, X)
    sums = np.arange(-128, 128)
    moved = int(np.count_nonzero(np.trunc(sums / 2) != np.rint(sums / 2)))
    assert (made["ck"].outputs, made["ck"].different, made["ck"].most) == (512, 2 * moved, 1)
    assert made["ort"].different == made["onnx-ref"].different == made["torch-cudnn"].different == 0


def test_systems_with_one_type_of_bytes_refuse_the_other() -> None:
    made = found(halves(y_zero=1, zero_type=np.uint8), X)
    assert made["et-vulkan"].refused == {"conv": "x_type='uint8' in mode 'et-vulkan': it has int8"}
    assert (made["torch-fbgemm"].taken, made["torch-fbgemm"].outputs) == (1, 256)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runtimes")
    samples = [{"x": networks.images(1, seed)} for seed in range(2)]
    onnx.save(networks.NETWORKS["resnet"](), made / "real.onnx")
    quantize(str(made / "real.onnx"), made / "int8.onnx", samples)
    (made / "samples").mkdir()
    for number, sample in enumerate(samples):
        np.save(made / "samples" / f"{number}.npy", sample["x"])
    return made


def test_every_product_of_a_network_is_counted_with_its_bias(folder: Path) -> None:
    made = found(onnx.load(folder / "int8.onnx"), networks.images(1, 0))
    assert {one.layers for one in made.values()} == {7}
    assert made["torch-fbgemm"].taken == made["migraphx"].taken == 7
    assert made["torch-fbgemm"].outputs > 1000
    for mode in ("torch-fbgemm", "torch-qnnpack", "migraphx", "rocmlir"):  # which keep the bias in another form
        assert made[mode].different <= made[mode].outputs / 1000
        assert made[mode].most <= 1


def test_the_command_says_it_as_text_and_as_data(folder: Path) -> None:
    words = ("compare", folder / "real.onnx", folder / "int8.onnx", "--data", folder / "samples")
    assert document_here(*words)["runtimes"] == []
    said = document_here(*words, "--runtimes")["runtimes"]
    assert [one["mode"] for one in said] == list(PRESETS)
    assert json.dumps(said[0]["refused"]) == "{}"
    printed = here(*words, "--runtimes").stdout
    assert f"ort            7 of 7  0 of {said[0]['outputs']:,}" in printed
    assert "torch-cudnn    0 of 7" in printed
    assert "that system has none" in " ".join(printed.split())
