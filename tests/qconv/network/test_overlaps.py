"""Every layer of a session asks its kernel to overlap with the previous one if that is faster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from integer_model import Model
from onnx import TensorProto
from overlaps import asked_to_overlap

from qconv.onnx import Session

SHAPE = (1, 4, 5, 5)


def shuffled(model: Model, x: str) -> str:
    split = model.node("Reshape", [convolved(model, x), model.constant(np.array([1, 2, 2, 5, 5]))])
    turned = model.node("Transpose", [split], perm=[0, 2, 1, 3, 4])
    return model.node("Reshape", [turned, model.constant(np.array(SHAPE))])


def convolved(model: Model, x: str) -> str:
    """Add a convolution, after which layers that only move bytes run here too."""
    return model.conv(x, 4, 4, model.numbers(), model.numbers())


def of_frames(model: Model, x: str) -> str:
    """Add a convolution of the input as one volume with two groups, for which frames are copied."""
    volume = model.node("Reshape", [convolved(model, x), model.constant(np.array([1, 2, 2, 5, 5]))])
    w, zero = np.ones((4, 1, 2, 1, 2), np.uint8), model.constant(np.uint8(0))
    read = [volume, *model.numbers(), model.constant(w), model.constant(np.float32(0.1)), zero, *model.numbers()]
    return model.node("QLinearConv", read, kernel_shape=[2, 1, 2], group=2)


LAYERS: dict[str, Callable[[Model, str], str]] = {
    "convolution": convolved,
    "sum": lambda model, x: model.add(x, model.numbers(), model.input(*SHAPE), model.numbers(), model.numbers()),
    "max pool": lambda model, x: model.node("MaxPool", [x], kernel_shape=[2, 2]),
    "average": lambda model, x: model.node(
        "QLinearGlobalAveragePool", [x, *model.numbers(), *model.numbers()], domain="com.microsoft"
    ),
    "table": lambda model, x: model.node(
        "QLinearSigmoid", [x, *model.numbers(), *model.numbers()], domain="com.microsoft"
    ),
    "concat": lambda model, x: model.node("Concat", [convolved(model, x)] * 2, axis=1),
    "pad": lambda model, x: model.node("Pad", [convolved(model, x), model.constant(np.array(2 * [0, 0, 1, 1]))]),
    "argmax": lambda model, x: model.node("ArgMax", [x], axis=1),
    "shuffle": shuffled,
    "frames": of_frames,
    "real numbers": lambda model, x: model.node("DequantizeLinear", [convolved(model, x), *model.numbers()]),
}
GIVES = {"argmax": TensorProto.INT64, "real numbers": TensorProto.FLOAT}


@pytest.mark.parametrize("gains", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_a_launch_overlaps_where_that_gains(name: str, gains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_to_overlap(gains, monkeypatch)
    model = Model()
    made = model.made(LAYERS[name](model, model.input(*SHAPE)))
    made.graph.output[0].type.tensor_type.elem_type = GIVES.get(name, TensorProto.UINT8)
    session = Session(made, "cpu", fused_convolutions=True)
    session.run(None, model.fed)
    assert {row.runs_on for row in session.explain().rows} == {"qconv"}
    assert asked
    assert set(asked) == {gains}
