"""A linear or cubic Resize of bytes matches ONNX Runtime where its bits are asked for, whatever layout it has there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import quantized_networks as networks
from onnx import helper, numpy_helper
from session_comparison import assert_equal
from unusual_models import Made, bytes_of, conv_inputs, weights_of

from qconv.onnx import Session, Unsupported, resizing
from qconv.onnx.fallback import Fallback
from qconv.onnx.model import CPU_ONLY, read, rewritten

SAID = "its channels are last there, as in ONNX Runtime, which makes other bits"
BEHIND = ("output", "convolution", "sigmoid")


def resized(
    numbers: dict[str, Any],
    behind: str = "output",
    dtype: str = "uint8",
    shape: tuple[int, ...] = (1, 3, 8, 7),
    channels: int = 4,
    opset: int = 18,
    **attributes: Any,
) -> Made:
    """Return a convolution, a Resize and a following layer. The Resize has no name; `numbers` are its inputs after
    x."""
    w = weights_of(channels, shape[1], *[1] * (len(shape) - 2))
    held = conv_inputs(w=w, w_z=np.int8(0), y_s=np.float32(0.05), y_z=np.asarray(3, dtype), x_z=np.asarray(9, dtype))
    node = helper.make_node
    names = [name if array is not None else "" for name, array in numbers.items()]
    mode = {"mode": "linear"} | attributes
    nodes = [node("QLinearConv", ["x", *held], ["c"]), node("Resize", ["c", *names], ["r"], **mode)]
    held |= {name: array for name, array in numbers.items() if array is not None}
    if behind == "convolution":
        again = {**conv_inputs(), "w": weights_of(5, channels, *w.shape[2:]), "w_z": np.int8(0)}
        again |= {"x_z": np.asarray(3, dtype), "y_z": np.asarray(3, dtype)}
        nodes.append(node("QLinearConv", ["r", *(f"again_{name}" for name in again)], ["y"]))
        held |= {f"again_{name}": array for name, array in again.items()}
    elif behind == "sigmoid":
        nodes += [node("DequantizeLinear", ["r", "x_s", "x_z"], ["d"]), node("Sigmoid", ["d"], ["y"])]
    outputs = ("r",) if behind == "output" else ("y",)
    return Made(nodes, {"x": bytes_of(dtype, *shape)}, held, outputs, opset, 9)


def turned_in(made: Made) -> bool:
    """Return true if its Resize is channels-last; the session matches ONNX Runtime."""
    session = Session(made.proto, "cpu", bits="onnxruntime")
    for got, wanted in zip(session.run(None, made.feeds), networks.by_ort(made.proto, made.feeds), strict=True):
        assert_equal(got, wanted, str(made.nodes))
    (row,) = [row for row in session.explain().rows if row.op == "Resize"]
    assert row.runs_on == "fallback"
    return SAID in row.why


def scales(*numbers: float) -> dict[str, Any]:
    return {"roi": None, "scales": np.float32(numbers)}


def sizes(*numbers: int) -> dict[str, Any]:
    return {"roi": None, "scales": None, "sizes": np.int64(numbers)}


THREE = scales(1, 1, 3, 2.7)


@pytest.mark.turns
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("where", ["half_pixel", "asymmetric", "align_corners"])
def test_beside_a_convolution(where: str, behind: str, dtype: str) -> None:
    assert turned_in(resized(THREE, behind, dtype, coordinate_transformation_mode=where))


@pytest.mark.parametrize(("numbers", "share"), [(THREE, 1 / 20), (scales(1, 1, 2, 2), 0)])
def test_by_default_it_is_an_expression(numbers: dict[str, Any], share: float) -> None:
    """Weights that are no binary fractions come out on either side of a whole number, which is truncated: in ONNX
    Runtime in each of its two orders too."""
    made = resized(numbers)
    (got,) = Session(made.proto, "cpu", strict=True).run(None, made.feeds)
    differ = np.abs(got.astype(int) - networks.by_ort(made.proto, made.feeds)[0])
    assert differ.max() <= 1
    assert (differ > 0).mean() <= share


@pytest.mark.parametrize(
    ("numbers", "more"),
    [
        (sizes(1, 4, 19, 23), {}),
        (sizes(1, 4, 4, 4), {}),
        (sizes(1, 8, 8, 8), {"channels": 8, "shape": (1, 3, 5, 5)}),
        (sizes(1, 5, 8, 8), {"channels": 5, "shape": (1, 3, 5, 5)}),
        ({"roi": np.float32([]), "scales": np.float32([]), "sizes": np.int64([1, 4, 19, 23])}, {"opset": 11}),
        ({"roi": np.float32([]), "scales": np.float32([1, 1, 3, 2.7])}, {"opset": 11}),
        ({"scales": np.float32([1, 1, 3, 2.7])}, {"opset": 10}),
    ],
    ids=["sizes", "as many as channels", "a cube is made", "a cube is read", "opset 11", "scales of 11", "opset 10"],
)
def test_however_it_is_said(numbers: dict[str, Any], more: dict[str, Any]) -> None:
    assert turned_in(resized(numbers, **more))


def test_the_other_order_has_other_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise these tests would prove nothing."""
    made = resized(THREE)
    monkeypatch.setattr("qconv.onnx.fallback.orders", lambda model, config: {})
    got = Session(made.proto, "cpu", bits="onnxruntime").run(None, made.feeds)[0]
    wanted = networks.by_ort(made.proto, made.feeds)[0]
    differ = np.abs(got.astype(int) - wanted)
    assert 0 < differ.max() <= 1


