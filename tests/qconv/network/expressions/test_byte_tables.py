"""Functions of one byte as tables: which functions become one, and that their bits stay the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from light_layers import Bytes, by_expressions, by_own_kernels, served_of
from one_expression import evaluated
from random_expressions import Drawer

from qconv.expression import Axis, Guard, Index, Load, Node, Number, Operand, call
from qconv.expression.function import BOOL, COMPUTED, FLOAT, INT, LONG
from qconv.expression.node import Call, Evaluation, Lookup, in_order
from qconv.expression.problem import stored
from qconv.network import Layer, Network, Tensor
from qconv.network.expressions import byte_tables
from qconv.network.expressions.byte_tables import NEVER, Tensors, tabulated, with_tables
from qconv.network.expressions.expressed import Expressed
from qconv.network.expressions.fuse import fuse
from qconv.network.expressions.lazy import Byte, Element, Lazy, Place, rewritten, with_arguments
from qconv.network.expressions.readers.quantization import dequantized, quantized

TYPES = pytest.mark.parametrize("dtype", ["int8", "uint8"])
AXIS = Index.of(Axis("i0", 256))


class Held:
    """The arrays in memory of an expression over 256 elements, of which some are constants of the network."""

    def __init__(self, **arrays: Any) -> None:
        self.arrays = {name: np.asarray(array) for name, array in arrays.items()}
        self.constants = {"scale": np.float32(0.043), "zero": np.int8(3), "y_scale": np.float32(0.021)}
        self.constants = {name: np.reshape(number, 1) for name, number in self.constants.items()}
        self.made: list[Any] = []

    def add(self, array: Any) -> str:
        self.made.append(array)
        self.constants[name := f"table {len(self.made)}"] = array
        return name

    @property
    def tensors(self) -> Tensors:
        return Tensors(self.constants.get, lambda name: str(self.arrays[name].dtype))

    def number(self, name: str) -> Element:
        return Element(name, (Index(),), COMPUTED[str(self.constants[name].dtype)])

    def element(self, name: str) -> Element:
        return Element(name, (AXIS,), COMPUTED[str(self.arrays[name].dtype)])

    def tabulated(self, root: Node) -> Node:
        """Return the expression with tables, and check its values."""
        made = tabulated(root, self.tensors, self.add)
        np.testing.assert_array_equal(self.values(made), self.values(root))
        assert all(table.size == 256 for table in self.made)
        return made

    def values(self, root: Node) -> Any:
        """Return the bits of 256 elements."""

        def change(node: Node, arguments: tuple[Node, ...]) -> Node:
            if isinstance(node, Element):
                return Load(node.tensor, node.indices[0], node.dtype, node.guards, *arguments)
            if isinstance(node, Place):
                return Lookup(node.tensor, arguments[0], node.dtype)
            return arguments[0] if isinstance(node, Byte) else with_arguments(node, arguments)

        evaluation = Evaluation({"i0": np.arange(256)}, self.arrays | self.constants)
        values = np.broadcast_to(evaluation(rewritten(root, change)), 256)
        return stored(values, root.dtype).view(np.uint8)

    def dequantized(self, element: Node) -> Node:
        return dequantized(element, self.number("scale"), self.number("zero"))

    def quantized(self, real: Node, dtype: str = "uint8") -> Node:
        return quantized(real, self.number("y_scale"), self.number("zero"), dtype)


def every(dtype: str) -> Any:
    return np.arange(256, dtype=np.uint8).view(dtype)


def is_table(node: Node, of: Node) -> bool:
    return isinstance(node, Place) and node.at == call("bit_and", of, Number(255, INT))


def calls(node: Node) -> list[str]:
    return [each.function for each in in_order(node) if isinstance(each, Call)]


@TYPES
@pytest.mark.parametrize("function", ["sigmoid", "erf", "exp", "log", "gelu"])
def test_a_function_between_dequantize_and_quantize_is_one_table(function: str, dtype: str) -> None:
    held = Held(x=every(dtype))
    real = held.dequantized(held.element("x"))
    made = held.tabulated(held.quantized(call("multiply", real, call(function, real)), dtype))
    assert is_table(made, held.element("x"))
    assert [table.itemsize for table in held.made] == [1]


@TYPES
def test_dequantize_alone_stays_arithmetic(dtype: str) -> None:
    held = Held(x=every(dtype), y=every(dtype))
    root = held.dequantized(held.element("x"))
    assert held.tabulated(root) is root
    assert held.tabulated(call("exp", call("add", root, held.dequantized(held.element("y")))))
    assert not held.made


def test_what_costs_less_than_a_lookup_stays_arithmetic() -> None:
    """Wider entries cost more than bytes."""
    held = Held(x=every("int8"))
    x = held.element("x")
    clipped = call("minimum", call("maximum", x, Number(-7, INT)), Number(99, INT))
    assert held.tabulated(clipped) is clipped
    real = call("sigmoid", held.dequantized(x))
    assert held.tabulated(real) is real
    assert is_table(held.tabulated(held.quantized(real)), x)
    assert is_table(held.tabulated(call("divide", real, call("exp", real))), x)
    assert [table.itemsize for table in held.made] == [1, 4]


def test_a_quantization_costs_as_much_as_its_steps() -> None:
    """They are a product, its correction, a rounding, a sum and a clamp."""
    held = Held(x=every("int8"))
    x = held.element("x")
    real = reduce(lambda one, _: call("add", one, Number(0.5)), range(12), held.dequantized(x))
    assert held.tabulated(real) is real
    assert is_table(held.tabulated(held.quantized(real, "int16")), x)


def test_integers_beyond_bytes_have_a_table_of_theirs() -> None:
    held = Held(x=every("int8"))
    root = call("to_int32", call("multiply", call("exp", call("to_float32", held.element("x"))), Number(9.5)))
    assert held.tabulated(root) is root
    more = call("divide", root, Number(3, INT))
    assert is_table(held.tabulated(more), held.element("x"))
    assert held.made[0].dtype == np.int32


@TYPES
def test_a_table_of_a_table_is_one(dtype: str) -> None:
    held = Held(x=every(dtype))
    x = held.element("x")
    first = held.tabulated(Byte(held.quantized(call("tanh", held.dequantized(x)), dtype), dtype))
    assert is_table(first, x)
    assert held.tabulated(first) is first
    second = held.tabulated(Byte(held.quantized(call("erf", held.dequantized(first)), dtype), dtype))
    assert is_table(second, x)


@TYPES
def test_a_computed_byte_is_looked_up(dtype: str) -> None:
    """Here of two tensors, of which the sum is a byte."""
    held = Held(x=every(dtype), y=every(dtype)[::-1].copy())
    real = call("add", held.dequantized(held.element("x")), held.dequantized(held.element("y")))
    byte = Byte(held.quantized(real, dtype), dtype)
    made = held.tabulated(held.quantized(call("sigmoid", held.dequantized(byte)), dtype))
    assert is_table(made, byte)


def test_what_needs_several_bytes_is_no_table() -> None:
    held = Held(x=every("uint8"), y=every("uint8")[::-1].copy())
    x, y = (held.quantized(call("sigmoid", held.dequantized(held.element(name)))) for name in "xy")
    made = held.tabulated(call("subtract", x, y))
    assert made == call("subtract", Place("table 1", made.arguments[0].at, INT), made.arguments[1])  # type: ignore[attr-defined]
    assert len(held.made) == 2


def test_elements_of_one_tensor_at_two_places_are_two_bytes() -> None:
    held = Held(x=every("uint8"))
    other = Element("x", (AXIS * -1 + 255,), INT)
    sums = call("add", held.dequantized(held.element("x")), held.dequantized(other))
    root = held.quantized(call("sigmoid", sums))
    assert held.tabulated(root) is root


@pytest.mark.parametrize(("fill", "is_byte"), [(200, False), (-128, True), (127, True), (-129, False)])
def test_a_guarded_element_is_a_byte_if_its_fill_is_one(fill: int, is_byte: bool) -> None:
    held = Held(x=every("int8"))
    x = Element("x", (AXIS - 5,), INT, (Guard(AXIS - 5, 256),), Number(fill, INT))
    root = held.quantized(call("sigmoid", held.dequantized(x)), "int8")
    assert is_table(held.tabulated(root), x) is is_byte


def test_a_guarded_number_is_none() -> None:
    """Its fill is elsewhere."""
    held = Held(x=every("uint8"))
    number = Element("y_scale", (Index(),), FLOAT, (Guard(AXIS - 5, 256),), Number(0.5))
    root = held.quantized(call("multiply", call("sigmoid", held.dequantized(held.element("x"))), number))
    assert held.tabulated(root) is root


def test_the_position_of_an_element_is_no_byte() -> None:
    held = Held(x=np.arange(256, dtype=np.int32))
    root = held.quantized(call("sigmoid", held.dequantized(held.element("x"))))
    assert held.tabulated(root) is root


def test_a_shared_function_is_computed_once_or_is_a_table_of_its_own() -> None:
    """The sum reads the bytes of the table, and so does the product behind it."""
    held = Held(x=every("uint8"), y=every("uint8")[::-1].copy())
    shared = Byte(held.quantized(call("sigmoid", held.dequantized(held.element("x")))), "uint8")
    total = call("add", call("to_float32", shared), call("to_float32", held.element("y")))
    made = held.tabulated(call("multiply", total, held.dequantized(shared)))
    assert len(held.made) == 1
    assert calls(made) == [
        "bit_and",
        "to_float32",
        "to_float32",
        "add",
        "subtract",
        "to_float32",
        "multiply",
        "multiply",
    ]


def test_elements_of_a_lazy_tensor_of_bytes_are_known_to_be_bytes() -> None:
    held = Held(x=every("uint8"), y=every("uint8"))

    def at(indices: Any) -> Node:
        return held.quantized(call("add", *(held.dequantized(Element(name, indices, INT)) for name in "xy")))

    made = with_tables(Lazy((256,), "uint8", at), held.tensors, held.add)
    assert isinstance(made.at((AXIS,)), Byte)
    assert with_tables(Lazy((256,), "float32", at), held.tensors, held.add).at((AXIS,)) == at((AXIS,))
    element = Lazy((256,), "uint8", lambda indices: Element("x", indices, INT))
    assert with_tables(element, held.tensors, held.add).at((AXIS,)) == held.element("x")
    table = Lazy((256,), "uint8", lambda indices: held.quantized(call("erf", held.dequantized(element.at(indices)))))
    moved = with_tables(table, held.tensors, held.add).at((AXIS * -1 + 255,))
    assert is_table(moved, Element("x", (AXIS * -1 + 255,), INT))


def test_random_expressions_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_tables, "BYTE", 0)
    monkeypatch.setattr(byte_tables, "WIDE", 1)
    tables = 0
    for seed in range(600):
        rng = random.Random(f"byte tables {seed}")
        drawer = Drawer(rng, [Axis("i0", 256)])
        root = drawer.node(rng.choice((FLOAT, INT)), 5)
        generator = np.random.default_rng(seed)
        held = Held(**{f"x{at}": _drawn(one, generator) for at, one in enumerate(drawer.operands)})
        held.arrays["byte"] = every(rng.choice(("int8", "uint8")))
        held.constants |= {name: _drawn(Operand(name, 1), generator) for name in (FLOAT, INT, LONG, BOOL)}

        def change(node: Node, arguments: tuple[Node, ...]) -> Node:
            if not isinstance(node, Load):
                return with_arguments(node, arguments)
            if node.dtype == INT and rng.random() < 0.6:  # noqa: B023
                return held.element("byte")  # noqa: B023
            if rng.random() < 0.6:  # noqa: B023
                return held.number(node.dtype)  # noqa: B023
            return Element(node.operand, (node.at,), node.dtype, node.guards, *arguments)

        held.tabulated(rewritten(root, change))
        tables += len(held.made)
    assert tables > 100


def _drawn(operand: Operand, rng: np.random.Generator) -> Any:
    """Return values of which functions are often finite."""
    if operand.low is not None:
        return rng.integers(operand.low, operand.high, operand.elements, np.int32, endpoint=True)
    return (rng.standard_normal(operand.elements) * 40).astype(np.int8).astype(operand.dtype)


class Chain:
    """Layers between tensors of bytes, whose result is a function of x or of x and a vector."""

    def __init__(self, x_dtype: str, shape: tuple[int, ...]) -> None:
        self.shape, self.x = shape, every(x_dtype)[np.arange(np.prod(shape)) % 256].reshape(shape)
        self.held: dict[str, Any] = {}
        self.layers: list[Layer] = []
        self.tensors = {"x": Tensor("x", x_dtype, shape)}

    def layer(self, op: str, *reads: Any, dtype: str = FLOAT, **attributes: Any) -> str:
        y = f"y{len(self.layers)}"
        names = tuple(each if isinstance(each, str) else self._hold(each) for each in reads)
        self.layers.append(Layer(y, op, names, (y,), attributes))
        self.tensors[y] = Tensor(y, dtype, self.shape)
        return y

    def _hold(self, array: Any) -> str:
        name = f"c{len(self.held)}"
        self.held[name] = np.asarray(array)
        self.tensors[name] = Tensor(name, str(self.held[name].dtype), self.held[name].shape)
        return name

    def kernels(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        """Return the kernels' problems. Check that the bits are those of functions without tables."""
        network = Network(("x",), (self.layers[-1].outputs[0],), tuple(self.layers), self.tensors, self.held)
        made, served, why_not = fuse(network, {})
        assert not why_not
        got = evaluated(network, {"x": self.x})
        with monkeypatch.context() as patch:
            patch.setattr(byte_tables, "BYTE", NEVER)
            want = evaluated(network, {"x": self.x})
        np.testing.assert_array_equal(got, want)
        expressed = [served[layer.name] for layer in made.layers]
        assert all(isinstance(one, Expressed) for one in expressed)
        return [one.kernel(one.lasts).problem for one in expressed]  # type: ignore[attr-defined]


