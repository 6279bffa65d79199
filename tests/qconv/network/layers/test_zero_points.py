"""Products whose zero point is computed at each run, decomposed: the same integers, by the oracles of the kernels.
Nothing is compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qconv.network import IntegerConvolution, Layer, Network, Served, Tensor, read_layer, serve_dynamic
from qconv.network.expressions.expressed import Expressed
from qconv.network.expressions.fuse import fuse
from qconv.network.layers.dynamic import DynamicQuantization
from qconv.network.layers.zero_points import decompose_zero_points, is_of_product
from qconv.op import Sample
from qconv.ops.convolution import conv2d
from qconv.ops.registry import compute

RNG = np.random.default_rng(86)
TO_FLOAT, DYNAMIC = "com.microsoft.MatMulIntegerToFloat", "com.microsoft.DynamicQuantizeMatMul"


def whole(dtype: str, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)


def network_of(
    op: str, fed: dict[str, Any], held: dict[str, Any], y: Tensor, attributes: Any = None, names: Any = None
) -> Network:
    """Return the network of one layer. `names` are its inputs in order."""
    layer = Layer("one", op, tuple(names or (*fed, *held)), (y.name,), attributes or {})
    tensors = {name: Tensor(name, str(array.dtype), array.shape) for name, array in fed.items()}
    return Network(tuple(fed), (y.name,), (layer,), tensors | {y.name: y}, held)


def made_of(network: Network, feeds: dict[str, Any]) -> tuple[Any, list[Served]]:
    """Return the output of a network of layers that all have kernels, and these."""
    served = {layer.name: read_layer(layer, network) for layer in network.layers if layer.op in ("ConvInteger", INNER)}
    network, here, why_not = fuse(network, serve_dynamic(network, served)[0])
    assert not why_not
    values = dict(feeds)
    steps = [here[layer.name] for layer in network.layers]
    for one in steps:
        if isinstance(one, IntegerConvolution):
            values[one.y] = convolved(one, values[one.x])
        elif isinstance(one, DynamicQuantization):
            values |= dict(zip(one.layer.outputs, by_formula(values[one.inputs[0]]), strict=True))
        else:
            assert isinstance(one, Expressed)
            values[one.y] = expressed(one, values)
    return values[network.outputs[0]], steps


INNER = "MatMulInteger"


def convolved(one: IntegerConvolution, x: Any) -> Any:
    problem = one.problem(x.shape)
    last = np.moveaxis(x, 1, -1) if one.axes else x
    filters = one.weights.transpose(0, 2, 3, 1)
    y = conv2d(problem, last.reshape(problem.x_shape), filters, problem.checked(dict(one.parameters)))
    y = y.reshape(one.y_shape(x.shape, problem))
    return np.moveaxis(y, -1, 1) if one.axes else y


def expressed(one: Expressed, values: dict[str, Any]) -> Any:
    kernel = one.kernel((False,) * len(one.inputs))
    held = dict(one.constants) | values
    operands = tuple(np.concatenate([np.reshape(held[name], -1) for name in names]) for names in kernel.tensors)
    (made,) = compute(kernel.problem, Sample(operands))
    if not kernel.is_last:
        return made.reshape(kernel.y_shape)
    n, channels, *rest = kernel.y_shape
    return np.moveaxis(made.reshape(n, *rest, channels), -1, 1)


def by_formula(x: Any) -> tuple[Any, Any, Any]:
    """Return the bytes, the scale and the zero point as ONNX defines them."""
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    scale = np.float32(1) if high == low else np.float32((high - low) / np.float32(255))
    zero = np.rint(np.clip(-low / scale, 0, 255)).astype(np.uint8)
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), scale, zero


def by_taps(x: Any, w: Any, x_zero: Any, w_zero: Any, **given: Any) -> Any:
    """Convolve images by sums over taps of wide integers."""
    (down, across), (high, wide), groups = given["strides"], given["dilations"], given["group"]
    top, left, bottom, right = given["pads"]
    x = np.pad(x.astype(np.int64) - int(x_zero), ((0, 0), (0, 0), (top, bottom), (left, right)))
    w = w.astype(np.int64) - np.reshape(w_zero, (-1, 1, 1, 1)).astype(np.int64)
    k, depth, r_taps, s_taps = w.shape
    rows = (x.shape[2] - (r_taps - 1) * high - 1) // down + 1
    columns = (x.shape[3] - (s_taps - 1) * wide - 1) // across + 1
    y = np.zeros((len(x), k, rows, columns), np.int64)
    for r, s in np.ndindex(r_taps, s_taps):
        seen = x[:, :, r * high :: down, s * wide :: across][:, :, :rows, :columns]
        seen = seen.reshape(len(x), groups, depth, rows, columns)
        y += np.einsum("ngchw,gkc->ngkhw", seen, w[:, :, r, s].reshape(groups, -1, depth)).reshape(y.shape)
    return y.astype(np.int32)


def drawn_convolution() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return what is fed, the constants, and the attributes."""

    def some(count: int, low: int, high: int) -> tuple[int, ...]:
        return tuple(int(each) for each in RNG.integers(low, high, count))

    (groups, depth, k), (h, w), (r, s) = some(3, 1, 4), some(2, 8, 12), some(2, 1, 4)
    x_type, w_type = (str(RNG.choice(["int8", "uint8"])) for _ in range(2))
    zeros = (groups * k,) if RNG.random() < 0.5 else ()
    held = {"w": whole(w_type, groups * k, depth, r, s), "w_zero": whole(w_type, *zeros)}
    attributes = {"strides": some(2, 1, 4), "dilations": some(2, 1, 3), "pads": some(4, 0, 3), "group": groups}
    return {"x": whole(x_type, 2, groups * depth, h, w), "x_zero": whole(x_type)}, held, attributes


