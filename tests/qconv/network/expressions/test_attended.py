"""Attention in networks: three expressions become one kernel where a target has one, with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from expressed_layers import by_onnxruntime, model_of_nodes
from onnx import TensorProto, helper
from random_attentions import Sizes, of

from qconv.device import open_device
from qconv.device.cpu import CpuDevice
from qconv.expression.function import COMPUTED
from qconv.instances.load.ahead import looked_up
from qconv.network import one_output_each
from qconv.network.expressions import again, attended
from qconv.network.expressions.attended import Attended, is_faster, with_attention
from qconv.network.expressions.fuse import fuse
from qconv.onnx import Session
from qconv.onnx.model import read
from qconv.targets.target import TARGETS

HEADS, ROWS, KEYS, DEPTH, COLUMNS = 2, 9, 11, 16, 8
# Scales and zero points of rows, keys and values, of scores, and of weights.
QUANTIZED = {
    "s": np.float32(0.02),
    "z": np.uint8(128),
    "t": np.float32(0.05),
    "w": np.float32(0.004),
    "none": np.uint8(0),
}


def model(
    *more: Any, outputs: tuple[str, ...] = ("y",), axis: int = -1, keys: int = KEYS
) -> tuple[Any, dict[str, Any]]:
    """Return a quantized model of the attention of heads, and its inputs."""
    rng = np.random.default_rng(11)
    shapes = {"q": (HEADS, ROWS, DEPTH), "k": (HEADS, keys, DEPTH), "v": (HEADS, keys, COLUMNS)}
    feeds = {name: rng.integers(0, 256, shape, np.uint8) for name, shape in shapes.items()}

    def between(name: str, scale: str, zero: str) -> list[Any]:
        """Quantize a tensor, and dequantize it."""
        numbers = [scale, zero]
        return [
            helper.make_node("QuantizeLinear", [f"{name}_real", *numbers], [name]),
            helper.make_node("DequantizeLinear", [name, *numbers], [f"{name}_again"]),
        ]

    nodes = [
        *(helper.make_node("DequantizeLinear", [name, "s", "z"], [f"{name}_real"]) for name in shapes),
        helper.make_node("Transpose", ["k_real"], ["k_across"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q_real", "k_across"], ["scores_real"]),
        *between("scores", "t", "z"),
        helper.make_node("Softmax", ["scores_again"], ["weights_real"], axis=axis),
        *between("weights", "w", "none"),
        *more,
        helper.make_node("MatMul", ["weights_again", "v_real"], ["y_real"]),
        helper.make_node("QuantizeLinear", ["y_real", "s", "z"], ["y"]),
    ]
    made = model_of_nodes(nodes, feeds, QUANTIZED)
    for name in outputs[1:]:
        made.graph.output.append(helper.make_tensor_value_info(name, TensorProto.UINT8, None))
    return made, feeds


def kernels(session: Session) -> list[str]:
    return [problem.op for problem in session.problems]


def run(made: Any, feeds: dict[str, Any], device: str) -> tuple[list[Any], list[str]]:
    session = Session(made, device)
    assert session.explain().fallen_back == {}
    outputs = session.run(None, feeds)
    return outputs, kernels(session)


def test_three_expressions_are_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    made, feeds = model()
    monkeypatch.setattr(attended, "is_faster", lambda problem, device: True)
    (one,), ops = run(made, feeds, "cpu.sm_80")
    assert ops == ["attention"]
    monkeypatch.setattr(attended, "is_faster", lambda problem, device: False)
    (three,), ops = run(made, feeds, "cpu.sm_80")
    assert ops == ["matmul", "reduce", "matmul"]
    np.testing.assert_array_equal(one, three)
    (want,) = by_onnxruntime(made, feeds)
    assert np.abs(one.astype(int) - want).max() <= 1


def test_three_kernels_are_compiled_ahead() -> None:
    made, _ = model()
    network = one_output_each(read(made, {}).network, COMPUTED).without_unread()
    network, served = with_attention(*fuse(network, {})[:2])
    (one,) = (one for one in served.values() if isinstance(one, Attended))
    shapes = [network.tensor(name).extents or () for name in one.inputs]
    found = looked_up([lambda: one.prepare(shapes, open_device("cpu"))])
    assert [problem.op for problem in found] == ["matmul", "reduce", "matmul"]


def test_a_target_without_the_instruction_has_three() -> None:
    made, feeds = model()
    _, ops = run(made, feeds, "cpu")
    assert ops == ["matmul", "reduce", "matmul"]


@pytest.mark.parametrize("name", ["scores", "weights"])
def test_what_leaves_the_network_is_in_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attended, "is_faster", lambda problem, device: True)
    made, feeds = model(outputs=("y", name))
    _, ops = run(made, feeds, "cpu.sm_80")
    assert ops == ["matmul", "reduce", "matmul"]


def test_what_another_layer_reads_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attended, "is_faster", lambda problem, device: True)
    beside = helper.make_node("Transpose", ["weights"], ["across"], perm=[0, 2, 1])
    made, feeds = model(beside, outputs=("y", "across"))
    _, ops = run(made, feeds, "cpu.sm_80")
    assert ops.count("attention") == 0


def test_weights_of_columns_are_no_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """A softmax may be of the rows of a key, where these are as many."""
    monkeypatch.setattr(attended, "is_faster", lambda problem, device: True)
    made, feeds = model(axis=1, keys=ROWS)
    outputs, ops = run(made, feeds, "cpu.sm_80")
    assert "attention" not in ops
    (want,) = by_onnxruntime(made, feeds)
    assert np.abs(outputs[0].astype(int) - want).max() <= 1


def test_bytes_that_each_tile_would_compute_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bias behind the product before, for example."""
    rng = np.random.default_rng(5)
    feeds = {"x": rng.integers(0, 256, (HEADS, 80, DEPTH), np.uint8)}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["x_real"]),
        helper.make_node("DequantizeLinear", ["bias", "s", "z"], ["bias_real"]),
        helper.make_node("Add", ["x_real", "bias_real"], ["a_real"]),
        helper.make_node("QuantizeLinear", ["a_real", "t", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["a", "t", "z"], ["a_again"]),
        helper.make_node("Transpose", ["a_again"], ["across"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["a_again", "across"], ["y_real"]),
        helper.make_node("QuantizeLinear", ["y_real", "t", "z"], ["y"]),
    ]
    made = model_of_nodes(nodes, feeds, QUANTIZED | {"bias": rng.integers(0, 256, DEPTH, np.uint8)})
    outputs = {}
    for launch, kernels_of_it in ((2**40, ["matmul"]), (0, ["map", "matmul"])):
        monkeypatch.setattr(again, "LAUNCH", launch)
        (outputs[launch],), ops = run(made, feeds, "cpu")
        assert ops == kernels_of_it
    np.testing.assert_array_equal(outputs[0], outputs[2**40])


@pytest.mark.parametrize("heads", [3, 96, 400])
def test_one_kernel_is_faster_than_three(heads: int) -> None:
    assert is_faster(of(Sizes((heads,), 197, 197, 64, 64)), CpuDevice(TARGETS["sm_90a"]))


def test_few_rows_of_wide_values_are_faster_in_three() -> None:
    """Three kernels have more blocks than one, which reads all values for 16 rows."""
    assert not is_faster(of(Sizes((1,), 16, 256, 64, 256)), CpuDevice(TARGETS["sm_90a"]))


def test_short_rows_are_faster_in_one() -> None:
    problem = of(Sizes((64, 3), 49, 49, 32, 32))
    assert is_faster(problem, CpuDevice(TARGETS["sm_90a"]))
