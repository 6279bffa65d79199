"""Light layers of bytes as parts of expressions: which are taken over, with the bits of their own kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from light_layers import Bytes, by_expressions, by_own_kernels, served_of

from qconv.network.expressions.light import taken_over
from qconv.network.layers.binary import QuantizedBinary
from qconv.tensor_ops import Add
from qconv.tensor_ops.concat import MOST_TENSORS

Shape = tuple[int, ...]
# The larger and the smaller operand of a sum or product.
SMALLER: list[Shape] = [(2, 4, 3, 5), (1, 4, 1, 1), (2, 4, 1, 1), (2, 1, 3, 5), (4, 3, 5), (5,), (1,), ()]
PAIRS: list[tuple[Shape, Shape]] = [*(((2, 4, 3, 5), shape) for shape in SMALLER), ((2, 4, 1, 1), (1, 1))]
TYPES = pytest.mark.parametrize("dtype", ["int8", "uint8"])


def check(made: Bytes, *outputs: str) -> list[str]:
    """Check that the bits are those of the layers' own kernels, and return the layers that are expressions."""
    network = made.network(*outputs)
    want = by_own_kernels(network, made.fed)
    got, expressed = by_expressions(network, made.fed)
    for name in outputs:
        np.testing.assert_array_equal(got[name], want[name], name)
        assert got[name].dtype == want[name].dtype
    return expressed


def dequantized(made: Bytes, x: str) -> Any:
    """Return the real numbers of a tensor that the layers' own kernels make."""
    scale, zero = (made.held[name] for name in made.is_of[x])
    return (by_own_kernels(made.network(x), made.fed)[x].astype(np.int32) - zero).astype(np.float32) * scale


@pytest.mark.turns
@TYPES
@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_sums_and_products_have_the_bits_of_their_kernels(op: str, dtype: str) -> None:
    first = set()
    for seed in range(50):
        made = Bytes(dtype, f"{op} {seed}")
        larger, smaller = PAIRS[seed % len(PAIRS)]
        other = made.constant(*smaller) if seed % 4 == 3 else made.input(*smaller)
        pair = [made.input(*larger), other][:: 1 if seed % 2 else -1]
        y = made.pair(op, *pair)
        z = made.table(y)
        assert check(made, y, z) == [y, z]
        one = served_of(made.network(z))[y]
        assert isinstance(one, QuantizedBinary)
        problem, is_turned, _ = one.problem([made.shape(name) for name in pair])
        first.add((is_turned, problem.added_first if isinstance(problem, Add) else ""))
    assert len(first) == (4 if op == "Add" else 2)


@pytest.mark.turns
@TYPES
def test_neighbours_are_one_kernel_with_the_same_bits(dtype: str) -> None:
    for seed in range(30):
        made = Bytes(dtype, f"chain {seed}")
        a, b = made.input(2, 4, 3, 5), made.input(2, 4, 3, 5)
        gated = made.pair("Mul", made.table(a), a)
        y = made.pair("Add", made.table(gated, "LeakyRelu"), b)
        assert check(made, y) == [y]


@pytest.mark.turns
@TYPES
@pytest.mark.parametrize("axis", [0, 1, 3])
def test_a_concatenation_has_a_table_for_each_scale(dtype: str, axis: int) -> None:
    for seed in range(12):
        made = Bytes(dtype, f"concat {axis} {seed}")
        shapes = [[2, 4, 3, 5] for _ in range(4)]
        for at, shape in enumerate(shapes):
            shape[axis] += at
        parts = [made.input(*shape) for shape in shapes]
        parts[0] = made.table(parts[0])
        parts[1] = made.table(parts[1], "LeakyRelu")
        y = made.joined(parts, axis, made.is_of[parts[3]])  # whose bytes are copied
        assert check(made, y)[-1] == y


@TYPES
def test_a_table_looks_up_every_byte(dtype: str) -> None:
    made = Bytes(dtype, "every")
    x = made.input(256)
    made.fed[x] = np.arange(256, dtype=np.uint8).view(dtype)
    y = made.table(made.table(x, "LeakyRelu"))
    assert check(made, y) == [y]


def test_a_layer_alone_keeps_its_kernel() -> None:
    layers: list[Callable[[Bytes, str, str], str]] = [
        lambda made, a, b: made.pair("Add", a, b),
        lambda made, a, b: made.pair("Mul", a, b),
        lambda made, a, b: made.table(a),
        lambda made, a, b: made.joined([a, b], 1),
    ]
    for layer in layers:
        made = Bytes("uint8", "alone")
        y = layer(made, made.input(2, 4, 3, 5), made.input(2, 4, 3, 5))
        network = made.network(y)
        assert not taken_over(network, served_of(network)), network.layers
        assert not check(made, y)


