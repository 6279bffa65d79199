"""A sum after a convolution is folded into it if no bit changes, and is left alone otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import quantized_networks as networks
from integer_model import Model
from one_node import whole_range
from random_tensor_ops import TELLING
from session_comparison import RUNS, assert_equal

from qconv.network import Choices, IntegerConvolution, Region, find_regions, fold_sums, read_layer
from qconv.network.layers.binary import QuantizedBinary
from qconv.network.layers.convolution import Added
from qconv.network.layers.folds import with_sum
from qconv.onnx import Session

FOLDED = "com.microsoft.QLinearAdd folded"


def whys(model: Model, *outputs: str) -> dict[str, str]:
    """Return the explanation of each layer, after checking that three runs had the bits of ONNX Runtime."""
    made = model.made(*outputs)
    session = Session(made, "cpu", sums_in_convolutions=True)
    for turn in range(RUNS):
        fed = {name: np.roll(array, turn, -1) for name, array in model.fed.items()}
        for name, got, want in zip(outputs, session.run(None, fed), networks.by_ort(made, fed), strict=True):
            assert_equal(got, want, f"{name}, run {turn}")
    return {row.name: row.why for row in session.explain().rows}


@pytest.mark.turns
@pytest.mark.parametrize("own_is_first", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_convolution_and_a_sum_are_one_layer(dtype: str, own_is_first: bool) -> None:
    for seed, (c, k, size) in enumerate([(8, 16, 3), (3, 5, 1)]):
        model = Model(dtype, seed)
        x, residual = model.input(2, c, 6, 7), model.input(2, k, 6, 7)
        own_is, residual_is, y_is = (model.numbers() for _ in range(3))
        own = model.conv(x, c, k, model.numbers(), own_is, size)
        pair = (own, own_is, residual, residual_is) if own_is_first else (residual, residual_is, own, own_is)
        said = whys(model, model.add(*pair, y_is))
        assert list(said) == [own]
        assert said[own].startswith(f"QLinearConv, {FOLDED}, which changes no bit")


@pytest.mark.turns
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 1, 1, 1), (1, 1, 2, 1)], ids=str)
@pytest.mark.parametrize("own_is_first", [True, False])
def test_the_sum_begins_as_that_of_onnxruntime(own_is_first: bool, shape: tuple[int, ...]) -> None:
    """An identity convolution, and bytes whose sum depends on the order. For single numbers the other is first."""
    for at, given in enumerate(TELLING):
        model = Model("uint8", at)
        x, residual = (model.input(*shape) for _ in "ab")
        own_is = model.numbers((given["a_scale"], given["a_zero_point"]))
        residual_is = model.numbers((given["b_scale"], given["b_zero_point"]))
        y_is = model.numbers((given["y_scale"], given["y_zero_point"]))
        own = model.conv(x, 1, 1, own_is, own_is, w=np.ones((1, 1, 1, 1), "uint8"))
        pair = (own, own_is, residual, residual_is) if own_is_first else (residual, residual_is, own, own_is)
        made = model.made(model.add(*pair, y_is))
        session = Session(made, "cpu", sums_in_convolutions=True)
        ort = networks.onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        for byte in range(0, 256, 3):
            fed = {x: np.full(shape, byte, "uint8"), residual: np.full(shape, (byte * 7 + at) % 256, "uint8")}
            assert_equal(session.run(None, fed)[0], ort.run(None, fed)[0], str(fed))
        assert FOLDED in session.explain().rows[0].why


def test_of_two_convolutions_the_later_one_takes_the_sum() -> None:
    model = Model()
    x = model.input(2, 4, 5, 5)
    x_is, one_is, two_is, y_is = (model.numbers() for _ in range(4))
    one = model.conv(x, 4, 8, x_is, one_is)
    two = model.conv(x, 4, 8, x_is, two_is, 3)
    y = model.add(two, two_is, one, one_is, y_is)
    said = whys(model, y)
    assert sorted(said) == [one, two]
    assert FOLDED in said[list(said)[-1]]
    network = Session(model.made(y), "cpu", sums_in_convolutions=True)._model.network
    layers = {layer.name: layer for layer in network.layers}
    for first, last in ((one, two), (two, one)):
        ordered = replace(network, layers=(layers[first], layers[last], layers[y]))
        made, _ = fold_sums(ordered, {name: read_layer(layer, ordered) for name, layer in layers.items()})
        assert [layer.name for layer in made.layers] == [first, last]
        assert made.layers[1].parts == (layers[last], layers[y])


def test_a_sum_of_sums() -> None:
    """Consecutive blocks: each convolution adds the previous sum, and reads the previous output."""
    model = Model("int8", 3)
    x, x_is = model.input(2, 8, 6, 6), model.numbers()
    for _ in range(3):
        own_is, y_is = model.numbers(), model.numbers()
        x, x_is = model.add(model.conv(x, 8, 8, x_is, own_is, 3), own_is, x, x_is, y_is), y_is
    said = whys(model, x)
    assert len(said) == 3
    assert all(FOLDED in why for why in said.values())


def test_a_product_of_matrices_and_a_sum() -> None:
    model = Model("int8", 4)
    x, residual = model.input(5, 16), model.input(5, 12)
    own_is, residual_is, y_is = (model.numbers() for _ in range(3))
    w = model.constant(whole_range(model.rng, "int8", (16, 12)))
    w_is = model.constant(np.float32(0.004)), model.constant(np.int8(0))
    own = model.node("QLinearMatMul", [x, *model.numbers(), w, *w_is, *own_is])
    said = whys(model, model.add(residual, residual_is, own, own_is, y_is))
    assert list(said) == [own]


@pytest.mark.parametrize("lacking", ["own", "residual", "y", "own, residual, y"])
@pytest.mark.parametrize("own_is_first", [True, False])
def test_a_zero_point_that_is_not_given_is_zero(own_is_first: bool, lacking: str) -> None:
    """Independent of the other tensors' zero points. ONNX Runtime requires all of them; ONNX does not."""
    model = Model("uint8", 7)
    zeros = {name: 0 if name in lacking else zero for name, zero in (("own", 100), ("residual", 37), ("y", 201))}
    own_is, residual_is, y_is = (model.numbers((0.1, zero)) for zero in zeros.values())
    own = model.conv(model.input(2, 4, 5, 5), 4, 8, model.numbers(), own_is)
    pair = [(own, own_is), (model.input(2, 8, 5, 5), residual_is)]
    (a, a_is), (b, b_is) = pair if own_is_first else reversed(pair)
    network, served = read(model, y := model.add(a, a_is, b, b_is, y_is))
    whole = with_sum(network, served[own], served[y])
    left_out = [
        zero for name, (_, zero) in (("own", own_is), ("residual", residual_is), ("y", y_is)) if name in lacking
    ]
    assert whole is not None
    layer = served[y].layer
    other = replace(layer, inputs=tuple("" if name in left_out else name for name in layer.inputs))
    network = replace(network, layers=tuple(other if one is layer else one for one in network.layers))
    add: Any = read_layer(other, network)
    made = with_sum(network, served[own], add)
    assert made is not None
    assert made.parameters == whole.parameters
    # A convolution whose output zero point differs from the sum's input stays a separate layer.
    another = {**served[own].parameters, "y_zero_point": np.uint8(99)}
    assert with_sum(network, replace(served[own], parameters=another), add) is None


