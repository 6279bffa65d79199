"""Float sums next to quantized layers match an InferenceSession, which uses channels-last for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import quantized_networks as networks
from onnx import helper
from unusual_models import Made, bytes_of, conv, weights_of

from qconv.onnx import Session

SIZES = (2, 16, 11, 9)


def between_convolutions(op: str, axes: list[int], keeps: int, as_input: bool, dynamic: bool = False) -> Made:
    """Return a float sum of a tensor between two convolutions. ONNX Runtime uses channels-last all the way from one to
    the other."""
    made = conv(x=bytes_of("uint8", *SIZES), w=weights_of(16, 16, 1, 1), w_z=np.int8(0))
    node = helper.make_node
    given: dict[str, Any] = {} if as_input else {"axes": axes}
    nodes = [
        node("QLinearConv", ["x", *made.held], ["c"]),
        node("DequantizeLinear", ["c", "y_s", "y_z"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node(op, ["e", "axes"] if as_input else ["e"], ["y"], keepdims=keeps, **given),
        node("QuantizeLinear", ["e", "x_s", "x_z"], ["q"]),
        node("QLinearConv", ["q", *made.held], ["z"]),
    ]
    held = {**made.held, **({"axes": np.int64(axes)} if as_input else {})}
    return Made(nodes, made.feeds, held, ("y", "z"), opset=18 if as_input else 17, dynamic=dynamic)


@pytest.mark.turns
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("as_input", [False, True])
@pytest.mark.parametrize(
    ("op", "axes", "keeps"),
    [("ReduceMean", [2, 3], 1), ("ReduceMean", [2, 3], 0), ("ReduceL2", [-1], 0), ("ReduceMean", [1], 0),
     ("ReduceMean", [1, -1], 1)],
)  # fmt: skip
def test_between_two_convolutions(op: str, axes: list[int], keeps: int, as_input: bool, dynamic: bool) -> None:
    made = between_convolutions(op, axes, keeps, as_input, dynamic)
    session = Session(made.proto, "cpu", bits="onnxruntime")
    for got, wanted in zip(session.run(None, made.feeds), networks.by_ort(made.proto, made.feeds), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dynamic", [False, True])
def test_by_default_it_is_a_sum_in_the_stated_order(dynamic: bool) -> None:
    made = between_convolutions("ReduceMean", [2, 3], 1, as_input=True, dynamic=dynamic)
    y, z = Session(made.proto, "cpu", strict=True).run(None, made.feeds)
    means, integers = networks.by_ort(made.proto, made.feeds)
    np.testing.assert_allclose(y, means, rtol=0, atol=1e-6)
    assert np.abs(z.astype(int) - integers).max() <= 1


@pytest.mark.parametrize("as_input", [False, True])
def test_where_the_axes_are_the_same_the_shapes_tell(as_input: bool) -> None:
    made = between_convolutions("ReduceL1", [1, 2, 3], 0, as_input)
    got = Session(made.proto, "cpu", bits="onnxruntime").run(None, made.feeds)[0]
    np.testing.assert_array_equal(got, networks.by_ort(made.proto, made.feeds)[0])


def test_what_is_turned_says_so() -> None:
    made = between_convolutions("ReduceMean", [2, 3], 1, False)
    explanation = Session(made.proto, "cpu", bits="onnxruntime").explain()
    (why,) = [row.why for row in explanation.rows if row.op == "ReduceMean"]
    assert why.endswith("its channels are last there, as in ONNX Runtime, which makes other bits")


@pytest.mark.parametrize("axes", [[2, 3], [1, 2, 3]])
def test_where_nothing_is_turned_it_runs_with_its_neighbours(axes: list[int]) -> None:
    """There is no quantized layer here that writes or reads its input."""
    made = conv()
    nodes = [*made.nodes, helper.make_node("ReduceMean", ["f"], ["m"], axes=axes)]
    reals = np.random.default_rng(3).standard_normal(SIZES).astype(np.float32)
    beside = Made(nodes, {**made.feeds, "f": reals}, made.held, ("m", "y"))
    session = Session(beside.proto, "cpu", bits="onnxruntime")
    for got, wanted in zip(session.run(None, beside.feeds), networks.by_ort(beside.proto, beside.feeds), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert "channels are last" not in str(session.explain())
