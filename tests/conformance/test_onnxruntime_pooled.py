"""ONNX Runtime's QLinearConv and MaxPool on the CPU as an oracle for `conv2d_pool`: full-range models, tolerance 0.

The types are uint8 by uint8 and int8 by int8, which every processor sums exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from exactness import assert_same, expected, run
from random_pooled import pooled_problems

from qconv import PooledConv2d, generator
from qconv.arithmetic.quantization import Quantization
from qconv.device import open_device
from qconv.instances.load.pair import load
from qconv.ops import registry

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'qconv-tune[test]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'qconv-tune[test]'")


def _problems(count: int) -> list[PooledConv2d]:
    """Return the windows of the random problems, with quantizations that QLinearConv supports."""
    made = []
    for index, problem in enumerate(pooled_problems(seed=3, count=count)):
        dtype, q = ("int8", "uint8")[index % 2], problem.quantization
        flags = {name: getattr(q, name) for name in ("x_zero_point", "y_zero_point", "per_channel")}
        bias = "int32" if q.bias != "none" else "none"
        same = Quantization.of("ort", x_type=dtype, w_type=dtype, out_type=dtype, bias=bias, **flags)
        made.append(replace(problem, quantization=same))
    return made


PROBLEMS = _problems(60)


def infer(problem: PooledConv2d, drawn: registry.Sample) -> Any:
    """Run one model. ONNX uses NCHW and KCRS."""
    q, values = problem.quantization, problem.checked(drawn.parameters)
    constants = {
        "x_scale": np.float32(values.x_scale),
        "x_zero": np.asarray(values.x_zero_point, q.x_type),
        "w": np.ascontiguousarray(drawn.arrays[1].transpose(0, 3, 1, 2)),
        "w_scale": np.broadcast_to(np.float32(values.w_scale), (problem.k,) if q.per_channel else ()),
        "w_zero": np.zeros((problem.k,) if q.per_channel else (), q.w_type),
        "y_scale": np.float32(values.y_scale),
        "y_zero": np.asarray(values.y_zero_point, q.out_type),
    }
    if q.bias != "none":
        constants["bias"] = values.bias
    helper = onnx.helper
    geometry = {"strides": problem.stride, "dilations": problem.dilation, "pads": problem.pad, "group": problem.groups}
    of_pool = {"strides": problem.window_stride, "pads": problem.window_pad, "ceil_mode": int(problem.ceil_mode)}
    nodes = [
        helper.make_node("QLinearConv", ["x", *constants], ["c"], kernel_shape=(problem.r, problem.s), **geometry),
        helper.make_node("MaxPool", ["c"], ["y"], kernel_shape=problem.window, **of_pool),
    ]
    x = np.ascontiguousarray(drawn.arrays[0].transpose(0, 3, 1, 2))
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    given, made = (helper.make_tensor_value_info(*one) for one in (("x", kind, x.shape), ("y", kind, None)))
    held = [onnx.numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "pooled", [given], [made], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x})
    return np.ascontiguousarray(y.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("first", range(0, len(PROBLEMS), 20))
def test_the_oracle(first: int) -> None:
    for index, problem in enumerate(PROBLEMS[first : first + 20], first):
        for drawn in (registry.draw(problem, index), registry.draw(problem, 1000 + index)):
            assert_same(expected(problem, drawn), infer(problem, drawn), str(problem))


@pytest.mark.slow
def test_the_kernels() -> None:
    """Covers the default kernels of each problem."""
    device = open_device("cpu")
    for index, problem in enumerate(PROBLEMS[:20]):
        drawn = registry.draw(problem, index)
        made = load(generator.default(problem, device.target), device)
        assert_same(run(made, drawn), infer(problem, drawn), str(problem))


def test_what_the_models_cover() -> None:
    """The models include odd sizes, incomplete windows, and windows whose padding is smaller than every byte."""
    windows = {problem.window for problem in PROBLEMS}
    assert {(2, 2), (3, 2), (3, 3)} <= windows
    assert {step for problem in PROBLEMS for step in problem.window_stride} == {1, 2, 3}
    assert any(problem.y_shape != replace(problem, ceil_mode=False).y_shape for problem in PROBLEMS)
    assert sum(any(problem.window_pad) for problem in PROBLEMS) > 20
    assert {problem.oh % 2 for problem in PROBLEMS} == {0, 1}
