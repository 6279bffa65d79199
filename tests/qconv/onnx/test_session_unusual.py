"""Malformed and unusual models: each runs as in ONNX Runtime, bit for bit, or is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import onnxruntime as ort
import quantized_networks as networks
from onnx import helper
from unusual_models import (
    FLOATS,
    X_SHAPE,
    Made,
    behind_a_pool,
    between,
    between_reals,
    branch,
    branch_of_branches,
    bytes_of,
    conv,
    conv_inputs,
    cycle,
    dynamic_quantization,
    equal_constants,
    from_nothing,
    identities,
    linear,
    matrices,
    named_alike,
    qdq,
    real_output,
    rescaled_input,
    sequence,
    split_images,
    twice_made,
    unknown,
    unread,
    weights_of,
)

from qconv.onnx import Session, Unsupported

# Each with the number of its convolutions or products that run here with ONNX Runtime's bits, according to `explain`.
RUN: dict[str, tuple[Callable[[], Made], int]] = {
    "scales of one element": (lambda: conv(x_s=np.float32([0.03]), x_z=np.uint8([9]), y_s=np.float32([0.9])), 1),
    "scales per channel": (lambda: conv(w_s=np.linspace(0.01, 0.03, 6, dtype=np.float32)), 1),
    "zero points per channel": (lambda: conv(w_z=bytes_of("uint8", 6), w_s=np.full(6, 0.02, np.float32)), 1),
    "auto_pad SAME_UPPER": (lambda: conv({"auto_pad": "SAME_UPPER", "strides": [2, 3]}), 1),
    "auto_pad SAME_LOWER, dynamic": (
        lambda: conv({"auto_pad": "SAME_LOWER", "strides": [2, 3]}, given={"dynamic": True}),
        1,
    ),
    "auto_pad VALID": (lambda: conv({"auto_pad": "VALID", "dilations": [2, 1]}), 1),
    "pads on one side": (lambda: conv({"pads": [0, 2, 1, 0]}), 1),
    "one axis": (lambda: conv({"pads": [2, 1]}, x=bytes_of("uint8", 2, 4, 9), w_shape=(6, 4, 3)), 1),
    "three axes": (lambda: conv(x=bytes_of("uint8", 1, 4, 5, 4, 3), w_shape=(2, 4, 3, 2, 2)), 1),
    "groups with two filters each": (lambda: conv({"group": 4}, w_shape=(8, 1, 3, 3)), 1),
    "no images": (lambda: conv(x=np.zeros((0, 4, 6, 5), np.uint8), given={"dynamic": True}), 0),
    "no extent is known": (lambda: conv(given={"dynamic": True}), 1),
    "opset 10": (lambda: conv(given={"opset": 10, "ir": 5}), 1),
    "the newest opset": (lambda: conv(given={"opset": 23, "ir": 10}), 1),
    "constants listed as inputs, of an old format": (lambda: conv(given={"ir": 3, "listed": list(conv_inputs())}), 1),
    "constants listed as inputs, of an old format, two of which become one": (equal_constants, 3),
    "weights that may be given": (lambda: conv(given={"listed": ["w"]}), 0),
    "weights that are an input": (
        lambda: Made(conv().nodes, {"x": bytes_of("uint8", *X_SHAPE), "w": bytes_of("uint8", 6, 4, 3, 3)},
                     {name: array for name, array in conv_inputs().items() if name != "w"}),
        0,
    ),
    "sums that might leave int32": (
        lambda: conv(x=bytes_of("uint8", 1, 35000, 1, 1), w_shape=(1, 35000, 1, 1), y_s=np.float32(99)),
        0,
    ),
    "a scale of zero": (lambda: conv(x_s=np.float32(0)), 0),
    "a negative scale": (lambda: conv(x_s=np.float32(-0.03)), 0),
    "max pool in ceil mode": (
        lambda: between("MaxPool", {"kernel_shape": [2, 2], "strides": [1, 1], "ceil_mode": 1}),
        3,
    ),
    "a transpose around": (lambda: between("Transpose", {"perm": [2, 1, 0, 3]}), 3),
    "padding with a constant": (
        lambda: between("Pad", more=["pads", "value"], pads=np.int64([0, 0, 1, 0, 0, 0, 0, 2]), value=np.uint8(7)),
        3,
    ),
    "an If that reads from outside": (branch, 1),
    "an If within an If that reads from outside": (branch_of_branches, 1),
    "a sequence": (sequence, 1),
    "a node without inputs": (from_nothing, 0),
    "outputs that are an input and a constant": (identities, 1),
    "ConvInteger without zero points": (
        lambda: matrices("ConvInteger", {"w": bytes_of("uint8", 3, 4, 2, 2)}, bytes_of("uint8", *X_SHAPE)),
        1,
    ),
    "MatMulInteger of three dimensions": (
        lambda: matrices("MatMulInteger", {"w": weights_of(5, 3), "z": np.uint8(7)}, bytes_of("uint8", 2, 3, 5)),
        1,
    ),
    "QLinearMatMul": (lambda: matrices("QLinearMatMul", linear(bytes_of("uint8", 5, 3)), bytes_of("uint8", 4, 5)), 1),
    "a vector times a matrix": (
        lambda: matrices("MatMulInteger", {"w": bytes_of("uint8", 5, 3)}, bytes_of("uint8", 5)),
        1,
    ),
    "matrices by batch": (
        lambda: matrices("MatMulInteger", {"w": bytes_of("uint8", 2, 5, 3)}, bytes_of("uint8", 2, 4, 5)),
        0,
    ),
    "QGemm that gives floats": (
        lambda: matrices("QGemm", real_output(bytes_of("uint8", 5, 3)), bytes_of("uint8", 4, 5), "com.microsoft"),
        0,
    ),
    "quantized dynamically": (dynamic_quantization, 0),
    "QDQ": (qdq, 3),
    "QDQ with a bias of another scale": (lambda: qdq(b_scale=0.05), 0),
    "QDQ with weights by input channel": (lambda: qdq(axis=1, w_scale=np.linspace(0.01, 0.03, 4, dtype=np.float32)), 0),
    "a convolution of dequantized weights, in floats": (between_reals, 0),
    "bytes that get another scale first": (rescaled_input, 2),
    "split images": (lambda: split_images(2), 4),
    "no images to be split": (lambda: split_images(0), 0),
    "behind a pool whose inferred shape is wrong": (behind_a_pool, 1),
    "layers that nobody reads": (unread, 3),
    "floats": (lambda: Made([helper.make_node("Relu", ["x"], ["y"])], {"x": FLOATS}), 0),
    "halves": (lambda: Made([helper.make_node("Relu", ["x"], ["y"])], {"x": FLOATS.astype(np.float16)}), 0),
    "strings": (lambda: Made([helper.make_node("Identity", ["x"], ["y"])], {"x": np.asarray(["a", "b"], object)}), 0),
    "no layers": (lambda: Made([], {"x": FLOATS}, outputs=("x",)), 0),
}  # fmt: skip

REFUSED: dict[str, Callable[[], Made]] = {
    "a cycle": cycle,
    "a tensor that is made twice": twice_made,
    "an op that there is not": lambda: unknown("Frobnicate"),
    "a domain that there is not": lambda: unknown("Relu", "org.nowhere"),
    "an input that nobody gives": lambda: Made([helper.make_node("Relu", ["z"], ["y"])], {"x": FLOATS}),
    "an output that nobody makes": lambda: Made([helper.make_node("Relu", ["x"], ["z"])], {"x": FLOATS}),
    "an opset to come": lambda: conv(given={"opset": 99}),
    "an attribute that there is not": lambda: conv({"frobnicate": 1}),
    "weights of another type than their zero point": lambda: conv(w_z=np.int8(3)),
    "int8 images and uint8 weights": lambda: conv(x=bytes_of("int8", *X_SHAPE), x_z=np.int8(-3)),
    "two nodes of one name": named_alike,
    "weights of another rank": lambda: conv(w_shape=(6, 4, 3)),
}


def outcome(model: Any, feeds: Mapping[str, Any]) -> list[Any] | None:
    """Return ONNX Runtime's outputs, or None if it refuses the model or the inputs."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, dict(feeds)))
    except Exception:
        return None


