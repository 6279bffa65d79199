"""Models of quantize_dynamic: all of their layers run on kernels, and have ONNX Runtime's bits."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import quantized_networks as networks
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from session_comparison import RUNS, assert_equal
from unusual_models import Made

from qconv import lookup
from qconv.device import Device
from qconv.onnx import Session
from qconv.onnx.model import rewritten

RNG = np.random.default_rng(94)
X = RNG.standard_normal((2, 3, 16, 16)).astype(np.float32)


def floats(*shape: int) -> Any:
    return (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def quantized(nodes: list[Any], feeds: dict[str, Any], held: dict[str, Any], path: Path, **options: Any) -> Any:
    """Return a model of floats, quantized by ONNX Runtime's quantizer, with weights of 7 bits: without VNNI, ONNX
    Runtime saturates sums of larger ones."""
    dynamic = options.pop("dynamic", False)
    onnx.save(Made(nodes, feeds, held, dynamic=dynamic).proto, path / "floats.onnx")
    logging.disable(logging.WARNING)
    quantize_dynamic(path / "floats.onnx", path / "dynamic.onnx", reduce_range=True, **options)
    logging.disable(logging.NOTSET)
    return onnx.load(path / "dynamic.onnx")


def small_network(path: Path, **options: Any) -> Any:
    """Return a model of a dense, a depthwise and a pointwise convolution and two products."""
    node = helper.make_node
    held = {"w1": floats(8, 3, 3, 3), "b1": floats(8), "w2": floats(8, 1, 3, 3), "b2": floats(8)}
    held |= {"w3": floats(12, 8, 1, 1), "w4": floats(12, 10), "b4": floats(10), "w5": floats(10, 5)}
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2], name="conv1"),
        node("Relu", ["c1"], ["r1"], name="relu1"),
        node("Conv", ["r1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1], group=8, name="conv2"),
        node("Relu", ["c2"], ["r2"], name="relu2"),
        node("Conv", ["r2", "w3"], ["c3"], name="conv3"),
        node("GlobalMaxPool", ["c3"], ["g"], name="pool"),  # a sum of floats would have an order of its own
        node("Flatten", ["g"], ["f"], name="flat"),
        node("Gemm", ["f", "w4", "b4"], ["m"], name="fc"),
        node("Relu", ["m"], ["mr"], name="relu3"),
        node("MatMul", ["mr", "w5"], ["y"], name="last"),
    ]
    return quantized(nodes, {"x": X}, held, path, **options)


def runs_as_onnxruntime(model: Any, feeds: dict[str, Any], device: str = "cpu") -> Session:
    """Run a session layer by layer, recorded and replayed, each time with other ranges of its inputs."""
    session = Session(model, device, strict=True)
    for turn in range(RUNS):
        fed = {name: np.roll(x, turn, -1) * np.float32(1 + turn) - np.float32(turn) for name, x in feeds.items()}
        for got, want in zip(session.run(None, fed), networks.by_ort(model, fed), strict=True):
            assert_equal(got, want, f"run {turn}")
    explanation = session.explain()
    assert {row.runs_on for row in explanation.rows} == {"qconv"}
    return session


def launches(session: Session) -> list[list[str]]:
    """Return the kernels that a run launches, by layer."""
    return [[launch.kernel for launch in lookup(one, "cpu").plan.call] for one in session.problems]


@pytest.mark.turns
@pytest.mark.parametrize("weights", [QuantType.QUInt8, QuantType.QInt8])
def test_a_small_network_runs_on_kernels(weights: QuantType, tmp_path: Path) -> None:
    model = small_network(tmp_path, weight_type=weights)
    session = runs_as_onnxruntime(model, {"x": X})
    rows = {row.name: row for row in session.explain().rows}
    assert {"conv1_quant", "fc_MatMul_quant"} < set(rows)
    assert rows["relu1"].why.startswith("ConvInteger, Cast, Mul, Mul, Add, Relu in one expression")
    assert rows["relu3"].why.startswith("com.microsoft.DynamicQuantizeMatMul, Relu in one expression")


@pytest.mark.gpu
def test_a_small_network_on_a_gpu(tmp_path: Path, gpu: Device) -> None:
    runs_as_onnxruntime(small_network(tmp_path, weight_type=QuantType.QInt8), {"x": X}, gpu.spec)


def test_a_layer_is_quantized_multiplied_and_scaled_by_one_problem_each(tmp_path: Path) -> None:
    """A dynamic quantization, a convolution, and a map that has the correction, the scale, the bias and the ReLU."""
    session = Session(small_network(tmp_path), "cpu", strict=True)
    layer = ["dynamic", "conv2d", "map"]
    ops = [problem.op for problem in session.problems]
    assert ops == [*layer, *layer, "dynamic", "conv2d", "reduce", *layer, *layer]
    assert [len(kernels) for kernels in launches(session)] == [1] * 15


def test_a_large_tensor_is_looked_at_and_converted_by_two_launches(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    x = RNG.standard_normal((1, 3, 150, 150)).astype(np.float32)
    session = runs_as_onnxruntime(quantized([node], {"x": x}, {"w": floats(4, 3, 3, 3)}, tmp_path), {"x": x})
    assert [problem.op for problem in session.problems] == ["dynamic", "conv2d", "map"]
    first, *others = launches(session)
    assert first in (["dynamic"], ["dynamic_look", "dynamic_convert"])
    assert [len(each) for each in others] == [1, 1]


def test_a_batch_may_be_open(tmp_path: Path) -> None:
    session = runs_as_onnxruntime(small_network(tmp_path, dynamic=True), {"x": X})
    assert session.run(None, {"x": X[:1]})[0].shape == (1, 5)


def test_a_saved_optimised_model_has_fused_products(tmp_path: Path) -> None:
    """ONNX Runtime makes MatMulIntegerToFloat of products of one tensor, and DynamicQuantizeMatMul of a single one."""
    node = helper.make_node
    held = {name: floats(24, 24) for name in "qkv"} | {"o": floats(24, 7), "b": floats(24)}
    nodes = [node("MatMul", ["x", name], [f"{name}_y"], name=name) for name in "qkv"]
    nodes += [
        node("Add", ["q_y", "b"], ["q_b"]),
        node("Mul", ["q_b", "k_y"], ["qk"]),
        node("Add", ["qk", "v_y"], ["sum"]),
        node("MatMul", ["sum", "o"], ["y"], name="o"),
    ]
    x = RNG.standard_normal((2, 9, 24)).astype(np.float32)
    model = quantized(nodes, {"x": x}, held, tmp_path, weight_type=QuantType.QInt8)
    saved = rewritten(model.SerializeToString(), {})
    ops = [each.op_type for each in saved.graph.node]
    assert (ops.count("MatMulIntegerToFloat"), ops.count("DynamicQuantizeMatMul")) == (3, 1)
    session = runs_as_onnxruntime(saved, {"x": x})
    assert [problem.op for problem in session.problems].count("dynamic") == 2


def test_attention_has_products_of_two_dynamic_tensors(tmp_path: Path) -> None:
    """Softmax and its sums are this project's own: close to ONNX Runtime's."""
    node = helper.make_node
    held = {name: floats(16, 16) for name in "qkvo"}
    nodes = [node("MatMul", ["x", name], [f"{name}_y"], name=name) for name in "qkv"]
    nodes += [
        node("Transpose", ["k_y"], ["k_t"], perm=[0, 2, 1]),
        node("MatMul", ["q_y", "k_t"], ["scores"], name="scores"),
        node("Softmax", ["scores"], ["shares"], axis=-1),
        node("MatMul", ["shares", "v_y"], ["mixed"], name="mixed"),
        node("MatMul", ["mixed", "o"], ["y"], name="o"),
    ]
    x = RNG.standard_normal((2, 7, 16)).astype(np.float32)
    options = {"weight_type": QuantType.QInt8, "extra_options": {"MatMulConstBOnly": False}}
    model = quantized(nodes, {"x": x}, held, tmp_path, **options)
    session = Session(model, "cpu", strict=True)
    (got,), (want,) = session.run(None, {"x": x}), networks.by_ort(model, {"x": x})
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    ops = [problem.op for problem in session.problems]
    assert (ops.count("conv2d"), ops.count("matmul")) == (4, 2)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(networks.NETWORKS))
def test_networks_of_the_usual_kinds_run_on_kernels(name: str, tmp_path: Path) -> None:
    """Sums of floats have an order of their own: outputs are close to ONNX Runtime's."""
    onnx.save(networks.NETWORKS[name](), tmp_path / "floats.onnx")
    path = tmp_path / "dynamic.onnx"
    quantize_dynamic(tmp_path / "floats.onnx", path, weight_type=QuantType.QInt8, reduce_range=True)
    model = onnx.load(path)
    feeds = {model.graph.input[0].name: networks.images(2, 3)}
    session = Session(model, "cpu", strict=True)
    (got,), (want,) = session.run(None, feeds), networks.by_ort(model, feeds)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    ops = [problem.op for problem in session.problems]
    convolutions = sum(node.op_type in ("ConvInteger", "MatMulInteger") for node in model.graph.node)
    assert ops.count("conv2d") == convolutions
    assert len(ops) <= 3 * convolutions + 3


