"""A sum behind a convolution becomes part of it where no bit changes, and is left alone elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import quantized_networks as networks
from integer_model import Model
from one_node import whole_range
from random_tensor_ops import TELLING
from session_comparison import RUNS, assert_equal

from qconv.network import fold_sums, read_layer
from qconv.onnx import Session

FOLDED = "com.microsoft.QLinearAdd folded"


def whys(model: Model, *outputs: str) -> dict[str, str]:
    """What is said of each layer, once three runs had the bits of ONNX Runtime."""
    made = model.made(*outputs)
    session = Session(made, "cpu", sums_in_convolutions=True)
    for turn in range(RUNS):
        fed = {name: np.roll(array, turn, -1) for name, array in model.fed.items()}
        for name, got, want in zip(outputs, session.run(None, fed), networks.by_ort(made, fed), strict=True):
            assert_equal(got, want, f"{name}, run {turn}")
    return {row.name: row.why for row in session.explain().rows}


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


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 1, 1, 1), (1, 1, 2, 1)], ids=str)
@pytest.mark.parametrize("own_is_first", [True, False])
def test_the_sum_begins_as_that_of_onnxruntime(own_is_first: bool, shape: tuple[int, ...]) -> None:
    """A convolution that changes nothing, and bytes whose sum depends on it. Of single numbers the other is first."""
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
    """Blocks one behind the other: each convolution takes one sum, and reads what the one before gave."""
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


@pytest.mark.parametrize("what", ["read twice", "an output", "another scale", "itself", "a constant", "other extents"])
def test_what_is_left_alone(what: str) -> None:
    model = Model()
    x = model.input(2, 4, 5, 5)
    x_is, own_is, residual_is, y_is = (model.numbers() for _ in range(4))
    own = model.conv(x, 4, 8, x_is, own_is)
    residual = model.constant(whole_range(model.rng, "uint8", (1, 8, 1, 1))) if what == "a constant" else None
    residual = own if what == "itself" else residual
    shape = (2, 1, 5, 5) if what == "other extents" else (2, 8, 5, 5)
    residual = model.input(*shape) if residual is None else residual
    read_as = model.numbers() if what == "another scale" else own_is
    outputs = [model.add(own, read_as, residual, residual_is, y_is)]
    if what == "read twice":
        outputs.append(model.node("MaxPool", [own], kernel_shape=[2, 2]))
    if what == "an output":
        outputs.append(own)
    said = whys(model, *outputs)
    assert {own, outputs[0]} <= set(said)
    assert not any(FOLDED in why for why in said.values())


def test_a_sum_of_other_shapes_at_run_time_runs_elsewhere() -> None:
    """Its shape is known only with the input: what was folded runs as it was read."""
    model = Model()
    x, residual = model.input(2, 4, 5, 5), model.input(2, 1, 5, 5, open_shape=["N", "C", "H", "W"])
    own_is, residual_is, y_is = (model.numbers() for _ in range(3))
    own = model.conv(x, 4, 8, model.numbers(), own_is)
    y = model.add(own, own_is, residual, residual_is, y_is)
    assert "(2, 1, 5, 5) is added: the kernels add equal shapes" in whys(model, y)[own]
    model.fed[residual] = whole_range(model.rng, "uint8", (2, 8, 5, 5))
    assert "equal shapes" not in whys(model, y)[own]
