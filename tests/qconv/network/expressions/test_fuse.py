"""Fusion of layers to expressions: its rules, each with the bits of a kernel per layer, tensors without an inferred
shape, and layers that were folded before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from expressed_layers import by_onnxruntime, model_of_nodes
from light_layers import Bytes, served_of
from one_expression import evaluated
from onnx import helper

from qconv.network import Layer, Network, Tensor
from qconv.network.expressions.expressed import Expressed
from qconv.network.expressions.fuse import CHEAP, FOLDED, MOST_READ, fuse, unfolded
from qconv.network.graph.served import Reason
from qconv.onnx import Session

RNG = np.random.default_rng(61)


def test_a_made_scalar_has_a_shape_without_inference() -> None:
    """ONNX Runtime says of a scalar what it says of an unknown shape."""
    layers = (
        Layer("most", "ReduceMax", ("x",), ("most",), {"keepdims": 0}),
        Layer("least", "ReduceMin", ("x",), ("least",), {"keepdims": 0}),
        Layer("range", "Sub", ("most", "least"), ("range",)),
        Layer("scaled", "Div", ("x", "range"), ("y",)),
    )
    tensors = {name: Tensor(name, "float32") for name in ("most", "least", "range")}
    tensors |= {name: Tensor(name, "float32", (5, 7)) for name in "xy"}
    x = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    got = evaluated(Network(("x",), ("y", "range"), layers, tensors, {}), {"x": x})
    np.testing.assert_array_equal(got, x / (x.max() - x.min()))


def test_an_output_of_a_layer_with_several_stays_a_layer() -> None:
    split = Layer("s", "Split", ("x",), ("a", "b"))
    outputs = [Layer(f"s:{y}", "Split", ("x",), (y,), parts=(split,)) for y in "ab"]
    parts = (Layer("relu", "Relu", ("a",), ("c",)), Layer("neg", "Neg", ("c",), ("d",)))
    folded = Layer("neg", "Neg", ("a",), ("d",), parts=parts)
    network = Network(("x",), ("d", "b"), (*outputs, folded), {}, {})
    assert unfolded(network, ()).layers == (*outputs, *parts)
    assert unfolded(network, ("neg",)).layers == (*outputs, folded)


def test_what_is_too_large_for_a_kernel_stays_elsewhere() -> None:
    layers = (Layer("neg", "Neg", ("x",), ("a",)), Layer("abs", "Abs", ("a",), ("y",)))
    tensors = {name: Tensor(name, "float32", (70_000, 70_000)) for name in "xay"}
    fused, served, why_not = fuse(Network(("x",), ("y",), layers, tensors, {}), {})
    assert [layer.name for layer in fused.layers] == ["neg", "abs"]
    assert not served
    assert why_not.keys() == {"neg", "abs"}
    assert "must be between 1 and" in str(why_not["abs"])


@pytest.mark.parametrize("name", ["float32", "x0", "b/0"])
def test_a_tensor_may_have_any_name(name: str) -> None:
    """Operands of single numbers and parts of folds have names of their own."""
    chain = Chain(**{name: (3, 4)})
    chain.hold(half=np.float32(0.5))
    chain.layer("Mul", f"{name} half", "a", (3, 4))
    chain.layer("Softmax", "a", "b", (3, 4), axis=0)
    assert chain.kernels("b") == ["reduce", "reduce", "map"]


class Chain:
    """Layers of floats, one after the other, and the constants that they read."""

    def __init__(self, **inputs: tuple[int, ...]) -> None:
        self.layers: list[Layer] = []
        self.tensors = {name: Tensor(name, "float32", shape) for name, shape in inputs.items()}
        self.held: dict[str, Any] = {}
        self.fed = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in inputs.items()}
        self.inputs = tuple(inputs)

    def layer(self, op: str, reads: str, y: str, shape: tuple[int, ...], dtype: str = "float32", **given: Any) -> None:
        self.layers.append(Layer(y, op, tuple(reads.split()), (y,), given))
        self.tensors[y] = Tensor(y, dtype, shape)

    def hold(self, **arrays: Any) -> None:
        self.held |= {name: np.asarray(array) for name, array in arrays.items()}
        self.tensors |= {name: Tensor(name, str(each.dtype), each.shape) for name, each in self.held.items()}

    def network(self, *outputs: str) -> Network:
        return Network(self.inputs, outputs, tuple(self.layers), self.tensors, self.held)

    def kernels(self, y: str) -> list[str]:
        """Return the kinds of the kernels; check that the bits are those of a kernel per layer."""
        fused, served, why_not = fuse(self.network(y), {})
        assert not why_not
        whole = evaluated(self.network(y), self.fed)
        np.testing.assert_array_equal(whole, self.layer_by_layer(y))
        one = [served[layer.name] for layer in fused.layers]
        assert all(isinstance(each, Expressed) for each in one)
        return [each.kernel(each.lasts).problem.op for each in one]  # type: ignore[attr-defined]

    def layer_by_layer(self, y: str) -> Any:
        made = dict(self.fed)
        for layer in self.layers:
            reads = tuple(name for name in dict.fromkeys(layer.inputs) if name in made)
            network = Network(reads, layer.outputs, (layer,), self.tensors, self.held)
            made[layer.outputs[0]] = evaluated(network, {name: made[name] for name in reads})
        return made[y]


SHAPE = (2, 12, 40)


def test_maps_and_movement_are_one_kernel() -> None:
    chain = Chain(x=SHAPE, z=(2, 40, 12))
    chain.hold(shape=np.array([2, 480], np.int64))
    chain.layer("Sigmoid", "x", "a", SHAPE)
    chain.layer("Transpose", "a", "b", (2, 40, 12), perm=[0, 2, 1])
    chain.layer("Mul", "b z", "c", (2, 40, 12))
    chain.layer("Reshape", "c shape", "d", (2, 480))
    chain.layer("Tanh", "d", "e", (2, 480))
    assert chain.kernels("e") == ["map"]


def test_a_normalization_between_quantized_tensors_is_one_launch() -> None:
    chain = Chain(x=SHAPE)
    scales = {"s": np.float32(0.05), "z": np.uint8(120), "scale": RNG.uniform(0.5, 2, 40).astype(np.float32)}
    chain.hold(bias=RNG.standard_normal(40).astype(np.float32), **scales)
    chain.fed["x"] = RNG.integers(0, 256, SHAPE).astype(np.uint8)
    chain.tensors["x"] = Tensor("x", "uint8", SHAPE)
    chain.layer("DequantizeLinear", "x s z", "a", SHAPE)
    chain.layer("LayerNormalization", "a scale bias", "b", SHAPE, axis=-1, epsilon=1e-5)
    chain.layer("QuantizeLinear", "b s z", "y", SHAPE, "uint8")
    assert chain.kernels("y") == ["reduce"]


def test_a_sum_of_two_branches_is_computed_by_whoever_reads_it() -> None:
    chain = Chain(x=(3, 2, 12, 40), w=(3, 2, 1, 40))
    chain.hold(branches=np.array([1], np.int64), pixels=np.array([1], np.int64))
    chain.layer("ReduceSum", "x branches", "a", (3, 12, 40), keepdims=0)
    chain.layer("ReduceMean", "a pixels", "mean", (3, 1, 40))
    assert chain.kernels("mean") == ["reduce"]
    chain.layer("Mul", "x w", "b", (3, 2, 12, 40))
    chain.layer("ReduceSum", "b branches", "c", (3, 12, 40), keepdims=0)
    chain.layer("Sigmoid", "c", "y", (3, 12, 40))
    assert chain.kernels("y") == ["map"]


def test_a_softmax_between_two_products_is_three_launches_with_all_that_lies_between() -> None:
    chain = Chain(q=(2, 12, 8), k=(2, 12, 8), v=(2, 12, 8))
    chain.hold(factor=np.float32(0.35))
    chain.layer("Transpose", "k", "kt", (2, 8, 12), perm=[0, 2, 1])
    chain.layer("MatMul", "q kt", "a", (2, 12, 12))
    chain.layer("Mul", "a factor", "b", (2, 12, 12))
    chain.layer("Softmax", "b", "p", (2, 12, 12), axis=-1)
    chain.layer("MatMul", "p v", "y", (2, 12, 8))
    assert chain.kernels("y") == ["matmul", "reduce", "matmul"]


def test_maps_behind_a_product_join_it() -> None:
    chain = Chain(x=(6, 8), r=(6, 4))
    chain.hold(w=RNG.standard_normal((8, 4)).astype(np.float32), bias=RNG.standard_normal(4).astype(np.float32))
    chain.layer("Gemm", "x w bias", "a", (6, 4))
    chain.layer("Relu", "a", "b", (6, 4))
    chain.layer("Add", "b r", "y", (6, 4))
    assert chain.kernels("y") == ["matmul"]


def test_cheap_functions_before_a_reduction_are_computed_in_it() -> None:
    for count, kernels in ((1, ["reduce"]), (FOLDED + 1, ["map", "reduce"])):
        chain = Chain(x=SHAPE)
        chain.hold(axes=np.array([2], np.int64))
        for at in range(count):
            chain.layer("Abs", f"t{at}" if at else "x", f"t{at + 1}", SHAPE)
        chain.layer("ReduceSum", f"t{count} axes", "y", (2, 12, 1))
        assert chain.kernels("y") == kernels, count


def test_what_two_layers_read_is_in_memory_unless_it_is_cheap() -> None:
    for count, kernels in ((CHEAP, ["map"]), (CHEAP + 1, ["map", "map"])):
        chain = Chain(x=SHAPE)
        chain.hold(shape=np.array([2, 480], np.int64))
        for at in range(count):
            chain.layer("Neg", f"t{at}" if at else "x", f"t{at + 1}", SHAPE)
        chain.layer("Abs", f"t{count}", "a", SHAPE)
        chain.layer("Floor", f"t{count}", "b", SHAPE)
        chain.layer("Add", "a b", "y", SHAPE)
        assert chain.kernels("y") == kernels, count


def test_a_reduction_that_two_layers_read_is_in_memory() -> None:
    chain = Chain(x=SHAPE)
    chain.hold(axes=np.array([2], np.int64))
    chain.layer("ReduceSum", "x axes", "s", (2, 12, 1))
    chain.layer("Neg", "s", "a", (2, 12, 1))
    chain.layer("Abs", "s", "b", (2, 12, 1))
    chain.layer("Mul", "a b", "y", (2, 12, 1))
    assert chain.kernels("y") == ["reduce", "map"]


def test_a_reduction_of_what_is_folded_reads_it_from_memory() -> None:
    """Though both fold the same row."""
    chain = Chain(x=SHAPE)
    chain.hold(scale=np.ones(40, np.float32))
    chain.layer("Softmax", "x", "p", SHAPE, axis=-1)
    chain.layer("LayerNormalization", "p scale", "y", SHAPE, axis=-1)
    assert chain.kernels("y") == ["reduce", "reduce"]


def test_more_tensors_than_a_kernel_reads_are_several_kernels() -> None:
    names = [f"x{at}" for at in range(MOST_READ + 4)]
    chain = Chain(**dict.fromkeys(names, (3, 5)))
    for at, name in enumerate(names[1:]):
        chain.layer("Add", f"{f's{at - 1}' if at else names[0]} {name}", f"s{at}", (3, 5))
    assert chain.kernels(f"s{len(names) - 2}") == ["map", "map"]


def test_a_layer_without_a_reader_reads_from_memory() -> None:
    """It is named with its reason, and what is beside it is computed here."""
    chain = Chain(x=SHAPE)
    chain.layer("Abs", "x", "a", SHAPE)
    chain.layer("LRN", "a", "b", SHAPE, size=3)
    chain.layer("Neg", "b", "y", SHAPE)
    fused, served, why_not = fuse(chain.network("y"), {})
    assert why_not == {"b": Reason("no kernel here computes LRN")}
    assert [(layer.name, layer.name in served) for layer in fused.layers] == [("a", True), ("b", False), ("y", True)]


def test_a_folded_shuffle_that_is_not_served_is_read_by_its_parts() -> None:
    """A MobileViT moves pixels to patches so. Bytes behind floats that are computed are no shuffle of channels, and the
    last Reshape alone would be another tensor."""
    x = RNG.standard_normal((1, 4, 6, 8)).astype(np.float32)
    held: dict[str, Any] = {"first": np.array([12, 2, 4, 2]), "last": np.array([1, 4, 48])}
    held |= {"scale": np.ones(8, np.float32), "bias": np.zeros(8, np.float32), "s": np.float32(0.02), "z": np.uint8(99)}
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale", "bias"], ["n"], axis=-1),
        helper.make_node("QuantizeLinear", ["n", "s", "z"], ["q"]),
        helper.make_node("Reshape", ["q", "first"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["b", "last"], ["y"]),
    ]
    model = model_of_nodes(nodes, {"x": x}, held)
    session = Session(model, "cpu", strict=True)
    (got,), (want,) = session.run(None, {"x": x}), by_onnxruntime(model, {"x": x})
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1


def test_readers_of_a_tensor_that_become_one_kernel_compute_it() -> None:
    """A product with its own sigmoid is one of them; a tensor that leaves the network is in memory."""
    for outputs, read in ((("y",), ["x"]), (("y", "t"), ["x", "t"])):
        chain = Chain(x=SHAPE)
        for at in range(CHEAP):
            chain.layer("Neg", f"t{at}" if at else "x", f"t{at + 1}", SHAPE)
        chain.layer("Abs", f"t{CHEAP}", "t", SHAPE)
        chain.layer("Sigmoid", "t", "a", SHAPE)
        chain.layer("Ceil", "a", "b", SHAPE)
        chain.layer("Mul", "t b", "y", SHAPE)
        fused, served, _ = fuse(chain.network(*outputs), {})
        assert [name for layer in fused.layers for name in layer.inputs] == read
        assert all(layer.name in served for layer in fused.layers)
        assert chain.kernels("y") == ["map"]


def test_a_normalization_whose_rows_are_rolled_is_one_kernel() -> None:
    chain = Chain(x=SHAPE)
    whole = {"one": np.array([5]), "end": np.array([12]), "none": np.array([0]), "axis": np.array([1])}
    chain.hold(scale=np.ones(40, np.float32), **whole)
    chain.layer("LayerNormalization", "x scale", "n", SHAPE, axis=-1)
    chain.layer("Slice", "n one end axis", "a", (2, 7, 40))
    chain.layer("Slice", "n none one axis", "b", (2, 5, 40))
    chain.layer("Concat", "a b", "y", SHAPE, axis=1)
    assert chain.kernels("y") == ["reduce"]


def test_rows_of_a_product_that_a_softmax_folds_are_of_neighbours() -> None:
    """Whatever the order of axes in which the factors lie: the heads of what a convolution makes are its channels."""
    made = Bytes("uint8", "heads")
    heads = made.convolution(made.input(2, 3, 5, 8), 4)
    rows = made.dequantized(heads)
    across = made.node("Transpose", [rows], (2, 4, 8, 5), "float32", perm=[0, 1, 3, 2])
    scores = made.node("MatMul", [rows, across], (2, 4, 5, 5), "float32")
    weights = made.node("Softmax", [scores], (2, 4, 5, 5), "float32", axis=-1)
    network = made.network(weights)
    fused, served, _ = fuse(network, served_of(network))
    found = [served[layer.name] for layer in fused.layers if isinstance(served[layer.name], Expressed)]
    kernels = [one.kernel(one.lasts) for one in found]  # type: ignore[attr-defined]
    assert [(one.problem.op, one.is_last) for one in kernels] == [("matmul", False), ("reduce", False)]
    assert any(found[0].lasts)  # type: ignore[attr-defined]