def test_weights_of_the_whole_range_are_exact() -> None:
    """ONNX Runtime saturates such sums on processors without VNNI; the sums here are those of NumPy."""
    x, w = RNG.standard_normal((5, 64)).astype(np.float32), np.full((64, 6), -128, np.int8)
    w[:, ::2] = 127
    node = helper.make_node
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("MatMulInteger", ["q", "w", "z"], ["y"]),
    ]
    session = Session(Made(nodes, {"x": x}, {"w": w}, outputs=("y", "q", "z")).proto, "cpu", strict=True)
    y, q, z = session.run(None, {"x": x})
    np.testing.assert_array_equal(y, (q.astype(int) - int(z)) @ w.astype(int))
    assert y.dtype == np.int32


def test_outputs_of_a_run_are_not_overwritten_by_the_next() -> None:
    """All three outputs of the last layer are the caller's."""
    model = Made([helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])], {"x": X}, outputs="yzs").proto
    session = Session(model, "cpu", strict=True)
    given = [X * np.float32(factor) - np.float32(factor) for factor in range(RUNS + 1)]
    made = [session.run_on_device(None, {"x": x}) for x in given]
    for x, outputs in zip(given, made, strict=True):
        for got, want in zip(outputs, networks.by_ort(model, {"x": x}), strict=True):
            np.testing.assert_array_equal(np.reshape(got, want.shape), want)