def _gelu(chain: Chain, x: str) -> str:
    erf = chain.layer("Erf", chain.layer("Div", x, np.float32(1.4142135)))
    half = chain.layer("Mul", x, chain.layer("Add", erf, np.float32(1)))
    return chain.layer("Mul", half, np.float32(0.5))


def _silu(chain: Chain, x: str) -> str:
    return chain.layer("Mul", x, chain.layer("Sigmoid", x))


def _hard_swish(chain: Chain, x: str) -> str:
    return chain.layer("HardSwish", x)


def _gelu_by_tanh(chain: Chain, x: str) -> str:
    return chain.layer("Gelu", x, approximate="tanh")


def _softplus_of_power(chain: Chain, x: str) -> str:
    return chain.layer("Softplus", chain.layer("Pow", x, np.float32(3)))


CURVES = [_gelu, _silu, _hard_swish, _gelu_by_tanh, _softplus_of_power]


@TYPES
@pytest.mark.parametrize("curve", CURVES)
def test_a_curve_between_bytes_is_one_lookup(
    curve: Callable[[Chain, str], str], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = Chain(dtype, (2, 16, 24))
    zero = np.array(7, dtype)
    real = chain.layer("DequantizeLinear", "x", np.float32(0.04), zero)
    chain.layer("QuantizeLinear", curve(chain, real), np.float32(0.03), zero, dtype=dtype)
    (problem,) = chain.kernels(monkeypatch)
    assert problem.do == "t0=x0[i0];t1=bit_and(t0,255);t2=looked_up(x1,t1)"


@TYPES
@pytest.mark.parametrize("curve", CURVES[2:])
def test_a_curve_behind_a_bias_is_one_lookup(
    curve: Callable[[Chain, str], str], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bias has a number for each channel, and its sum is quantized."""
    chain = Chain(dtype, (2, 16, 24))
    zero, scale = np.array(7, dtype), np.float32(0.04)
    bias = every(dtype)[40:64]
    total = chain.layer("com.microsoft.QLinearAdd", "x", scale, zero, bias, scale, zero, scale, zero, dtype=dtype)
    real = chain.layer("DequantizeLinear", total, scale, zero)
    chain.layer("QuantizeLinear", curve(chain, real), np.float32(0.03), zero, dtype=dtype)
    (problem,) = chain.kernels(monkeypatch)
    assert problem.do.endswith("bit_and(t20,255);t22=looked_up(x4,t21)")


@TYPES
def test_tables_are_part_of_reductions(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of folds have other names than the tables that the layer's expression has."""
    chain = Chain(dtype, (6, 48))
    zero, scale = np.array(7, dtype), np.float32(0.04)
    real = chain.layer("DequantizeLinear", "x", scale, zero)
    bent = chain.layer("QuantizeLinear", _gelu(chain, real), np.float32(0.03), zero, dtype=dtype)
    again = chain.layer("DequantizeLinear", bent, np.float32(0.03), zero)
    chain.layer("Softmax", again, axis=0)
    problems = chain.kernels(monkeypatch)
    assert [problem.op for problem in problems].count("reduce") == 2
    assert "looked_up" in problems[0].do


def test_a_fold_and_a_table_of_one_layer_have_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is made where the square is added, and the sum is in parts."""
    chain = Chain("uint8", (1, 16384))
    real = chain.layer("DequantizeLinear", "x", np.float32(0.01), np.uint8(200))
    bent = chain.layer("Neg", chain.layer("Abs", chain.layer("Neg", chain.layer("Exp", real))))
    last = chain.layer("Abs", chain.layer("Neg", bent))
    chain.layer("ReduceSumSquare", last, np.array([1]))
    chain.tensors[chain.layers[-1].outputs[0]] = Tensor("sum", FLOAT, (1, 1))
    first, second, _ = chain.kernels(monkeypatch)
    assert "looked_up" in first.do
    assert "looked_up" not in second.do


def test_only_the_table_that_is_read_is_a_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of its parts are gone."""
    chain = Chain("uint8", (2, 16, 24))
    zero, scale, y = np.array(7, "uint8"), np.float32(0.04), "x"
    for _ in range(4):
        y = chain.layer("com.microsoft.QLinearSigmoid", y, scale, zero, scale, zero, dtype="uint8")
    (problem,) = chain.kernels(monkeypatch)
    assert len(problem.operands) == 2
    network = Network(("x",), (y,), tuple(chain.layers), chain.tensors, chain.held)
    made, served, _ = fuse(network, {})
    (one,) = [served[layer.name] for layer in made.layers]
    assert isinstance(one, Expressed)
    assert [array.size for array in one.constants.values()] == [256]


@TYPES
def test_light_layers_behind_a_bias_are_one_lookup(dtype: str) -> None:
    made = Bytes(dtype, "bias")
    total = made.pair("Add", made.input(2, 4, 3, 5), made.constant(4, 1, 1))
    gated = made.pair("Mul", total, made.pair("Add", made.table(total), made.constant()))
    y = made.pair("Mul", gated, made.constant())
    fused, served, _ = fuse(made.network(y), served_of(made.network(y)))
    (one,) = [served[layer.name] for layer in fused.layers]
    assert isinstance(one, Expressed)
    *_, before, place, last = one.kernel(one.lasts).problem.do.split(";")
    assert before == "t13=nearest(t12)"
    assert place == "t14=bit_and(t13,255)"
    assert last.startswith("t15=looked_up(")
    np.testing.assert_array_equal(by_expressions(made.network(y), made.fed)[0][y], _by_own_kernels(made, y))


def _by_own_kernels(made: Bytes, y: str) -> Any:
    return by_own_kernels(made.network(y), made.fed)[y]


@pytest.mark.turns
@TYPES
def test_random_networks_of_light_layers_have_the_bits_of_their_kernels(dtype: str) -> None:
    """Sums and products with a single number, and tables, are functions of one byte."""
    lookups = 0
    for seed in range(60):
        made = Bytes(dtype, f"tables {seed}")
        known = [made.input(2, 4, 3, 5), made.input(2, 4, 3, 5)]
        for _ in range(6):
            known.append(_next(made, known))
        network = made.network(known[-1])
        got, _ = by_expressions(network, made.fed)
        np.testing.assert_array_equal(got[known[-1]], _by_own_kernels(made, known[-1]))
        _, served, _ = fuse(network, served_of(network))
        expressed = [one for one in served.values() if isinstance(one, Expressed)]
        lookups += sum(one.kernel(one.lasts).problem.do.count("looked_up") for one in expressed)
    assert lookups > 60


def _next(made: Bytes, known: list[str]) -> str:
    """Add a layer that reads one or two of the known tensors."""
    x, other = (known[-1 - int(made.rng.integers(min(3, len(known))))] for _ in range(2))
    op = str(made.rng.choice(["Add", "Mul"]))
    kind = made.rng.integers(5)
    if kind < 2:
        return made.table(x, ["Sigmoid", "LeakyRelu"][kind])
    return made.pair(op, x, [other, made.constant(), made.constant(4, 1, 1)][kind - 2])