def test_behind_a_layer_that_runs_elsewhere_as_well() -> None:
    made = resized(THREE, "convolution")
    conv, resize, again = made.nodes
    between = helper.make_node("Abs", ["c"], ["a"])
    resize.input[0] = "a"
    assert turned_in(Made([conv, between, resize, again], made.feeds, made.held, made.outputs, 18, 9))


def test_cubic() -> None:
    assert turned_in(resized(scales(1, 1, 3, 3), "convolution", mode="cubic"))


@pytest.mark.parametrize("is_known", [True, False])
def test_where_nothing_is_quantized_beside_it(is_known: bool) -> None:
    node = resized(THREE).nodes[1]
    feeds, numbers = {"c": bytes_of("uint8", 1, 4, 8, 7)}, {"scales": THREE["scales"]}
    if is_known:
        alone = Made([node], feeds, numbers, ("r",), 18, 9)
    else:  # neither an extent nor a scale
        alone = Made([node], {**feeds, **numbers}, {}, ("r",), 18, 9, dynamic=True)
    session = Session(alone.proto, "cpu", bits="onnxruntime")
    assert SAID not in session.explain().rows[0].why
    assert_equal(session.run(None, alone.feeds)[0], networks.by_ort(alone.proto, alone.feeds)[0], "alone")


def test_axes_of_its_own_stay_in_the_order_of_the_model() -> None:
    """ONNX Runtime fails there."""
    made = resized(scales(3, 2.7), axes=[-2, 3])
    (row,) = [row for row in Session(made.proto, "cpu", bits="onnxruntime").explain().rows if row.op == "Resize"]
    assert SAID not in row.why


def test_regions_are_in_the_other_order() -> None:
    region = np.float32([0, 0, 0.1, 0.2, 1, 1, 0.9, 0.8])
    made = resized(
        {"roi": region, "scales": np.float32([1, 1, 3, 2])}, coordinate_transformation_mode="tf_crop_and_resize"
    )
    turned_in(made)
    nodes = resizing.turned(made.nodes[1], 4, made.held)
    places = [numpy_helper.to_array(node.attribute[0].t).tolist() for node in nodes if node.op_type == "Constant"]
    assert places == [[0, 2, 3, 1, 4, 6, 7, 5], [0, 2, 3, 1]]


def test_other_providers_have_their_own_bits() -> None:
    model = read(rewritten(resized(THREE).proto.SerializeToString(), {}), {})
    assert Fallback(model, {}, CPU_ONLY).turned
    assert Fallback(model, {}, [("CPUExecutionProvider", {})]).turned
    assert not Fallback(model, {}, ["CUDAExecutionProvider", "CPUExecutionProvider"]).turned


def test_a_model_that_cannot_be_asked_keeps_its_order(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*given: Any) -> Any:
        raise Unsupported("no")

    model = read(rewritten(resized(THREE).proto.SerializeToString(), {}), {})
    monkeypatch.setattr(resizing, "rewritten", refused)
    with caplog.at_level("INFO", "qconv"):
        assert list(resizing.orders(model, {}).values()) == [False]
    assert "channels first in r: where they lie is not known: no" in caplog.text