def test_a_clamp_within_a_convolution_stays_in_front_of_the_sum() -> None:
    model = Model("uint8", 8)
    own_is, residual_is, y_is = model.numbers((0.1, 128)), model.numbers((0.1, 128)), model.numbers((0.2, 128))
    own = model.conv(model.input(2, 4, 5, 5), 4, 8, model.numbers(), own_is)
    real = model.node("Relu", [model.node("DequantizeLinear", [own, *own_is])])
    clamped = model.node("QuantizeLinear", [real, *own_is])
    y = model.add(clamped, own_is, model.input(2, 8, 5, 5), residual_is, y_is)
    said = whys(model, y)
    assert list(said) == [own, y]
    assert said[own].startswith("QLinearConv, DequantizeLinear, Relu, QuantizeLinear folded")
    assert not regions_of(model, y)


def regions_of(model: Model, *outputs: str) -> list[Region]:
    """Return the elements of the region in which a convolution with its sum competes with two kernels."""
    network, served = read(model, *outputs)
    found = find_regions(network, served, Choices(tables=False, pools=False, chains=False))[1]
    return [one for one in found.values() if isinstance(one, Region)]


def read(model: Model, *outputs: str) -> tuple[Any, dict[str, Any]]:
    choices = {"sums_in_convolutions": False, "tables_in_convolutions": False, "fused_convolutions": False}
    session = Session(model.made(*outputs), "cpu", pools_in_convolutions=False, **choices)
    return session._model.network, dict(session._described.runner._served)


