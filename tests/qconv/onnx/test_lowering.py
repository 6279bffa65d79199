"""The layers of a model that run on kernels, and the reasons given for the others."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import helper
from unusual_models import FLOATS, Made, conv

from qconv.onnx import Session, Unsupported


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