def test_rows_with_scales_of_their_own_run_on_kernels() -> None:
    """A quantization per token, written in ops of ONNX: a reduction, a map, a product and a map."""
    node = helper.make_node
    held = {"w": RNG.integers(-64, 64, (48, 10)).astype(np.int8), "w_scale": np.float32(0.02)}
    held |= {"most": np.float32(127), "low": np.float32(-127), "least": np.float32(1e-5), "axes": np.array([-1])}
    nodes = [
        node("Abs", ["x"], ["size"]),
        node("ReduceMax", ["size", "axes"], ["largest"], keepdims=1),
        node("Max", ["largest", "least"], ["range"]),
        node("Div", ["range", "most"], ["scale"]),
        node("Div", ["x", "scale"], ["steps"]),
        node("Round", ["steps"], ["rounded"]),
        node("Clip", ["rounded", "low", "most"], ["clipped"]),
        node("Cast", ["clipped"], ["bytes"], to=onnx.TensorProto.INT8),
        node("MatMulInteger", ["bytes", "w"], ["sums"]),
        node("Cast", ["sums"], ["real"], to=onnx.TensorProto.FLOAT),
        node("Mul", ["real", "scale"], ["of_rows"]),
        node("Mul", ["of_rows", "w_scale"], ["y"]),
    ]
    x = RNG.standard_normal((3, 4, 48)).astype(np.float32)
    model = Made(nodes, {"x": x}, held, opset=18).proto
    session = Session(model, "cpu", strict=True)
    (got,) = session.run(None, {"x": x})
    scale = np.maximum(np.abs(x).max(-1, keepdims=True), np.float32(1e-5)) / np.float32(127)
    bytes_ = np.clip(np.rint(x / scale), -127, 127).astype(int)
    want = (bytes_ @ held["w"].astype(int)).astype(np.float32) * scale * np.float32(0.02)
    np.testing.assert_array_equal(got, want)
    assert [problem.op for problem in session.problems][-2:] == ["conv2d", "map"]
    assert len(session.problems) <= 4