LEFT_ALONE = (
    *("read twice", "an output", "another scale", "the same scale, another zero point", "another scale alone"),
    *("itself", "a constant", "other extents", "another rank", "a product"),
)


@pytest.mark.parametrize("what", LEFT_ALONE)
def test_what_is_left_alone(what: str) -> None:
    model = Model()
    x = model.input(5, 4, 5, 5)
    x_is, residual_is, y_is = (model.numbers() for _ in range(3))
    own_is = model.numbers((0.1, 77))
    own = model.conv(x, 4, 5, x_is, own_is)
    residual = model.constant(whole_range(model.rng, "uint8", (5, 5, 5, 5))) if what == "a constant" else None
    residual = own if what == "itself" else residual
    shape = {"other extents": (5, 1, 5, 5), "another rank": (5, 5, 5)}.get(what, (5, 5, 5, 5))
    residual = model.input(*shape) if residual is None else residual
    others: dict[str, Any] = {
        "another scale": model.numbers(),
        "the same scale, another zero point": model.numbers((0.1, 78)),
        "another scale alone": model.numbers((0.11, 77)),
    }
    read_as = others.get(what, own_is)
    op = "QLinearMul" if what == "a product" else "QLinearAdd"
    outputs = [model.node(op, [own, *read_as, residual, *residual_is, *y_is], domain="com.microsoft")]
    if what == "read twice":
        outputs.append(model.node("MaxPool", [own], kernel_shape=[2, 2]))
    if what == "an output":
        outputs.append(own)
    said = whys(model, *outputs)
    assert {own, outputs[0]} <= set(said)
    assert not any(" folded" in why for why in said.values())
    assert not regions_of(model, *outputs)


def test_the_pass_alone() -> None:
    model = Model()
    own_is = model.numbers()
    own = model.conv(model.input(2, 4, 5, 5), 4, 8, model.numbers(), own_is)
    residual = model.input(2, 8, 5, 5)
    y = model.add(residual, model.numbers(), own, own_is, model.numbers())
    assert len(regions_of(model, y)) == 1
    network, served = read(model, y)
    convolution, add = served[own], served[y]
    assert isinstance(convolution, IntegerConvolution)
    assert isinstance(add, QuantizedBinary)
    made = with_sum(network, convolution, add)
    assert made is not None
    assert made.added == Added(residual, True)
    for changed in ({"added": made.added}, {"out_type": "int8"}, {"activation": "relu"}):
        assert with_sum(network, replace(convolution, **changed), add) is None


def test_a_sum_of_other_shapes_at_run_time_runs_elsewhere() -> None:
    """Its shape is known only with the input: the folded layers then run separately."""
    model = Model()
    x, residual = model.input(2, 4, 5, 5), model.input(2, 1, 5, 5, open_shape=["N", "C", "H", "W"])
    own_is, residual_is, y_is = (model.numbers() for _ in range(3))
    own = model.conv(x, 4, 8, model.numbers(), own_is)
    y = model.add(own, own_is, residual, residual_is, y_is)
    assert "(2, 1, 5, 5) is added: the kernels add equal shapes" in whys(model, y)[own]
    model.fed[residual] = whole_range(model.rng, "uint8", (2, 8, 5, 5))
    assert "equal shapes" not in whys(model, y)[own]
