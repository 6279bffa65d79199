"""Sums, products and tables behind a convolution are one table of it, if they are a function of its bytes alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import quantized_networks as networks
from integer_model import Model
from light_layers import Bytes, by_own_kernels, served_of
from one_node import whole_range
from session_comparison import RUNS, assert_equal

from qconv.network import fold_byte_chains, read_layer
from qconv.network.layers.table import Tabulated
from qconv.onnx import Session

TYPES = pytest.mark.parametrize("dtype", ["int8", "uint8"])


class Chain(Model):
    """A convolution, and ops behind it. `is_of` has the scale and the zero point of each tensor."""

    def __init__(self, dtype: str, seed: int, shape: tuple[int, ...] = (2, 8, 5, 6), k: int = 8, **how: Any) -> None:
        super().__init__(dtype, seed)
        x_is, own_is = self.numbers(), self.numbers((0.05, int(whole_range(self.rng, dtype, ()))))
        self.is_of = {"": x_is}
        self.x = self.input(*shape, **how)
        self.is_of[self.x] = x_is
        self.own = self.conv(self.x, shape[1], k, x_is, own_is)
        self.is_of[self.own] = own_is

    def op(self, op: str, *reads: Any, **attributes: Any) -> str:
        """Add an op of com.microsoft. Arrays become constants."""
        given = []
        for each in reads:
            name = each if isinstance(each, str) else self.constant(np.asarray(each, self.dtype))
            given += [name, *self.is_of.setdefault(name, self.numbers())]
        y_is = self.numbers()
        y = self.node(op, [*given, *y_is], domain="com.microsoft", **attributes)
        self.is_of[y] = y_is
        return y

    def silu(self, x: str) -> str:
        return self.op("QLinearMul", x, self.op("QLinearSigmoid", x))

    def ran(self, *outputs: str, tables: bool | None = True) -> list[str]:
        """Return the layers, after checking that three runs had the bits of ONNX Runtime."""
        made = self.made(*outputs)
        session = Session(made, "cpu", tables_in_convolutions=tables)
        for turn in range(RUNS):
            fed = {name: np.roll(array, turn, -1) for name, array in self.fed.items()}
            for name, got, want in zip(outputs, session.run(None, fed), networks.by_ort(made, fed), strict=True):
                assert_equal(got, want, f"{name}, run {turn}")
        return [row.name for row in session.explain().rows]


def folded(model: Chain, *outputs: str) -> list[Any]:
    """Return the layers that the pass leaves."""
    network = Session(model.made(*outputs), "cpu", tables_in_convolutions=False)._model.network.without_unread()
    made, served = fold_byte_chains(network, {layer.name: read_layer(layer, network) for layer in network.layers})
    assert set(served) == {layer.name for layer in made.layers}
    return [served[layer.name] for layer in made.layers]


@TYPES
def test_a_silu_is_a_table_of_its_convolution(dtype: str) -> None:
    for seed in range(4):
        model = Chain(dtype, seed)
        assert model.ran(model.silu(model.own)) == [model.own]


@TYPES
def test_any_functions_of_one_byte_are(dtype: str) -> None:
    """With numbers on either side, which decide the order of a sum."""
    for seed in range(4):
        model = Chain(dtype, 100 + seed)
        halved = model.op("QLinearMul", model.own, [100])
        bent = model.op("QLinearAdd", [90], model.op("QLinearSigmoid", halved))
        product = model.op("QLinearMul", bent, model.own)
        total = model.op("QLinearAdd", model.own, model.op("QLinearAdd", product, 77))
        assert model.ran(model.op("QLinearLeakyRelu", total, alpha=0.3)) == [model.own]


@pytest.mark.turns
@TYPES
@pytest.mark.parametrize("shape", [(1, 256, 1, 1), (1, 1, 1, 256), (256,), (4, 64), (256, 1)])
def test_the_shape_decides_the_order_of_a_sum(dtype: str, shape: tuple[int, ...]) -> None:
    """The scales make near ties, where another order has other bits."""
    for seed in range(100):
        made = Bytes(dtype, f"order {seed}")
        made.kind = "hundredths"
        x = made.input(*shape)
        made.fed[x] = np.arange(256, dtype=np.uint8).view(dtype).reshape(shape)
        numbers = [made.constant(*[1] * (seed % (len(shape) + 1))), made.constant()]
        y = made.pair("Add", *([x, numbers[0]][:: 1 - seed % 2 * 2]))
        y = made.pair("Add", *([y, numbers[1]][:: 1 - seed // 2 % 2 * 2]))
        y = made.pair("Add", x, y)
        network = made.network(y)
        chain, served = fold_byte_chains(network, served_of(network))
        (layer,) = chain.layers
        one = served[layer.name]
        assert isinstance(one, Tabulated)
        got = one.table[made.fed[x].view(np.uint8)]
        np.testing.assert_array_equal(got, by_own_kernels(network, made.fed)[y])


def test_a_batch_that_is_open_is_any() -> None:
    model = Chain("uint8", 3, open_shape=["n", 8, 5, 6])
    y = model.op("QLinearAdd", model.silu(model.own), [3])
    (_, table) = folded(model, y)
    assert isinstance(table, Tabulated)
    assert model.ran(y) == [model.own]
    for shape, open_shape, k in (((2, 8, 5, 6), ["n", 8, "h", 6], 8), ((2, 8, 1, 1), ["n", 8, 1, 1], 1)):
        model = Chain("uint8", 3, shape, k, open_shape=open_shape)
        own, silu, total = folded(model, model.op("QLinearAdd", model.silu(model.own), [3]))
        assert isinstance(silu, Tabulated)
        assert (own.y, silu.x, total.inputs) == (model.own, model.own, (silu.y,))


def test_the_layer_has_its_parts() -> None:
    model = Chain("uint8", 5)
    sigmoid = model.op("QLinearSigmoid", model.own)
    y = model.op("QLinearMul", model.own, sigmoid)
    own, table = folded(model, y)
    assert isinstance(table, Tabulated)
    assert (own.y, table.x, table.y) == (model.own, model.own, y)
    assert [part.name for part in table.layer.parts] == [sigmoid, y]
    every = np.arange(256, dtype=np.uint8)
    assert table.table.shape == every.shape


@pytest.mark.parametrize("what", ["a vector", "another tensor", "another convolution"])
def test_what_needs_more_than_one_byte_stays(what: str) -> None:
    model = Chain("uint8", 7)
    other: Any = model.x
    if what == "a vector":
        other = np.arange(8).reshape(8, 1, 1)
    if what == "another convolution":
        other = model.conv(model.x, 8, 8, model.is_of[model.x], model.is_of[model.own])
        model.is_of[other] = model.is_of[model.own]
    y = model.op("QLinearMul", model.op("QLinearSigmoid", model.own), other)
    assert not any(isinstance(one, Tabulated) and one.layer.parts for one in folded(model, y))
    assert len(model.ran(y)) >= 2


@pytest.mark.parametrize("what", ["read twice", "an output"])
def test_a_tensor_with_other_readers_is_looked_up(what: str) -> None:
    model = Chain("uint8", 8)
    y = model.silu(model.own)
    more = model.node("MaxPool", [model.own], kernel_shape=[2, 2]) if what == "read twice" else model.own
    assert [one.y for one in folded(model, y, more) if isinstance(one, Tabulated)] == [y]
    assert len(model.ran(y, more)) == 2 + (what == "read twice")


def test_the_middle_of_a_chain_that_others_read_is_an_end_of_one() -> None:
    """And the start of another one."""
    model = Chain("uint8", 9)
    middle = model.silu(model.own)
    y = model.op("QLinearAdd", model.op("QLinearSigmoid", middle), [5])
    z = model.op("QLinearAdd", y, model.x)
    pooled = model.node("MaxPool", [middle], kernel_shape=[2, 2])
    for more, count in ((middle, 4), (pooled, 5)):
        made = folded(model, z, more)
        assert len(made) == count
        assert [(one.x, one.y) for one in made if isinstance(one, Tabulated)] == [(model.own, middle), (middle, y)]
    own, first, second, last = folded(model, z, middle)
    assert (own.y, first.x, first.y, second.x, second.y, last.y) == (model.own, model.own, middle, middle, y, z)
    assert [part.op for part in first.layer.parts] == ["com.microsoft.QLinearSigmoid", "com.microsoft.QLinearMul"]
    (_, whole, last) = folded(model, z)
    assert (whole.x, whole.y, len(whole.layer.parts)) == (model.own, y, 4)
    assert model.ran(z, middle)


def test_a_chain_behind_any_tensor_is_a_table() -> None:
    """Its first layer reads what no convolution makes."""
    model = Chain("int8", 10)
    pooled = model.node("MaxPool", [model.x], kernel_shape=[2, 2])
    model.is_of[pooled] = model.is_of[model.x]
    y = model.silu(pooled)
    assert [type(one) is Tabulated for one in folded(model, y)] == [False, True]
    assert model.ran(y) == [pooled, y]
    alone = Chain("int8", 12)
    y = alone.silu(alone.x)
    assert alone.ran(y) == [y]


def test_where_the_choice_is_open_both_ways_are_compared() -> None:
    model = Chain("uint8", 11)
    y = model.silu(model.own)
    assert len(model.ran(y, tables=None)) <= 2
    assert len(model.ran(y, tables=False)) == 2
