"""The run of a network: cached preparation, kept arrays, and the fallback for the remaining layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qconv.device import open_device
from qconv.device.cpu import CpuDevice
from qconv.network import Layer, Network, Reason, Runner, Tensor, Value, read_layer
from qconv.network.expressions.fuse import fuse
from qconv.network.layers import packed_convolution as module
from qconv.network.run import runner as running
from qconv.network.run.runner import Subgraph

CPU = open_device("cpu")
RNG = np.random.default_rng(4)
W = RNG.integers(-100, 100, (5, 3, 2, 2)).astype("int8")


class Doubled:
    """A fallback that doubles: it records its segments, and the number of live arrays."""

    def __init__(self) -> None:
        self.prepared: list[str] = []

    def prepare(self, layers: Sequence[Layer], inputs: Sequence[str], outputs: Sequence[str]) -> Subgraph:
        self.prepared.append("".join(layer.name for layer in layers))

        def run(given: Mapping[str, Any]) -> dict[str, Any]:
            return dict.fromkeys(outputs, given[inputs[0]] * 2)

        return run


def network_of(shape: tuple[int | None, ...] = (None, 3, 4, 4)) -> Network:
    """Return x -> a (elsewhere) -> conv (here) -> b (elsewhere)."""
    layers = (
        Layer("a", "Double", ("x",), ("A",)),
        Layer("conv", "ConvInteger", ("A", "w"), ("C",)),
        Layer("b", "Double", ("C",), ("y",)),
    )
    tensors = {"x": Tensor("x", "int8", shape), "A": Tensor("A", "int8", shape), "C": Tensor("C", "int32")}
    return Network(("x",), ("y",), layers, tensors, {"w": W})


def made(network: Network) -> tuple[Runner, Doubled]:
    elsewhere = Doubled()
    served = {layer.name: read_layer(layer, network) for layer in network.layers if layer.op == "ConvInteger"}
    return Runner(network, served, CPU, elsewhere), elsewhere


def images(count: int) -> Any:
    return RNG.integers(-30, 30, (count, 3, 4, 4)).astype("int8")


def wanted(x: Any) -> Any:
    """Return the expected output: the filter is two by two, without padding."""
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64) * 2, (2, 2), (2, 3))
    return 2 * np.einsum("nchwrs,kcrs->nkhw", windows, W.astype(np.int64))


def test_any_shape_in_turn_and_each_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    lookup = module.lookup
    monkeypatch.setattr(module, "lookup", lambda problem, spec: asked.append(problem.n) or lookup(problem, spec))
    runner, elsewhere = made(network_of())
    for count in (1, 2, 1, 2):
        x = images(count)
        np.testing.assert_array_equal(runner.run({"x": Value(CPU, host=x)}, ["y"])["y"].on_host, wanted(x))
    assert asked == [1, 2]
    assert elsewhere.prepared == ["a", "b"]


def test_weights_are_on_the_device_once_and_few_shapes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted(CpuDevice):
        uploads = 0

        def upload(self, array: Any) -> Any:
            self.uploads += array.shape == (5, 2, 2, 3)
            return super().upload(array)

    device = Counted(CPU.target)
    network = network_of()
    runner = Runner(network, {"conv": read_layer(network.layers[1], network)}, device, Doubled())
    monkeypatch.setattr(running, "MOST_SHAPES", 2)
    for count in (1, 2, 3):
        x = images(count)
        np.testing.assert_array_equal(runner.run({"x": Value(device, host=x)}, ["y"])["y"].on_host, wanted(x))
    assert device.uploads == 1
    assert [shape[0] for (shape,) in runner._prepared[network.layers[1].key]] == [2, 3]


def test_a_known_shape_is_prepared_before_the_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, _ = made(network_of((2, 3, 4, 4)))
    monkeypatch.setattr(module, "lookup", None)
    x = images(2)
    np.testing.assert_array_equal(runner.run({"x": Value(CPU, host=x)}, ["y"])["y"].on_host, wanted(x))


def test_tensors_are_dropped_behind_their_last_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[set[str]] = []
    runner, _ = made(network_of())
    run = runner._elsewhere_run
    monkeypatch.setattr(runner, "_elsewhere_run", lambda s, values: alive.append(set(values)) or run(s, values))
    runner.run({"x": Value(CPU, host=images(1))}, ["y"])
    assert alive == [{"x"}, {"C"}]
    assert runner.run({"x": Value(CPU, host=images(1))}, ["y", "A"]).keys() == {"y", "A"}


def test_a_shape_that_no_kernel_serves_runs_elsewhere() -> None:
    runner, elsewhere = made(network_of())
    y = runner.run({"x": Value(CPU, host=np.zeros((0, 3, 4, 4), np.int8))}, ["y"])["y"]
    assert y.shape[0] == 0
    assert elsewhere.prepared == ["a", "b", "conv"]
    (row,) = [row for row in runner.explain({"a": Reason(""), "b": Reason("")}).rows if row.name == "conv"]
    assert row.runs_on == "fallback"
    assert "n=0" in row.why


def test_layers_of_one_expression_are_told_so() -> None:
    """They are floats of this project's own arithmetic: not the bits of the layers by themselves."""
    layers = (
        Layer("d", "DequantizeLinear", ("x", "s", "z"), ("a",)),
        Layer("n", "LayerNormalization", ("a", "ones"), ("b",), {"axis": -1}),
        Layer("q", "QuantizeLinear", ("b", "s", "z"), ("y",)),
        Layer("abs", "Abs", ("b",), ("c",)),
    )
    held: dict[str, Any] = {
        "s": np.asarray(0.1, np.float32),
        "z": np.asarray(3, np.uint8),
        "ones": np.ones(5, np.float32),
    }
    types = {"x": "uint8", "a": "float32", "b": "float32", "c": "float32", "y": "uint8"}
    tensors = {name: Tensor(name, dtype, (4, 5)) for name, dtype in types.items()}
    network = Network(("x",), ("y", "c"), layers, tensors, held)
    fused, served, _ = fuse(network, {})
    runner = Runner(replace(fused, tensors={}), served, CPU, Doubled())  # prepares nothing without shapes
    whys = [row.why.partition("; ")[0] for row in runner.explain({}).rows]
    alone = "the kernel is chosen for the shape of the first input"
    assert whys == ["DequantizeLinear, LayerNormalization in one expression", alone, alone]


def test_a_tensor_with_two_readers_has_no_only_one() -> None:
    layers = (Layer("a", "Op", ("x",), ("A",)), Layer("b", "Op", ("A",), ("B",)), Layer("c", "Op", ("A",), ("C",)))
    network = Network(("x",), ("B", "C"), layers, {}, {})
    assert network.only_consumer("A") is None
    assert network.only_consumer("x") is layers[0]
    assert network.only_consumer("B") is None
