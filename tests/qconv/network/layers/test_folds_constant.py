"""The QLinearAdd or QLinearMul of a constant per channel is folded into the convolution or product before it, with the
same bits."""

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

from qconv.network import Choices, find_regions, fold_channel_constants, read_layer
from qconv.network.layers.folds import with_constant, with_pool
from qconv.onnx import Session

ADD, MATMUL = "com.microsoft.QLinearAdd", "QLinearMatMul"
K = 64


def whys(model: Model, *outputs: str, **choices: bool) -> dict[str, str]:
    """Return the explanation of each layer, after checking that three runs had the bits of ONNX Runtime."""
    made = model.made(*outputs)
    session = Session(made, "cpu", **choices)
    for turn in range(RUNS):
        fed = {name: np.roll(array, turn, -1) for name, array in model.fed.items()}
        for name, got, want in zip(outputs, session.run(None, fed), networks.by_ort(made, fed), strict=True):
            assert_equal(got, want, f"{name}, run {turn}")
    return {row.name: row.why for row in session.explain().rows}


def product(model: Model, x: str, c: int, k: int, y_is: Any) -> str:
    w = model.constant(whole_range(model.rng, model.dtype, (c, k)))
    w_is = model.constant(np.float32(0.004)), model.constant(np.zeros((), model.dtype))
    return model.node(MATMUL, [x, *model.numbers(), w, *w_is, *y_is])


def biased(model: Model, own: str, own_is: Any, y_is: Any, shape: tuple[int, ...], is_first: bool) -> str:
    """Add a sum with a constant of this shape."""
    constant, numbers = model.constant(whole_range(model.rng, model.dtype, shape)), model.numbers()
    pair = (constant, numbers, own, own_is) if is_first else (own, own_is, constant, numbers)
    return model.add(*pair, y_is)


@pytest.mark.turns
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_the_bias_of_a_product_is_in_its_kernel(dtype: str, is_first: bool) -> None:
    for seed, (shape, c, k) in enumerate([((2, 7, 16), 16, 12), ((5, 3), 3, 5), ((2, 2, 3, 8), 8, 33)]):
        model = Model(dtype, seed)
        own_is, y_is = model.numbers(), model.numbers()
        own = product(model, model.input(*shape), c, k, own_is)
        said = whys(model, biased(model, own, own_is, y_is, (1,) * (seed % 2) + (k,), is_first))
        assert list(said) == [own]
        assert said[own].startswith(f"{MATMUL}, {ADD} folded, which changes no bit")


@pytest.mark.turns
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("size", [(6, 7), (6, 1), (1, 1)], ids=str)
def test_a_number_per_channel_of_a_convolution(size: tuple[int, int], is_first: bool) -> None:
    for seed, shape in enumerate([(10, 1, 1), (1, 10, 1, 1)]):
        model = Model("int8", seed)
        own_is, y_is = model.numbers(), model.numbers()
        own = model.conv(model.input(2, 8, *size), 8, 10, model.numbers(), own_is, 3)
        said = whys(model, biased(model, own, own_is, y_is, shape, is_first))
        assert list(said) == [own]


@pytest.mark.turns
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_factor_of_each_channel_and_the_residual_behind_it(dtype: str, is_first: bool) -> None:
    """A branch with a scale, as hybrid networks have it."""
    model = Model(dtype, 11)
    x, x_is = model.input(2, 6, 5, 7), model.numbers()
    own_is, scaled_is, factor_is, y_is = model.numbers(), model.numbers(), model.numbers((0.01, 3)), model.numbers()
    own = model.conv(x, 6, 6, x_is, own_is, 3)
    factor = model.constant(whole_range(model.rng, dtype, (6, 1, 1)))
    pair = (factor, factor_is, own, own_is) if is_first else (own, own_is, factor, factor_is)
    read = [*pair[:1], *pair[1], pair[2], *pair[3], *scaled_is]
    scaled = model.node("QLinearMul", read, domain="com.microsoft")
    said = whys(model, model.add(x, x_is, scaled, scaled_is, y_is), sums_in_convolutions=True)
    assert list(said) == [own]
    assert said[own].startswith(f"QLinearConv, com.microsoft.QLinearMul, {ADD} folded")


