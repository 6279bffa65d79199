"""Reading of layers, and the reasons for refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from overlaps import asked_to_overlap

from qconv.device import open_device
from qconv.network import IntegerConvolution, Layer, Network, Tensor, Unserved, read_layer
from qconv.network.graph.value import Value
from qconv.ops.convolution import conv2d

RNG = np.random.default_rng(8)


def read(
    op: str, x_type: str = "uint8", attributes: dict[str, Any] | None = None, **constants: Any
) -> IntegerConvolution:
    """Return a layer whose first input is x; the constants follow in order, None for an absent one, and an ellipsis for
    a computed one."""
    names = tuple("" if value is None else name for name, value in constants.items())
    held = {name: np.asarray(value) for name, value in constants.items() if value is not None and value is not ...}
    layer = Layer("layer", op, ("x", *names), ("y",), attributes or {})
    return read_layer(layer, Network(("x",), ("y",), (layer,), {"x": Tensor("x", x_type)}, held))


def bytes_of(*shape: int, dtype: str = "int8") -> Any:
    return RNG.integers(-100, 100, shape).astype(dtype)


def linear(w: Any, **changed: Any) -> dict[str, Any]:
    """Return the inputs of QLinearConv and QLinearMatMul after x."""
    given = {
        "x_s": np.float32(0.1), "x_z": np.uint8(9), "w": w, "w_s": np.float32(0.2), "w_z": np.int8(0),
        "y_s": np.float32(0.3), "y_z": np.uint8(4),
    }  # fmt: skip
    return given | changed


def test_a_convolution_with_one_axis_is_one_with_a_height_of_one() -> None:
    made = read("QLinearConv", attributes={"pads": [2, 1], "strides": [3]}, **linear(bytes_of(6, 4, 5)))
    problem = made.problem((2, 4, 20))
    assert (problem.h, problem.w, problem.c, problem.k, problem.r, problem.s) == (1, 20, 4, 6, 1, 5)
    assert (problem.pad, problem.stride) == ((0, 2, 0, 1), (1, 3))
    assert made.y_shape((2, 4, 20), problem) == (2, problem.ow, 6)


def test_rows_of_any_rank_are_pixels() -> None:
    w = bytes_of(5, 3)
    made = read("MatMulInteger", w=w, x_z=np.uint8(7))
    problem = made.problem((2, 6, 5))
    assert (problem.n, problem.h, problem.w, problem.c, problem.k) == (12, 1, 1, 5, 3)
    assert made.y_shape((2, 6, 5), problem) == (2, 6, 3)
    x = RNG.integers(0, 256, (2, 6, 5)).astype("uint8")
    kernel_w = made.weights.transpose(0, 2, 3, 1)
    y = conv2d(problem, x.reshape(problem.x_shape), kernel_w, problem.checked(dict(made.parameters)))
    np.testing.assert_array_equal(y.reshape(2, 6, 3), (x.astype(int) - 7) @ w.astype(int))


def test_qgemm_may_have_its_weights_turned() -> None:
    w = bytes_of(5, 3)
    rest = {**linear(w), "bias": np.arange(3, dtype=np.int32)}
    order = ("x_s", "x_z", "w", "w_s", "w_z", "bias", "y_s", "y_z")
    one = read("com.microsoft.QGemm", **{name: rest[name] for name in order})
    turned = {**rest, "w": w.T}
    other = read("com.microsoft.QGemm", attributes={"transB": 1}, **{name: turned[name] for name in order})
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.weights.shape == (3, 5, 1, 1)
    np.testing.assert_array_equal(one.parameters["bias"], [0, 1, 2])


def test_scales_that_are_all_the_same_are_one_number() -> None:
    made = read("QLinearConv", **linear(bytes_of(4, 3, 1, 1), w_s=np.full(4, 0.2, np.float32)))
    assert not made.problem((1, 3, 5, 5)).quantization.per_channel
    made = read("QLinearConv", **linear(bytes_of(4, 3, 1, 1), w_s=np.float32([0.2, 0.2, 0.2, 0.1])))
    assert made.problem((1, 3, 5, 5)).quantization.per_channel


W = bytes_of(4, 3, 3, 3)


@pytest.mark.parametrize(
    ("why", "op", "given"),
    [
        ("no kernel here computes Conv", "Conv", {"w": W}),
        ("constant w: 'w' is computed", "QLinearConv", linear(...)),
        ("constant x_scale: 'x_s' is computed", "QLinearConv", linear(W, x_s=...)),
        ("w_scale has 3 values", "QLinearConv", linear(W, w_s=np.ones(3, np.float32))),
        ("x_scale has 4 values", "QLinearConv", linear(W, x_s=np.ones(4, np.float32))),
        ("must be finite and positive", "QLinearConv", linear(W, x_s=np.float32(0))),
        ("w is int16", "QLinearConv", linear(W.astype("int16"))),
        ("w is int8 with 6 dimensions", "QLinearConv", linear(W[..., None, None])),
        ("y_zero_point: it is not given", "QLinearConv", linear(W, y_z=None)),
        ("its input 'x' is float32", "QLinearConv", {"x_type": "float32", **linear(W)}),
        ("auto_pad='NEVER'", "QLinearConv", {"attributes": {"auto_pad": b"NEVER"}, **linear(W)}),
        ("pad=", "QLinearConv", {"attributes": {"pads": [-1, 0, 0, 0]}, **linear(W)}),
        ("kernel_shape=", "QLinearConv", {"attributes": {"kernel_shape": [1, 1]}, **linear(W)}),
        ("accumulator", "MatMulInteger", {"w": np.zeros((2**17, 1), "int8")}),
        ("its x_zero_point 'x_z' is computed at each run", "ConvInteger", {"w": W, "x_z": ...}),
        ("'w_z' is computed at each run, and the kernels", "ConvInteger", {"w": W, "x_z": np.uint8(3), "w_z": ...}),
        ('bits="integers" has kernels for it', "MatMulInteger", {"w": bytes_of(4, 3), "x_z": ...}),
        ("it computes a scale and a zero point at each run", "DynamicQuantizeLinear", {}),
    ],
)
def test_what_is_not_served_says_why(why: str, op: str, given: dict[str, Any]) -> None:
    with pytest.raises(Unserved) as raised:
        read(op, **given)
    assert why in str(raised.value)


@pytest.mark.parametrize("gains", [False, True])
def test_a_launch_overlaps_where_that_gains(gains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_to_overlap(gains, monkeypatch)
    device = open_device("cpu")
    prepared = read("QLinearConv", **linear(bytes_of(8, 4, 3, 3))).prepare([(1, 4, 5, 5)], device)
    x = RNG.integers(0, 256, (1, 5, 5, 4)).astype("uint8")
    prepared(Value(device, channels_last=device.upload(x)))
    assert asked == [gains]
