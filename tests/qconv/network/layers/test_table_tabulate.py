"""Float functions between bytes become one table, if no bit changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from qconv.network import IntegerConvolution, Layer, Network, Served, Tensor, fold_tables, read_layer
from qconv.network.layers.table import Tabulated, codes

SCALE, ZERO = np.float32(0.1), np.uint8(30)
HELD = {
    "s": SCALE,
    "z": ZERO,
    "three": np.float32(3),
    "many": np.float32([1, 2]),
    "wide": np.ones((1,) * 5, np.float32),
}
HELD |= {"w": np.ones((3, 3, 1, 1), np.int8), "w_s": np.float32(1), "w_z": np.int8(0)}


def layer(op: str, *inputs: str, y: str) -> Layer:
    return Layer(y, op, inputs, (y,))


CONV = layer("QLinearConv", "x", "s", "z", "w", "w_s", "w_z", "s", "z", y="c")
REAL = layer("DequantizeLinear", "c", "s", "z", y="r")
BYTES = layer("QuantizeLinear", "g", "s", "z", y="q")
ADD = layer("Add", "r", "three", y="a")
GATED = (REAL, layer("HardSigmoid", "r", y="h"), layer("Mul", "h", "r", y="g"), BYTES)


def network_of(*layers: Layer, outputs: tuple[str, ...] = ("q",), c_type: str = "uint8") -> Network:
    types = {"x": "uint8", "c": c_type, "q": "uint8", "p": "uint8", "o": "uint8"}
    tensors = {name: Tensor(name, types.get(name, "float32"), (1, 3, 2, 2)) for each in layers for name in each.outputs}
    tensors["x"] = Tensor("x", "uint8", (1, 3, 2, 2))
    return Network(("x",), outputs, layers, tensors, {name: np.asarray(array) for name, array in HELD.items()})


def reversed_bytes(layers: Sequence[Layer], x: str, y: str) -> Callable[[Any], Any]:
    """A stand-in for the engine that computes the layers."""
    return lambda array: (255 - array).astype(np.uint8)


def folded(
    network: Network, functions: Any = reversed_bytes, served: dict[str, Served] | None = None
) -> tuple[Network, dict[str, Served]]:
    known: dict[str, Served] = {"c": read_layer(network.layers[0], network)} if served is None else served
    return fold_tables(network, known, functions)


def test_everything_from_bytes_to_bytes_is_one_table() -> None:
    network, served = folded(network_of(CONV, *GATED))
    assert [each.name for each in network.layers] == ["c", "q"]
    assert isinstance(served["c"], IntegerConvolution)
    one = served["q"]
    assert isinstance(one, Tabulated)
    assert (one.layer.op, one.inputs, one.y, one.dtype) == ("HardSigmoid", ("c",), "q", "uint8")
    assert [part.name for part in one.layer.unfolded] == ["r", "h", "g", "q"]
    np.testing.assert_array_equal(one.table, 255 - codes("uint8"))


def test_another_scale_is_a_table_as_well() -> None:
    network, served = folded(network_of(CONV, REAL, layer("QuantizeLinear", "r", "s", "z", y="q")))
    assert [each.name for each in network.layers] == ["c", "q"]
    assert served["q"].layer.op == "QuantizeLinear"


def test_what_others_read_stays() -> None:
    pool = layer("GlobalAveragePool", "g", y="o")
    network, served = folded(network_of(CONV, *GATED, pool, outputs=("q", "o")))
    assert [each.name for each in network.layers] == ["c", "r", "h", "g", "q", "o"]
    assert set(served) == {"c", "q"}
    network, _ = folded(network_of(CONV, *GATED, outputs=("q", "h")))
    assert [each.name for each in network.layers] == ["c", "r", "h", "q"]


def test_tables_follow_each_other() -> None:
    more = (layer("DequantizeLinear", "q", "s", "z", y="d"), layer("QuantizeLinear", "d", "s", "z", y="p"))
    network, served = folded(network_of(CONV, *GATED, *more, outputs=("p",)))
    assert [each.name for each in network.layers] == ["c", "q", "p"]
    assert set(served) == {"c", "q", "p"}


@pytest.mark.parametrize(
    "layers",
    [
        (CONV, REAL, layer("GlobalAveragePool", "r", y="g"), BYTES),
        (CONV, REAL, layer("Mul", "r", "many", y="g"), BYTES),
        (CONV, REAL, layer("Mul", "r", "wide", y="g"), BYTES),
        (CONV, REAL, layer("DequantizeLinear", "x", "s", "z", y="e"), layer("Add", "r", "e", y="g"), BYTES),
        (CONV, REAL, layer("Relu", "r", y="g"), layer("QuantizeLinear", "g", "many", "z", y="q")),
        (CONV, layer("DequantizeLinear", "c", "many", "z", y="r"), layer("Relu", "r", y="g"), BYTES),
        (CONV, layer("DequantizeLinear", "c", "e", "z", y="r"), layer("Relu", "r", y="g"), BYTES),
    ],
    ids=["another op", "many numbers", "more axes", "two tensors", "scales", "scales of x", "a computed scale"],
)
def test_what_is_no_function_of_one_byte_stays(layers: tuple[Layer, ...]) -> None:
    network, served = folded(network_of(*layers))
    assert network.layers == layers
    assert list(served) == ["c"]


def test_a_tensor_of_more_than_bytes_has_no_table() -> None:
    assert list(folded(network_of(CONV, *GATED, c_type="int32"))[1]) == ["c"]


def test_between_layers_that_run_elsewhere_nothing_is_folded() -> None:
    layers = (CONV, *GATED)
    assert not folded(network_of(*layers), served={})[1]
    reader = layer("QLinearConv", "q", "s", "z", "w", "w_s", "w_z", "s", "z", y="o")
    network = network_of(*layers, reader, outputs=("o",))
    assert set(folded(network, served={"o": read_layer(reader, network)})[1]) == {"o", "q"}


def failing(layers: Sequence[Layer], x: str, y: str) -> Callable[[Any], Any]:
    raise ValueError("no")


@pytest.mark.parametrize(
    "compute",
    [
        failing,
        lambda layers, x, y: lambda array: array + np.uint8(array.size == 1),
        lambda layers, x, y: lambda array: array + np.uint8(array.size < 256) * (np.arange(array.size) > 251),
    ],
    ids=["fails", "other bits alone", "other bits at the end"],
)
def test_bits_that_depend_on_the_place_are_left(compute: Any) -> None:
    assert list(folded(network_of(CONV, *GATED), compute)[1]) == ["c"]
