"""A quantized model beside its float model: ratios, clipping, arg max, layer by layer."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import quantized_networks as networks
from onnx import numpy_helper

from qconv.onnx.comparison import Comparison, Layer, Output, Ratio, Steps, compare
from qconv.onnx.quantizer import quantize

SAMPLES = [{"x": networks.images(1, seed)} for seed in range(3)]
BYTES = Steps(0.5, 10, 0, 255)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a float model and its quantized one."""
    made = tmp_path_factory.mktemp("compared")
    onnx.save(networks.NETWORKS["resnet"](), made / "real.onnx")
    quantize(str(made / "real.onnx"), made / "int8.onnx", SAMPLES)
    return made


def compared(folder: Path, **how: Any) -> Comparison:
    return compare(str(folder / "real.onnx"), str(folder / "int8.onnx"), SAMPLES, **how)


def test_a_ratio_is_of_all_samples() -> None:
    ratio = Ratio()
    ratio.add(np.float32([3, 4]), np.float32([3, 4]))
    assert (ratio.decibels, str(ratio)) == (None, "exact")
    ratio.add(np.float32([0, 5]), np.float32([0.5, 5]))
    assert ratio.decibels == pytest.approx(10 * math.log10(50 / 0.25))
    assert str(ratio) == "23.0 dB"
    silent = Ratio()
    silent.add(np.float32([0]), np.float32([1]))
    assert (silent.decibels, str(silent)) == (None, "no signal")


def test_steps_round_and_count_what_they_clip() -> None:
    rounded, clipped = BYTES.rounded(np.float32([-5.0, -5.1, -6.0, 0.3, 122.5, 123.0]))
    assert rounded.tolist() == [-5.0, -5.0, -5.0, 0.5, 122.5, 122.5]
    assert clipped == 2


def test_a_layer_counts_shares_over_all_samples() -> None:
    layer = Layer("conv", "Conv", "y", BYTES)
    for values in ([0.0, 200.0], [300.0, 1.0]):
        layer.add(np.float32(values), np.float32(values))
    assert layer.clipped_share == 0.5
    assert layer.error.decibels is None
    assert layer.rounding.decibels is not None


def test_the_arg_max_is_along_the_classes() -> None:
    output = Output("y")
    output.add(np.float32([[1, 2, 3], [3, 2, 1]]), np.float32([[1, 2, 3], [2, 3, 1]]))
    assert (output.equal, output.places, output.agreement) == (1, 2, 0.5)
    pixels = Output("y")
    pixels.add(np.float32([[[1, 5], [2, 4]]]), np.float32([[[1, 4], [2, 5]]]))
    assert (pixels.equal, pixels.places) == (1, 2)
    flat = Output("y")
    flat.add(np.float32([1, 2]), np.float32([2, 1]))
    assert flat.agreement is None


def test_every_layer_is_compared(folder: Path) -> None:
    found = compared(folder)
    assert found.samples == 3
    assert [one.name for one in found.layers[:3]] == ["conv0", "maxpool2", "conv3"]
    assert [one.op for one in found.layers[:3]] == ["Conv Relu", "MaxPool", "Conv Relu"]
    for one in found.layers:
        assert one.error.decibels is not None
        assert one.rounding.decibels is not None
        assert 20 < one.error.decibels < one.rounding.decibels + 1
        assert one.clipped_share < 0.01
    (output,) = found.outputs
    assert output.agreement == 1.0
    worst = [one.error.decibels for one in found.worst]
    assert worst == sorted(worst, key=lambda decibels: decibels or 0.0)
    assert found.on_device == ()


def test_a_session_gives_what_onnxruntime_gives(folder: Path) -> None:
    found = compared(folder, device="cpu")
    assert found.device is not None
    assert found.on_device[0].error.decibels == pytest.approx(found.outputs[0].error.decibels, abs=0.5)


def test_a_narrow_scale_is_seen_as_clipping(folder: Path, tmp_path: Path) -> None:
    proto = onnx.load(folder / "int8.onnx")
    for tensor in proto.graph.initializer:
        if tensor.name == "relu1_scale":
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) / 4, tensor.name))
    onnx.save(proto, tmp_path / "narrow.onnx")
    narrow = compare(str(folder / "real.onnx"), str(tmp_path / "narrow.onnx"), SAMPLES)
    wide = compared(folder)
    assert narrow.layers[0].clipped_share > 0.01 > wide.layers[0].clipped_share
    assert (narrow.outputs[0].error.decibels or 0.0) < (wide.outputs[0].error.decibels or 0.0)


def test_models_that_do_not_belong_together_are_refused(folder: Path, tmp_path: Path) -> None:
    onnx.save(networks.NETWORKS["mobilenet"](), tmp_path / "other.onnx")
    with pytest.raises(ValueError, match=r"no tensor of the quantized model|has other outputs than"):
        compare(str(tmp_path / "other.onnx"), str(folder / "int8.onnx"), SAMPLES)
    with pytest.raises(ValueError, match="no tensor of the quantized model has the name"):
        compare(str(folder / "real.onnx"), str(folder / "real.onnx"), SAMPLES)


def test_it_is_data(folder: Path) -> None:
    found = compared(folder)
    data = replace(found, layers=found.layers[:1]).as_dict()
    assert data["layers"][0].keys() == {"name", "op", "tensor", "error_db", "rounding_db", "clipped_share"}
    assert data["outputs"][0]["argmax_agreement"] == 1.0