def compared(name: str, within: float = 0.0, **how: Any) -> Session:
    """Return a session that has run, with the same outputs as ONNX Runtime, or `within` a share of the largest."""
    made = RUN[name][0]()
    wanted = outcome(made.proto, made.feeds)
    assert wanted is not None, "ONNX Runtime refuses it"
    session = Session(made.proto, "cpu", **how)
    for got, expected in zip(session.run(None, made.feeds), wanted, strict=True):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        if within:
            np.testing.assert_allclose(got, expected, rtol=0, atol=within * np.abs(expected).max())
        else:
            np.testing.assert_array_equal(got, expected)
    assert all(row.why for row in session.explain().rows)
    return session


@pytest.mark.turns
@pytest.mark.parametrize("name", list(RUN))
def test_it_runs_as_in_onnxruntime(name: str) -> None:
    explanation = compared(name, bits="onnxruntime").explain()
    assert sum(row.runs_on == "qconv" for row in explanation.rows) == RUN[name][1], str(explanation)


# The layers that no kernel computes by default.
SEQUENCE = {"SequenceConstruct": 1, "SequenceInsert": 1, "ConcatFromSequence": 1}
ELSEWHERE: dict[str, dict[str, int]] = {
    **{
        name: {"QLinearConv": 1}
        for name in ("no images", "weights that may be given", "weights that are an input",
                     "a scale of zero", "a negative scale", "sums that might leave int32")
    },
    "an If that reads from outside": {"If": 1},
    "an If within an If that reads from outside": {"If": 1},
    "a sequence": SEQUENCE,
    "a node without inputs": {"SequenceEmpty": 1, "SequenceInsert": 1, "ConcatFromSequence": 1},
    "QGemm that gives floats": {"com.microsoft.QGemm": 1},
    "no images to be split": {"MaxPool": 1, "Split": 2, "Concat": 1},
    "behind a pool whose inferred shape is wrong": {"Sigmoid": 1},
    "strings": {"Identity": 1},
}  # fmt: skip


