"""Batches and other open extents that are asked for, and those that a model does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import quantized_networks as networks
from onnx import TensorProto, helper

from qconv.onnx import Unsupported
from qconv.onnx.asked_shapes import AskedShapes, with_batch, with_shapes
from qconv.onnx.model import tensor_of
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


def joined() -> Any:
    """Return a model of two inputs whose extents have names in common."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2, "h"]) for name in "xy")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "y"], ["z"])], "graph", [x, y], [onnx.ValueInfoProto(name="z")]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_shapes_instead_of_batches_and_extents() -> None:
    asked = AskedShapes(shapes=[{"x": (1, 2, 3), "y": (1, 2, 3)}, {"x": (4, 2, 7), "y": (4, 2, 7)}])
    found = [[tensor_of(value).extents for value in fixed.graph.input] for fixed in asked.fixed(joined())]
    assert found == [[(1, 2, 3)] * 2, [(4, 2, 7)] * 2]
    with pytest.raises(ValueError, match="shapes say every extent of the inputs: leave batches and extents out"):
        AskedShapes(batches=[1], shapes=[{}])
    with pytest.raises(ValueError, match="shapes are empty: give those of all inputs"):
        AskedShapes(shapes=[])


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ({"x": (1, 2, 3)}, "the input 'y' was not given; the model takes x, y"),
        ({"x": (1, 2, 3), "y": (1, 2, 3), "z": (1,)}, "the input 'z' is not known"),
        ({"x": (1, 2, 3), "y": (1, 2)}, r"the input 'y' cannot have the shape \(1, 2\); the model takes \(\?, 2, \?\)"),
        ({"x": (1, 3, 3), "y": (1, 2, 3)}, r"the input 'x' cannot have the shape \(1, 3, 3\); the model takes"),
        ({"x": (1, 2, 3), "y": (1, 2, 4)}, r"'y' has the shape \(1, 2, 4\), but its extent h is 3 in another place"),
        ({"x": (1, 2, 0), "y": (1, 2, 0)}, r"'x' has the shape \(1, 2, 0\): extents are at least 1"),
        ({"x": 3, "y": (1, 2, 3)}, "the shape of the input 'x' is 3; give a tuple of extents"),
    ],
)
def test_shapes_that_a_model_does_not_take(shapes: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        with_shapes(joined(), shapes)