def zero_points(shape: tuple[int, ...]) -> tuple[Any, dict[str, Any], Any]:
    """Return a model of a product whose zero points follow from floats of this shape, its inputs, and its weights."""
    node = helper.make_node
    x, z = RNG.integers(0, 256, (3, 6, 20)).astype(np.uint8), RNG.integers(0, 256, shape).astype(np.float32)
    w = RNG.integers(-64, 64, (20, 5)).astype(np.int8)
    nodes = [node("Cast", ["z"], ["z8"], to=onnx.TensorProto.UINT8), node("MatMulInteger", ["x", "w", "z8"], ["y"])]
    return Made(nodes, {"x": x, "z": z}, {"w": w}).proto, {"x": x, "z": z}, w


@pytest.mark.parametrize("shape", [(1,), (6,), (3, 6, 1)])
def test_zero_points_of_rows_stay_on_the_device(shape: tuple[int, ...]) -> None:
    model, feeds, w = zero_points(shape)
    (got,) = Session(model, "cpu", strict=True).run(None, feeds)
    z = feeds["z"].astype(int).reshape(*shape, 1) if shape == (6,) else feeds["z"].astype(int)
    np.testing.assert_array_equal(got, (feeds["x"].astype(int) - z) @ w.astype(int))


def test_a_product_whose_zero_points_have_another_shape_runs_elsewhere_as_a_whole() -> None:
    """ONNX Runtime says in a run what it does not take."""
    model, feeds, _ = zero_points((2, 3))
    session = Session(model, "cpu")
    (row,) = (row for row in session.explain().rows if row.op == "MatMulInteger")
    assert row.runs_on != "qconv"
    assert row.why == "its zero points have the shape (2, 3); the kernels have one, or one for each row"
    with pytest.raises(ValueError, match="ONNX Runtime"):
        session.run(None, feeds)


def test_before_shapes_are_known_products_say_so(tmp_path: Path) -> None:
    """The reasons are those of the products, not of the expressions that would read them."""
    session = Session(small_network(tmp_path, dynamic=True), "cpu")
    why = {row.name: row.why for row in session.explain().rows}
    assert why["fc_MatMul_quant"] == "the shape of its input 'f' is unknown"
    assert why["conv1_quant"] == "the shape of its input 'x_quantized' is unknown"


def test_with_onnxruntimes_bits_the_layers_say_which_setting_has_kernels(tmp_path: Path) -> None:
    model = small_network(tmp_path)
    session = Session(model, "cpu", bits="onnxruntime")
    assert_equal(session.run(None, {"x": X})[0], networks.by_ort(model, {"x": X})[0], "y")
    why = {row.op: row.why for row in session.explain().rows}
    for op in ("DynamicQuantizeLinear", "ConvInteger", "com.microsoft.DynamicQuantizeMatMul"):
        assert "computed at each run" in why[op] or "it computes a scale and a zero point at each run" in why[op]
        assert 'bits="integers" has kernels for it' in why[op]


def test_constants_are_held_once(tmp_path: Path) -> None:
    """The sums of weights are small: of borders alone."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    model = quantized([node], {"x": X}, {"w": floats(4, 3, 3, 3)}, tmp_path)
    held = {tensor.name: numpy_helper.to_array(tensor).nbytes for tensor in model.graph.initializer}
    row = Session(model, "cpu").explain().as_dict()
    assert row["weight_bytes"] <= sum(held.values()) + 4 * 4 * 9 + 2 * 4 * 16 + 16