@pytest.mark.parametrize("turn", range(40))
def test_a_convolution_has_the_same_integers(turn: int) -> None:
    fed, held, attributes = drawn_convolution()
    want = by_taps(fed["x"], held["w"], fed["x_zero"], held["w_zero"], **attributes)
    names = ("x", "w", "x_zero", "w_zero")
    network = network_of("ConvInteger", fed, held, Tensor("y", "int32", want.shape), attributes, names)
    made, left = decompose_zero_points(network)
    assert not left
    assert [layer.op for layer in made.layers] == ["ConvInteger", "WithoutZeroPoint"]
    got, steps = made_of(made, fed)
    assert [type(one) for one in steps] == [IntegerConvolution, Expressed]
    np.testing.assert_array_equal(got, want)


def test_a_convolution_of_one_axis_has_columns_alone() -> None:
    fed, held = {"x": whole("uint8", 2, 3, 9), "x_zero": whole("uint8")}, {"w": whole("int8", 4, 3, 3)}
    window = {"strides": (1, 2), "dilations": (1, 1), "pads": (0, 2, 0, 1), "group": 1}
    want = by_taps(fed["x"][:, :, None], held["w"][:, :, None], fed["x_zero"], 0, **window)[:, :, 0]
    attributes = {"strides": (2,), "pads": (2, 1)}
    network = network_of("ConvInteger", fed, held, Tensor("y", "int32"), attributes, ("x", "w", "x_zero"))
    got, _ = made_of(decompose_zero_points(network)[0], fed)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("zeros", [(), (1,), (6,)], ids=["one", "a vector of one", "one for each row"])
@pytest.mark.parametrize("rows", [(6,), (2, 6), ()])
def test_a_product_of_matrices_has_the_same_integers(zeros: tuple[int, ...], rows: tuple[int, ...]) -> None:
    zeros = zeros if rows else ()
    fed = {"x": whole("uint8", *rows, 70), "x_zero": whole("uint8", *zeros)}
    held = {"w": whole("int8", 70, 9), "w_zero": whole("int8", 9)}
    zero = fed["x_zero"].reshape(-1, 1) if zeros == (6,) else fed["x_zero"].reshape(-1)[0]
    want = (fed["x"].astype(int) - zero.astype(int)) @ (held["w"].astype(int) - held["w_zero"].astype(int))
    names = ("x", "w", "x_zero", "w_zero")
    network = network_of(INNER, fed, held, Tensor("y", "int32", want.shape), names=names)
    got, steps = made_of(decompose_zero_points(network)[0], fed)
    assert [type(one) for one in steps] == [IntegerConvolution, Expressed]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("per_column", [True, False])
