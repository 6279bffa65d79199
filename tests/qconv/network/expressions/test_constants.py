"""Layers of constants alone, which are computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from qconv.network import IntegerConvolution, Layer, Network, Tensor, read_layer
from qconv.network.expressions import constants
from qconv.network.expressions.constants import fold_constants

RNG = np.random.default_rng(29)
W = RNG.standard_normal((6, 4, 3, 3)).astype(np.float32)


def network_of(layers: Sequence[Layer], held: Mapping[str, Any], dtypes: Mapping[str, str], *outputs: str) -> Network:
    """Return a network whose tensors of computed layers have these types and no shapes."""
    tensors = {name: Tensor(name, dtype) for name, dtype in dtypes.items()}
    tensors |= {name: Tensor(name, str(np.asarray(each).dtype), np.shape(each)) for name, each in held.items()}
    tensors["x"] = Tensor("x", "uint8", (2, 4, 5, 5))
    return Network(("x",), outputs, tuple(layers), tensors, {name: np.asarray(each) for name, each in held.items()})


def quantized(scale: Any, zero: Any, axis: int | None = None) -> Network:
    """Return a convolution whose weights are quantized by a layer."""
    held = {"w": W, "w_s": scale, "w_z": zero, "x_s": np.float32(0.03), "x_z": np.uint8(7)}
    held |= {"y_s": np.float32(0.1), "y_z": np.uint8(100)}
    layers = (
        Layer("q", "QuantizeLinear", ("w", "w_s", "w_z"), ("wq",), {} if axis is None else {"axis": axis}),
        Layer("conv", "QLinearConv", ("x", "x_s", "x_z", "wq", "w_s", "w_z", "y_s", "y_z"), ("y",)),
    )
    return network_of(layers, held, {"wq": "int8", "y": "uint8"}, "y")


def expected(scale: Any, zero: Any) -> Any:
    rounded = np.rint(W / np.reshape(scale, (-1, 1, 1, 1)).astype(np.float32))
    return np.clip(rounded + np.reshape(zero, (-1, 1, 1, 1)), -128, 127).astype(np.int8)


PER_CHANNEL = RNG.uniform(0.005, 0.03, 6).astype(np.float32)


@pytest.mark.parametrize(
    ("scale", "zero", "axis"),
    [(np.float32(0.02), np.int8(0), None), (PER_CHANNEL, np.zeros(6, np.int8), 0)],
    ids=["one scale", "a scale per output channel"],
)
def test_a_convolution_of_weights_that_a_layer_quantizes_is_one_of_integers(scale: Any, zero: Any, axis: Any) -> None:
    network = quantized(scale, zero, axis)
    with pytest.raises(ValueError, match="constant"):
        read_layer(network.layers[1], network)
    made = fold_constants(network)
    assert [layer.name for layer in made.layers] == ["conv"]
    np.testing.assert_array_equal(made.constants["wq"], expected(scale, zero))
    assert made.tensors["wq"] == Tensor("wq", "int8", W.shape)
    assert isinstance(read_layer(made.layers[0], made), IntegerConvolution)
    assert "wq" not in network.constants


def test_layers_of_what_was_computed_are_computed_as_well() -> None:
    layers = (
        Layer("q", "QuantizeLinear", ("w", "s", "z"), ("wq",)),
        Layer("t", "Transpose", ("wq",), ("wt",), {"perm": [1, 0, 2, 3]}),
        Layer("d", "DequantizeLinear", ("wt", "s", "z"), ("wd",)),
        Layer("read", "Add", ("wd", "x"), ("y",)),
    )
    held = {"w": W, "s": np.float32(0.02), "z": np.int8(3)}
    network = network_of(layers, held, {"wq": "int8", "wt": "int8", "wd": "float32", "y": "float32"}, "y")
    made = fold_constants(network)
    assert [layer.name for layer in made.layers] == ["read"]
    q = expected(np.float32(0.02), np.int8(3)).transpose(1, 0, 2, 3)
    np.testing.assert_array_equal(made.constants["wt"], q)
    np.testing.assert_array_equal(made.constants["wd"], (q.astype(np.float32) - 3) * np.float32(0.02))


def test_an_op_that_is_left_out_and_what_reads_it_stay() -> None:
    """Integer layers read the bytes before a DequantizeLinear."""
    layers = (
        Layer("q", "QuantizeLinear", ("w", "s", "z"), ("wq",)),
        Layer("d", "DequantizeLinear", ("wq", "s", "z"), ("wd",)),
        Layer("neg", "Neg", ("wd",), ("y",)),
    )
    held = {"w": W, "s": np.float32(0.02), "z": np.int8(3)}
    network = network_of(layers, held, {"wq": "int8", "wd": "float32", "y": "float32"}, "y")
    made = fold_constants(network, without=("DequantizeLinear",))
    assert [layer.name for layer in made.layers] == ["d", "neg"]
    assert set(made.constants) - set(held) == {"wq"}


def test_bytes_that_follow_from_what_is_left_out_are_computed() -> None:
    """MobileViT has weights that are dequantized and quantized again."""
    layers = (
        Layer("d", "DequantizeLinear", ("wq", "s", "z"), ("wd",)),
        Layer("n", "Neg", ("wd",), ("wn",)),
        Layer("q", "QuantizeLinear", ("wn", "s", "z"), ("again",)),
        Layer("t", "Transpose", ("again",), ("y",), {"perm": [1, 0, 2, 3]}),
    )
    wq = expected(np.float32(0.02), np.int8(3))
    held = {"wq": wq, "s": np.float32(0.02), "z": np.int8(3)}
    network = network_of(layers, held, {"wd": "float32", "wn": "float32", "again": "int8", "y": "int8"}, "y")
    made = fold_constants(network, without=("DequantizeLinear",))
    assert [layer.name for layer in made.layers] == ["d", "n", "t"]
    np.testing.assert_array_equal(made.constants["again"], np.clip(6 - wq.astype(int), -128, 127))
    assert set(made.constants) - set(held) == {"again"}


def test_an_output_of_the_network_stays_a_layer() -> None:
    layers = (
        Layer("neg", "Neg", ("w",), ("a",)),
        Layer("abs", "Abs", ("a",), ("b",)),
    )
    network = network_of(layers, {"w": W}, {"a": "float32", "b": "float32"}, "a", "b")
    assert fold_constants(network).layers == layers


def test_what_reads_a_tensor_has_two_outputs_folds_or_reads_nothing_stays() -> None:
    layers = (
        Layer("read", "Add", ("w", "x"), ("a",)),
        Layer("folds", "ReduceSum", ("w",), ("b",)),
        Layer("two", "Split", ("w",), ("c", "d")),
        Layer("nothing", "RandomNormal", (), ("e",)),
        Layer("captures", "Neg", ("w",), ("f",), captured=("x",)),
        Layer("unknown", "LRN", ("w",), ("g",)),
    )
    network = network_of(layers, {"w": W}, dict.fromkeys("abcdefg", "float32"), "y")
    assert fold_constants(network).layers == layers


def test_a_large_constant_is_not_computed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = (Layer("neg", "Neg", ("w",), ("a",)), Layer("read", "Add", ("a", "x"), ("y",)))
    network = network_of(layers, {"w": W}, {"a": "float32", "y": "float32"}, "y")
    for largest, kept in ((W.size, 1), (W.size - 1, 2)):
        monkeypatch.setattr(constants, "LARGEST", largest)
        assert len(fold_constants(network).layers) == kept


def test_what_has_no_element_is_a_constant() -> None:
    """Nothing computes it, whatever its type."""
    layers = (Layer("a", "Mystery", ("x",), ("empty",)), Layer("b", "Mystery", ("x",), ("y",)))
    network = network_of(layers, {}, {"y": "uint8"}, "empty", "y")
    tensors = {**network.tensors, "empty": Tensor("empty", "float64", (3, 0, 2))}
    folded = fold_constants(Network(network.inputs, network.outputs, layers, tensors, {}))
    assert [layer.name for layer in folded.layers] == ["b"]
    assert (folded.constants["empty"].shape, folded.constants["empty"].dtype) == ((3, 0, 2), np.float64)
    both = (Layer("a", "Mystery", ("x",), ("empty", "y")),)
    assert fold_constants(Network(network.inputs, network.outputs, both, tensors, {})).layers == both
    unknown = {**tensors, "empty": Tensor("empty", None, (3, 0, 2))}
    assert len(fold_constants(Network(network.inputs, network.outputs, layers, unknown, {})).layers) == 2