@TYPES
@pytest.mark.parametrize("axis", [1, 3])
def test_a_part_of_a_tensor_is_cut_by_the_layer_that_alone_reads_it(axis: int, dtype: str) -> None:
    readers: list[Callable[[Bytes, str], str]] = [
        lambda made, part: made.pair("Mul", part, made.input(*made.shape(part))),
        lambda made, part: made.table(part),
    ]
    for read in readers:
        made = Bytes(dtype, "cut")
        part = made.cut(made.input(2, 9, 3, 7), axis, 2, 4)
        y = read(made, part)
        assert check(made, y) == [y]
        network = made.network(y, part)
        assert not taken_over(network, served_of(network)), "the caller reads it as well"


def test_a_layer_beside_one_without_a_kernel_is_part_of_its_expression() -> None:
    made = Bytes("uint8", "beside")
    x = made.input(2, 4, 3, 5)
    y = made.joined([made.table(x), x], 1)
    z = made.dequantized(y)
    network = made.network(z)
    assert set(taken_over(network, served_of(network))) == {layer.name for layer in made.layers[:2]}
    got, expressed = by_expressions(network, made.fed)
    assert expressed == [z]
    np.testing.assert_array_equal(got[z], dequantized(made, y))


def test_a_table_behind_a_convolution_stays_with_it() -> None:
    made = Bytes("uint8", "convolution")
    first = made.table(made.convolution(made.input(2, 8, 3, 5), 8))
    second = made.table(first, "LeakyRelu")
    network = made.network(second)
    assert not taken_over(network, served_of(network))
    third = made.table(second)
    network = made.network(third)
    assert set(taken_over(network, served_of(network))) == {second, third}


def test_a_sum_behind_a_convolution_stays_with_it() -> None:
    made = Bytes("uint8", "convolution")
    x = made.input(2, 8, 3, 5)
    total = made.pair("Add", made.convolution(x, 8), x)
    y = made.table(total)
    network = made.network(y)
    assert not taken_over(network, served_of(network))
    z = made.pair("Mul", y, x)
    network = made.network(z)
    assert set(taken_over(network, served_of(network))) == {y, z}


def test_a_convolution_that_two_layers_read_computes_neither() -> None:
    made = Bytes("uint8", "two readers")
    x = made.input(2, 8, 3, 5)
    own = made.convolution(x, 8)
    total = made.pair("Add", own, x)
    y = made.pair("Mul", made.table(own), total)
    network = made.network(y)
    assert set(taken_over(network, served_of(network))) == {layer.name for layer in made.layers[1:]}


@TYPES
def test_more_tensors_than_a_kernel_joins_are_an_expression(dtype: str) -> None:
    for count in (MOST_TENSORS, MOST_TENSORS + 1):
        made = Bytes(dtype, f"many {count}")
        parts = [made.input(2, 3, 2) for _ in range(count)]
        y = made.joined(parts, 1)
        network = made.network(y)
        got, expressed = by_expressions(network, made.fed)
        assert expressed == ([y] if count > MOST_TENSORS else [])
        scale, zero = (made.held[name].astype(np.float32) for name in made.is_of[y])
        reals = [
            (made.fed[name] - made.held[made.is_of[name][1]].astype(np.float32)) * made.held[made.is_of[name][0]]
            for name in parts
        ]
        limits = np.iinfo(dtype)
        want = np.clip(np.rint(np.concatenate(reals, 1) / scale) + zero, limits.min, limits.max)
        np.testing.assert_array_equal(got[y], want.astype(dtype))


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_a_broadcast_that_no_kernel_has_is_read_as_floats(op: str) -> None:
    for seed in range(8):
        made = Bytes("uint8", f"floats {seed}")
        a, b = made.input(2, 4, 3, 5), made.input(1, 4, 3, 1)
        y = made.pair(op, a, b)
        z = made.table(y)
        network = made.network(y, z)
        one = served_of(network)[y]
        assert isinstance(one, QuantizedBinary)
        with pytest.raises(ValueError, match="no neighbours"):
            one.problem([(2, 4, 3, 5), (1, 4, 3, 1)])
        got, expressed = by_expressions(network, made.fed)
        assert expressed == [y, z]
        reals = [
            (made.fed[name].astype(np.float64) - made.held[made.is_of[name][1]]) * made.held[made.is_of[name][0]]
            for name in (a, b)
        ]
        total = reals[0] + reals[1] if op == "Add" else reals[0] * reals[1]
        scale, zero = (made.held[name].astype(np.float64) for name in made.is_of[y])
        want = np.clip(np.rint(total / scale + zero), 0, 255)
        assert np.abs(got[y] - want).max() <= 1


@TYPES
def test_a_concatenation_with_tables_is_part_of_a_reduction(dtype: str) -> None:
    made = Bytes(dtype, "reduction")
    joined = made.joined([made.input(6, 5), made.table(made.input(6, 7)), made.input(6, 4)], 1)
    y = made.node("ReduceMax", [made.dequantized(joined)], (6,), "float32", axes=[1], keepdims=0)
    got, expressed = by_expressions(made.network(y), made.fed)
    assert expressed == [y]
    np.testing.assert_array_equal(got[y], dequantized(made, joined).max(1))