def test_a_product_to_floats_is_scaled_as_quantize_dynamic_writes_it(bias: bool, per_column: bool) -> None:
    fed = {"a": whole("uint8", 5, 33), "a_scale": np.float32(0.3), "a_zero": whole("uint8")}
    columns = (7,) if per_column else ()
    held = {"b": whole("int8", 33, 7), "b_scale": RNG.random(columns, np.float32), "b_zero": whole("int8", *columns)}
    held |= {"bias": RNG.standard_normal(7).astype(np.float32)} if bias else {}
    names = ("a", "b", "a_scale", "b_scale", "a_zero", "b_zero", *(["bias"] if bias else []))
    network = network_of(TO_FLOAT, fed, held, Tensor("y", "float32", (5, 7)), names=names)
    got, steps = made_of(decompose_zero_points(network)[0], fed)
    whole_sums = (fed["a"].astype(int) - int(fed["a_zero"])) @ (held["b"].astype(int) - held["b_zero"].astype(int))
    want = whole_sums.astype(np.float32) * (fed["a_scale"] * held["b_scale"])
    assert [type(one) for one in steps] == [IntegerConvolution, Expressed]
    np.testing.assert_array_equal(got, want + held["bias"] if bias else want)


def test_a_product_to_floats_with_a_known_zero_point_needs_no_correction() -> None:
    fed = {"a": whole("uint8", 5, 33), "a_scale": np.float32(0.3)}
    held = {"b": whole("int8", 33, 7), "b_scale": np.float32(0.2), "a_zero": np.uint8(9)}
    names = ("a", "b", "a_scale", "b_scale", "a_zero")
    network = network_of(TO_FLOAT, fed, held, Tensor("y", "float32", (5, 7)), names=names)
    made, _ = decompose_zero_points(network)
    assert "WithoutZeroPoint" not in [layer.op for layer in made.layers]
    got, _ = made_of(made, fed)
    sums = (fed["a"].astype(int) - 9) @ held["b"].astype(int)
    np.testing.assert_array_equal(got, sums.astype(np.float32) * (fed["a_scale"] * held["b_scale"]))


@pytest.mark.parametrize("bias", [True, False])
def test_a_dynamic_product_is_quantized_in_front(bias: bool) -> None:
    fed = {"a": RNG.standard_normal((2, 4, 20), np.float32)}
    held = {"b": whole("uint8", 20, 6), "b_scale": np.float32(0.07), "b_zero": np.uint8(120)}
    held |= {"bias": RNG.standard_normal(6).astype(np.float32)} if bias else {}
    network = network_of(DYNAMIC, fed, held, Tensor("y", "float32", (2, 4, 6)))
    made, _ = decompose_zero_points(network)
    assert all(map(is_of_product, made.layers))
    got, steps = made_of(made, fed)
    assert [type(one) for one in steps] == [DynamicQuantization, IntegerConvolution, Expressed]
    assert steps[1].layer.name == "one"
    q, scale, zero = by_formula(fed["a"])
    sums = (q.astype(int) - int(zero)) @ (held["b"].astype(int) - 120)
    want = sums.astype(np.float32) * (scale * held["b_scale"])
    np.testing.assert_array_equal(got, want + held["bias"] if bias else want)


