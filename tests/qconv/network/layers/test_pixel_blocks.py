"""Blocks of pixels that become channels, and the other way round, match ONNX Runtime bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import quantized_networks as networks
from one_node import whole_range
from onnx import helper
from session_comparison import RUNS, assert_equal

from qconv.onnx import Session, Unsupported


def between_pools(op: str, dtype: str, **attributes: Any) -> Any:
    """Return a model of two copies by MaxPool, with the op in between."""
    window = {"kernel_shape": [1, 1]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], **window),
        helper.make_node(op, ["a"], ["b"], **attributes),
        helper.make_node("MaxPool", ["b"], ["y"], **window),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    given, made = (helper.make_tensor_value_info(name, kind, ["N", "C", "H", "W"]) for name in "xy")
    graph = helper.make_graph(nodes, "blocks", [given], [made])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.turns
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("op", "attributes", "shape"),
    [
        ("DepthToSpace", {"blocksize": 2}, (2, 12, 3, 5)),
        ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}, (2, 12, 3, 5)),
        ("DepthToSpace", {"blocksize": 3, "mode": "CRD"}, (1, 9, 4, 2)),
        ("DepthToSpace", {"blocksize": 3, "mode": "DCR"}, (1, 27, 1, 1)),
        ("SpaceToDepth", {"blocksize": 2}, (2, 3, 6, 4)),
        ("SpaceToDepth", {"blocksize": 3}, (1, 1, 6, 9)),
    ],
)
def test_every_order(op: str, attributes: dict[str, Any], shape: tuple[int, ...], dtype: str) -> None:
    model = between_pools(op, dtype, **attributes)
    # By default an expression moves them; where bits are ONNX Runtime's, a layer of its own.
    for session in (Session(model, "cpu", strict=True), Session(model, "cpu", strict=True, bits="onnxruntime")):
        for seed in range(RUNS):
            fed = {"x": whole_range(np.random.default_rng(seed), dtype, shape)}
            assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], f"{op} {attributes} run {seed}")


@pytest.mark.parametrize(
    ("op", "shape", "message"),
    [
        ("DepthToSpace", (1, 6, 4, 4), "x has 6 channels, which is no multiple of blocksize=2 squared"),
        ("SpaceToDepth", (1, 4, 4, 5), "x has 4 x 5 pixels, which are no multiples of blocksize=2"),
    ],
)
def test_shapes_that_do_not_divide(op: str, shape: tuple[int, ...], message: str) -> None:
    model = between_pools(op, "uint8", blocksize=2)
    with pytest.raises(Unsupported, match=op):
        Session(model, "cpu", strict=True).run(None, {"x": np.zeros(shape, np.uint8)})
    session = Session(model, "cpu")
    with pytest.raises(ValueError, match="ONNX Runtime"):
        session.run(None, {"x": np.zeros(shape, np.uint8)})
    assert any(message in row.why for row in session.explain().rows)