# Products of bytes are added up in int32 and scaled once; ONNX Runtime rounds each.
WITHIN = {"a convolution of dequantized weights, in floats": 1e-6}


@pytest.mark.turns
@pytest.mark.parametrize("name", list(RUN))
def test_by_default_all_others_run_here(name: str) -> None:
    """Their few floats are exact as well: sums of few products, and functions without rounding."""
    assert compared(name, WITHIN.get(name, 0.0)).explain().fallen_back == ELSEWHERE.get(name, {})


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_onnxruntime_refuses_is_refused_by_name(name: str) -> None:
    made = REFUSED[name]()
    assert outcome(made.proto, made.feeds) is None
    with pytest.raises(Unsupported, match="does not take the model: "):
        Session(made.proto, "cpu")


@pytest.mark.parametrize(
    "made",
    [
        conv({"kernel_shape": [2, 2]}, given={"dynamic": True}),
        conv(x=bytes_of("uint8", 1, 5, 6, 5), given={"dynamic": True}),
        conv(x=bytes_of("uint8", 1, 4, 2, 2), given={"dynamic": True}),
        conv({"group": 3}, given={"dynamic": True}),
    ],
    ids=["another kernel_shape", "another number of channels", "too small an image", "channels that do not divide"],
)
def test_what_fails_in_onnxruntime_at_the_run_is_an_error_here(made: Made) -> None:
    assert outcome(made.proto, made.feeds) is None
    with pytest.raises(ValueError, match="ONNX Runtime"):
        Session(made.proto, "cpu").run(None, made.feeds)


def test_a_missing_file_of_constants_is_named(tmp_path: Any) -> None:
    model = networks.quantized(networks.resnet_like(), "QOperator", "u8u8", False)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="gone.bin", size_threshold=0)
    (tmp_path / "gone.bin").unlink()
    with pytest.raises(Unsupported, match=r"gone\.bin"):
        Session(tmp_path / "m.onnx", "cpu")


def test_weights_that_are_given_replace_the_constant() -> None:
    made = conv(given={"listed": ["w"]})
    feeds = {**made.feeds, "w": bytes_of("uint8", 6, 4, 3, 3)}
    session = Session(made.proto, "cpu")
    assert session.input_names == ("x",)
    wanted = outcome(made.proto, feeds)
    assert wanted is not None
    np.testing.assert_array_equal(session.run(None, feeds)[0], wanted[0])
