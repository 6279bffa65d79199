"""A quantized convolution and DepthToSpace behind it are one kernel, with ONNX Runtime's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import quantized_networks as networks
from one_node import whole_range
from onnx import helper, numpy_helper
from session_comparison import assert_equal

from qconv.onnx import Session

C, REST, SIZE = 8, 3, 2
K = REST * SIZE**2


def model(mode: str, groups: int = 1, reads_between: bool = False, pools: bool = False) -> Any:
    """Return a model of a convolution with numbers per channel, DepthToSpace, and a sum of the result with itself."""
    rng = np.random.default_rng(5)
    constants = {
        "x_scale": np.float32(0.02),
        "x_zero": np.uint8(117),
        "w": rng.integers(-64, 64, (K, C // groups, 3, 3)).astype(np.int8),
        "w_scale": rng.uniform(0.001, 0.02, K).astype(np.float32),
        "w_zero": np.zeros(K, np.int8),
        "y_scale": np.float32(0.08),
        "y_zero": np.uint8(101),
        "bias": rng.integers(-3000, 3000, K).astype(np.int32),
    }
    names = ["x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "bias"]
    nodes = [
        helper.make_node("QLinearConv", ["x", *names], ["a"], pads=[1, 1, 1, 1], group=groups),
        helper.make_node("DepthToSpace", ["a"], ["b"], blocksize=SIZE, mode=mode),
        helper.make_node("MaxPool", ["b"], ["y"], kernel_shape=[2, 2] if pools else [1, 1]),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype("uint8"))
    made = [helper.make_tensor_value_info(name, kind, list("NCHW")) for name in ("y", *("a",) * reads_between)]
    given = helper.make_tensor_value_info("x", kind, ["N", C, "H", "W"])
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "shuffles", [given], made, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def ran(made: Any) -> Session:
    session = Session(made, "cpu", strict=True)
    for seed, shape in enumerate([(2, C, 4, 6), (1, C, 5, 3)]):
        fed = {"x": whole_range(np.random.default_rng(seed), "uint8", shape)}
        for got, want in zip(session.run(None, fed), networks.by_ort(made, fed), strict=True):
            assert_equal(got, want, str(shape))
    return session


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_the_convolution_stores_blocks(mode: str) -> None:
    session = ran(model(mode))
    assert {getattr(problem, "pixel_shuffle", None) for problem in session.problems} == {(2, 2), None}


@pytest.mark.parametrize("given", [{"groups": 2}, {"reads_between": True}])
def test_others_move_bytes(given: dict[str, Any]) -> None:
    session = ran(model("DCR", **given))
    assert getattr(session.problems[0], "pixel_shuffle", None) == (1, 1)


def test_a_pool_behind_is_a_kernel_of_its_own() -> None:
    assert {problem.op for problem in ran(model("DCR", pools=True)).problems} == {"conv2d", "max_pool"}


def of_blocks(attributes: dict[str, Any], groups: int = 1, reads_blocks: bool = False) -> Any:
    """Return a model of SpaceToDepth and a convolution."""
    rng = np.random.default_rng(6)
    held = {
        "x_scale": np.float32(0.02),
        "x_zero": np.uint8(117),
        "w": rng.integers(-64, 64, (6, 4 * C // groups, 3, 2)).astype(np.int8),
        "w_scale": np.float32(0.01),
        "w_zero": np.int8(0),
        "y_scale": np.float32(0.4),
        "y_zero": np.uint8(101),
    }
    names = ["x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"]
    nodes = [
        helper.make_node("SpaceToDepth", ["x"], ["blocks"], blocksize=SIZE),
        helper.make_node("QLinearConv", ["blocks", *names], ["made"], group=groups, **attributes),
        helper.make_node("MaxPool", ["made"], ["y"], kernel_shape=[1, 1]),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype("uint8"))
    outputs = ("y", *("blocks",) * reads_blocks)
    made = [helper.make_tensor_value_info(name, kind, list("NCHW")) for name in outputs]
    given = helper.make_tensor_value_info("x", kind, ["N", C, "H", "W"])
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "blocks", [given], made, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def taps_of(made: Any) -> set[tuple[int, int]]:
    """Return the filters of the session's convolutions, whose outputs are ONNX Runtime's."""
    session = Session(made, "cpu", strict=True)
    for seed, shape in enumerate([(2, C, 8, 6), (1, C, 10, 12)]):
        fed = {"x": whole_range(np.random.default_rng(seed), "uint8", shape)}
        for got, want in zip(session.run(None, fed), networks.by_ort(made, fed), strict=True):
            assert_equal(got, want, str(shape))
    return {(problem.r, problem.s) for problem in session.problems if problem.op == "conv2d"}


@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 0, 2, 1], "strides": [1, 2], "kernel_shape": [3, 2]}])
def test_a_filter_moves_over_blocks(attributes: dict[str, Any]) -> None:
    assert taps_of(of_blocks(attributes)) == {(6, 4)}


@pytest.mark.turns
@pytest.mark.parametrize(
    "given",
    [
        {"attributes": {"dilations": [1, 2]}},
        {"attributes": {"auto_pad": "SAME_UPPER"}},
        {"attributes": {}, "groups": 2},
        {"attributes": {}, "reads_blocks": True},
    ],
)
def test_other_filters_read_the_blocks(given: dict[str, Any]) -> None:
    assert taps_of(of_blocks(**given)) == {(3, 2)}