@pytest.mark.turns
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("is_first", [True, False])
def test_the_sum_begins_as_that_of_onnxruntime(is_first: bool, rows: int) -> None:
    """An identity product, and bytes whose sum depends on the order."""
    for at, given in enumerate(TELLING):
        model = Model("uint8", at)
        x = model.input(rows, K)
        own_is = model.numbers((given["a_scale"], given["a_zero_point"]))
        constant_is = model.numbers((given["b_scale"], given["b_zero_point"]))
        y_is = model.numbers((given["y_scale"], given["y_zero_point"]))
        w_is = model.constant(np.float32(1)), model.constant(np.uint8(0))
        own = model.node(MATMUL, [x, *own_is, model.constant(np.eye(K, dtype=np.uint8)), *w_is, *own_is])
        constant = model.constant(np.arange(0, 256, 256 // K, dtype=np.uint8))
        pair = (constant, constant_is, own, own_is) if is_first else (own, own_is, constant, constant_is)
        made = model.made(model.add(*pair, y_is))
        session, ort = Session(made, "cpu"), networks.reference(made)
        for byte in range(0, 256, 3):
            fed = {x: np.full((rows, K), byte, "uint8")}
            assert_equal(session.run(None, fed)[0], ort.run(None, fed)[0], str(byte))
        assert ADD in session.explain().rows[0].why


@pytest.mark.turns
def test_what_follows_a_constant_is_folded_as_well() -> None:
    """A block of a transformer: bias and function; bias and residual."""
    model = Model("uint8", 3)
    x, x_is = model.input(2, 5, 16), model.numbers()
    one_is, two_is, three_is, four_is, five_is, y_is = (model.numbers() for _ in range(6))
    one = product(model, x, 16, 24, one_is)
    bent = model.node(
        "QLinearSigmoid", [biased(model, one, one_is, two_is, (24,), True), *two_is, *three_is], domain="com.microsoft"
    )
    two = product(model, bent, 24, 16, four_is)
    y = model.add(biased(model, two, four_is, five_is, (16,), False), five_is, x, x_is, y_is)
    said = whys(model, y, sums_in_convolutions=True, tables_in_convolutions=True)
    assert list(said) == [one, two]
    assert said[one].startswith(f"{MATMUL}, {ADD}, com.microsoft.QLinearSigmoid folded")
    assert said[two].startswith(f"{MATMUL}, {ADD}, {ADD} folded")


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (5, 3, 12)], ids=["a number", "one", "a row's", "a tensor"])
def test_a_constant_of_other_shapes_is_left_alone(shape: tuple[int, ...]) -> None:
    model = Model("int8", 5)
    own_is, y_is = model.numbers(), model.numbers()
    own = product(model, model.input(5, 3, 16), 16, 12, own_is)
    y = biased(model, own, own_is, y_is, shape, False)
    assert list(whys(model, y)) == [own, y]


def test_a_constant_of_a_row_that_is_as_long_as_the_channels() -> None:
    model = Model("int8", 8)
    own_is, y_is = model.numbers(), model.numbers()
    own = product(model, model.input(12, 16), 16, 12, own_is)
    y = biased(model, own, own_is, y_is, (12, 1), False)
    assert list(whys(model, y)) == [own, y]


@pytest.mark.parametrize("order", ["DCR", "CRD"])
def test_the_channels_of_blocks(order: str) -> None:
    """A convolution that stores its channels as the pixels of blocks, behind the sum."""
    model = Model("uint8", 9)
    own_is, y_is = model.numbers(), model.numbers()
    own = model.conv(model.input(2, 4, 5, 6), 4, 12, model.numbers(), own_is, 3)
    y = biased(model, own, own_is, y_is, (12, 1, 1), True)
    shuffled = model.node("DepthToSpace", [y], blocksize=2, mode=order)
    assert list(whys(model, shuffled)) == [own]


@pytest.mark.parametrize("what", ["read twice", "an output", "other numbers"])
def test_what_is_left_alone(what: str) -> None:
    model = Model("int8", 6)
    own_is, y_is = model.numbers(), model.numbers()
    own = product(model, model.input(5, 16), 16, 12, own_is)
    y = biased(model, own, model.numbers() if what == "other numbers" else own_is, y_is, (12,), True)
    outputs = [y]
    if what == "read twice":
        outputs.append(model.add(own, own_is, y, y_is, model.numbers()))
    if what == "an output":
        outputs.append(own)
    said = whys(model, *outputs)
    assert own in said
    assert f"{MATMUL}, {ADD} folded" not in said[own]


def test_the_pass_alone() -> None:
    model = Model("uint8", 7)
    own_is, y_is = model.numbers(), model.numbers()
    own = model.conv(model.input(2, 4, 6, 6), 4, 8, model.numbers(), own_is)
    y = biased(model, own, own_is, y_is, (8, 1, 1), True)
    pooled = model.node("MaxPool", [y], kernel_shape=[2, 2])
    network = Session(model.made(pooled), "cpu")._model.network
    served = {layer.name: read_layer(layer, network) for layer in network.layers}
    made, folded = fold_channel_constants(network, served)
    assert [layer.name for layer in made.layers] == [own, pooled]
    one: Any = folded[own]
    assert with_constant(network, one, served[y]) is None  # type: ignore[arg-type]
    assert with_pool(made, one, folded[pooled]) is None, "the pool's kernels add nothing"  # type: ignore[arg-type]
    whole = replace(one, constant=None, parameters={**one.parameters, "y_scale": one.parameters["own_scale"]})
    assert with_pool(made, whole, folded[pooled]) is not None  # type: ignore[arg-type]
    assert own in {layer.name for layer in find_regions(made, folded, Choices())[0].layers}
