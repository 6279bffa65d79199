"""The layers of a model that run on kernels, and the reasons given for the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import quantized_networks as networks
from onnx import helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from unusual_models import FLOATS, Made, conv

from qconv.onnx import Session, Unsupported


@pytest.mark.parametrize("weights", [QuantType.QUInt8, QuantType.QInt8])
def test_a_model_of_quantize_dynamic_says_that_its_zero_points_are_computed(weights: QuantType, tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    node = helper.make_node
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Flatten", ["c"], ["f"]), node("MatMul", ["f", "m"], ["y"])]
    held = {"w": draw.standard_normal((8, 4, 3, 3)), "m": draw.standard_normal((96, 10))}
    made = Made(nodes, {"x": FLOATS}, {name: array.astype(np.float32) for name, array in held.items()})
    onnx.save(made.proto, tmp_path / "floats.onnx")
    quantize_dynamic(tmp_path / "floats.onnx", tmp_path / "dynamic.onnx", weight_type=weights)
    proto = onnx.load(tmp_path / "dynamic.onnx")
    session = Session(proto, "cpu")
    np.testing.assert_array_equal(session.run(None, made.feeds)[0], networks.by_ort(proto, made.feeds)[0])
    why = {row.op: row.why for row in session.explain().rows}
    for op in ("DynamicQuantizeLinear", "ConvInteger", "com.microsoft.DynamicQuantizeMatMul"):
        assert "computed at each run" in why[op] or "it computes a scale and a zero point at each run" in why[op]
        assert "quantize_static makes a model with such" in why[op]


def test_a_layer_that_quantizes_between_floats_says_whose_they_are() -> None:
    """Its op has a kernel next to kernel layers: the reason is its place."""
    made = conv(w_shape=(4, 4, 3, 3))
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["f", "x_s", "x_z"], ["x"], name="first"),
        *made.nodes,
        node("DequantizeLinear", ["y", "y_s", "y_z"], ["d"], name="back"),
        node("LRN", ["d"], ["s"], size=3, name="scaled"),
        node("QuantizeLinear", ["s", "x_s", "x_z"], ["q"], name="second"),
    ]
    proto = Made(nodes, {"f": FLOATS}, made.held, ("q",)).proto
    rows = {row.name: row for row in Session(proto, "cpu", bits="onnxruntime").explain().rows}
    assert rows["first"].runs_on == "qconv"
    assert rows["second"].why == "the floats that it reads come from elsewhere, of LRN (scaled)"
    assert rows["back"].why == "the floats that it makes are read elsewhere, by LRN (scaled)"
    rows = {row.name: row for row in Session(proto, "cpu").explain().rows}
    assert rows.pop("scaled").why == "no kernel here computes LRN"
    assert {row.runs_on for row in rows.values()} == {"qconv"}
    refused = r"1 layers would run in ONNX Runtime:\nLRN \(scaled\): no kernel here computes LRN"
    with pytest.raises(Unsupported, match=refused):
        Session(proto, "cpu", strict=True)
