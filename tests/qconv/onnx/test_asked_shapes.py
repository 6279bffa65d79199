"""Batches and other open extents that are asked for, and those that a model does not have."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import quantized_networks as networks

from qconv.onnx import Unsupported
from qconv.onnx.asked_shapes import with_batch
from qconv.onnx.ship import build


def test_extents_that_are_no_batch_are_refused(tmp_path: Path) -> None:
    model = networks.quantized(networks.squeeze_excite_like(), "QOperator", "u8s8", per_channel=False)
    assert not model.graph.input[0].type.tensor_type.shape.dim[0].HasField("dim_value")
    fixed = with_batch(model, 5).graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in fixed.dim] == [5, 3, networks.SIZE, networks.SIZE]
    open_width = onnx.ModelProto()
    open_width.CopyFrom(model)
    open_width.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "W"
    with pytest.raises(Unsupported, match=r"extent 3 of the input 'x' is open, .* first: give W, by --extent of build"):
        with_batch(open_width, 1)
    named = with_batch(open_width, 1, {"W": 7, "H": 8}).graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in named.dim] == [1, 3, networks.SIZE, 7]
    open_width.graph.input[0].type.tensor_type.shape.dim[3].ClearField("dim_param")
    with pytest.raises(Unsupported, match="extent 3 of the input 'x' is open, and --batch fixes the first: fix it"):
        with_batch(open_width, 1)
    for extents, says in (
        ({"H": [1]}, r"the extent 'H' is none of the model's open ones behind the batch \(W\): correct its name"),
        ({"W": []}, r"W=\(\) must have at least one number, of at least 1"),
        ({"W": [8, 0]}, r"W=\(8, 0\) must have at least one number, of at least 1"),
    ):
        open_width.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "W"
        with pytest.raises(ValueError, match=says):
            build(open_width, tmp_path / "model.qconv", "cpu", extents=extents)
