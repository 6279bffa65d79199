"""Expressions as problems of kernels. Single numbers are operands, so that layers that differ in them share one."""

from __future__ import annotations

from typing import Any

import numpy as np
from light_layers import Bytes, by_expressions, served_of
from one_expression import evaluated

from qconv.expression.index import Axis, Index
from qconv.network import Layer, Network, Tensor
from qconv.network.expressions.expressed import Expressed
from qconv.network.expressions.fuse import fuse
from qconv.network.expressions.kernel import Held, Kernel, kernel_of
from qconv.network.expressions.lazy import Element, tensor_of


def kernels(network: Network, served: Any) -> list[Kernel]:
    made, here, _ = fuse(network, served)
    every = [here[layer.name] for layer in made.layers]
    return [one.kernel(one.lasts) for one in every if isinstance(one, Expressed)]


def normalized(name: str, numbers: tuple[float, int, float, int]) -> Network:
    """Return bytes of one scale, normalized and rounded to bytes of another."""
    scales = {f"n{at}": np.asarray(each, np.float32 if at % 2 == 0 else np.uint8) for at, each in enumerate(numbers)}
    held = scales | {"ones": np.ones(40, np.float32)}
    shapes = {"x": "uint8", "a": "float32", "b": "float32", name: "uint8"}
    tensors = {each: Tensor(each, dtype, (6, 40)) for each, dtype in shapes.items()}
    layers = (
        Layer("d", "DequantizeLinear", ("x", "n0", "n1"), ("a",)),
        Layer("n", "LayerNormalization", ("a", "ones"), ("b",), {"axis": -1, "epsilon": 1e-5}),
        Layer("q", "QuantizeLinear", ("b", "n2", "n3"), (name,)),
    )
    return Network(("x",), (name,), layers, tensors, held)


def test_layers_that_differ_in_scales_have_one_kernel() -> None:
    networks = [normalized("y", (0.05, 3, 0.1, 100)), normalized("z", (1.5, 200, 0.03, 0))]
    (one,), (other,) = (kernels(network, {}) for network in networks)
    assert one.problem == other.problem
    assert one.tensors == other.tensors
    x = np.random.default_rng(3).integers(0, 256, (6, 40)).astype(np.uint8)
    results = [evaluated(network, {"x": x}) for network in networks]
    wide = x.astype(np.float64)
    normal = (wide - wide.mean(1, keepdims=True)) / wide.std(1, keepdims=True)
    for got, (scale, zero) in zip(results, ((0.1, 100), (0.03, 0)), strict=True):
        assert np.abs(got - np.clip(np.rint(normal / scale) + zero, 0, 255)).max() <= 1


def test_sums_of_bytes_with_different_scales_have_one_kernel() -> None:
    problems = set()
    for seed in range(6):
        made = Bytes("int8", f"scales {seed}")
        y = made.table(made.pair("Add", made.input(2, 4, 3, 5), made.input(2, 4, 3, 5)))
        network = made.network(y)
        problems |= {kernel.problem for kernel in kernels(network, served_of(network))}
        assert by_expressions(network, made.fed)[1] == [y]
    assert len(problems) == 1


def test_single_numbers_of_a_type_are_one_operand() -> None:
    (kernel,) = kernels(normalized("y", (0.05, 3, 0.1, 100)), {})
    together = [names for names in kernel.tensors if len(names) > 1]
    sizes = {operand.dtype: operand.elements for operand in kernel.problem.operands if operand.elements < 40}
    assert sorted(map(len, together)) == sorted(size for size in sizes.values() if size > 1)
    assert {"n0", "n2"} <= set(next(names for names in together if "n0" in names))
    assert ("n1", "n3") in together


def test_integers_that_are_no_indices_are_of_the_whole_range() -> None:
    """Indices have limits, which a kernel has to know."""
    ends = np.array([-(2**31), 0, 2**31 - 1], np.int32)
    x = np.random.default_rng(5).integers(-9, 9, (4, 3)).astype(np.int32)
    held: dict[str, Any] = {"ends": ends, "rows": np.array([2, 0], np.int64)}
    tensors = {"x": Tensor("x", "int32", (4, 3)), "a": Tensor("a", "int32", (4, 3)), "y": Tensor("y", "int32", (2, 3))}
    layers = (Layer("add", "Add", ("x", "ends"), ("a",)), Layer("gather", "Gather", ("a", "rows"), ("y",), {"axis": 0}))
    network = Network(("x",), ("y",), layers, tensors, held)
    (kernel,) = kernels(network, {})
    assert {operand.text for operand in kernel.problem.operands} >= {"int32*3!"}
    np.testing.assert_array_equal(evaluated(network, {"x": x}), (x + ends)[[2, 0]])


def test_the_tables_of_an_index_are_operands_in_the_order_of_their_names() -> None:
    """A key names the operands, and another process has to find the kernel that was built for it."""
    values = np.array([0, 2, 1], np.int32)
    names = [f"t{number}" for number in range(9)]
    arrays = {name: Held((3,), "int32", False, values) for name in names} | {"x": Held((19,), "float32")}
    axis = Axis("o0", 3)
    total = Index()
    for name in reversed(names):
        total = total + Index.entry(name, Index.of(axis), values)
    lazy = tensor_of(Element("x", (total,), "float32"), "float32", (axis,))
    assert kernel_of(lazy, arrays.__getitem__, False).tensors == (("x",), *((name,) for name in names))