def test_a_dynamic_product_of_two_computed_tensors_is_an_expression() -> None:
    fed = {"a": RNG.standard_normal((4, 20), np.float32), "b": whole("uint8", 20, 6), "b_scale": np.float32(0.07)}
    held = {"b_zero": np.uint8(120), "bias": RNG.standard_normal(6).astype(np.float32)}
    network = network_of(DYNAMIC, fed, held, Tensor("y", "float32", (4, 6)))
    made, _ = decompose_zero_points(network)
    got, steps = made_of(made, fed)
    assert [type(one) for one in steps] == [DynamicQuantization, Expressed]
    q, scale, zero = by_formula(fed["a"])
    sums = (q.astype(int) - int(zero)) @ (fed["b"].astype(int) - 120)
    np.testing.assert_array_equal(got, sums.astype(np.float32) * (scale * fed["b_scale"]) + held["bias"])


def test_a_constant_zero_point_stays_in_the_kernel() -> None:
    held = {"w": whole("int8", 70, 9), "x_zero": np.uint8(5)}
    network = network_of(INNER, {"x": whole("uint8", 6, 70)}, held, Tensor("y", "int32"), names=("x", "w", "x_zero"))
    made, left = decompose_zero_points(network)
    assert (made.layers, left) == (network.layers, {})


@pytest.mark.parametrize(
    ("why", "changed", "held"),
    [
        ("the shape of its input 'x' is unknown", {"x": Tensor("x", "uint8", (None, 70))}, {}),
        ("constant w: 'w' is computed", {}, {"w": None}),
        ("its w_zero_point 'w_zero' is computed", {}, {"w_zero": None}),
        ("accumulator", {"x": Tensor("x", "uint8", (6, 2**17))}, {"w": np.zeros((2**17, 9), np.int8)}),
    ],
)
def test_what_stays_whole_says_why(why: str, changed: Any, held: dict[str, Any]) -> None:
    constants = {"w": whole("int8", 70, 9), "w_zero": np.int8(3), **held}
    constants = {name: array for name, array in constants.items() if array is not None}
    fed = {"x": whole("uint8", 6, 70), "x_zero": whole("uint8")}
    network = network_of(INNER, fed, constants, Tensor("y", "int32"), names=("x", "w", "x_zero", "w_zero"))
    network = replace(network, tensors={**network.tensors, **changed})
    made, left = decompose_zero_points(network)
    assert made.layers == network.layers
    assert why in left["one"].text


def test_three_axes_stay_whole() -> None:
    fed = {"x": whole("uint8", 1, 4, 3, 5, 5), "x_zero": whole("uint8")}
    held = {"w": whole("int8", 6, 4, 2, 3, 3)}
    network = network_of("ConvInteger", fed, held, Tensor("y", "int32"), {}, ("x", "w", "x_zero"))
    made, left = decompose_zero_points(network)
    assert made.layers == network.layers
    assert left["one"].text == "its zero point is computed at each run, and its filter has three axes"


def test_a_named_layer_stays_whole() -> None:
    fed = {"x": whole("uint8", 6, 70), "x_zero": whole("uint8")}
    held = {"w": whole("int8", 70, 9)}
    network = network_of(INNER, fed, held, Tensor("y", "int32"), names=("x", "w", "x_zero"))
    made, left = decompose_zero_points(network, without=["one"])
    assert (made.layers, left) == (network.layers, {})


@pytest.mark.parametrize(
    ("why", "shape"), [("its scale of A has the shape (5,)", (5,)), ("'a_scale' is unknown", None)]
)
def test_a_product_with_a_scale_for_each_row_stays_whole(why: str, shape: Any) -> None:
    fed = {"a": whole("uint8", 5, 33), "a_scale": np.ones(5, np.float32), "a_zero": whole("uint8")}
    held = {"b": whole("int8", 33, 7), "b_scale": np.float32(1)}
    names = ("a", "b", "a_scale", "b_scale", "a_zero")
    network = network_of(TO_FLOAT, fed, held, Tensor("y", "float32", (5, 7)), names=names)
    network = replace(network, tensors={**network.tensors, "a_scale": Tensor("a_scale", "float32", shape)})
    made, left = decompose_zero_points(network)
    assert made.layers == network.layers
    assert why in left["one"].text
