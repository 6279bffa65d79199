"""A node next to layers that run on kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import quantized_networks as networks
from one_node import whole_range
from onnx import helper, numpy_helper
from session_comparison import assert_equal

from qconv.onnx import Session


def run_beside(
    node: Any,
    shapes: dict[str, tuple[int, ...]],
    held: dict[str, Any],
    dtype: str,
    outputs: tuple[str, ...] = ("y",),
    opset: int = 17,
    **how: Any,
) -> Session:
    """Compare the node with ONNX Runtime, placed after identity max pools, which run on kernels. `how` are options of
    the session."""
    rng = np.random.default_rng(2)
    feeds = {f"{name}_fed": whole_range(rng, dtype, shape) for name, shape in shapes.items()}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    pools = [
        helper.make_node("MaxPool", [f"{name}_fed"], [name], kernel_shape=[1] * (len(shape) - 2))
        for name, shape in shapes.items()
    ]
    shown = [helper.make_tensor_value_info(name, kind, array.shape) for name, array in feeds.items()]
    given = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = helper.make_graph([*pools, node], "beside", shown, given, constants)
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=9)
    session = Session(model, "cpu", **how)
    for got, wanted in zip(session.run(None, feeds), networks.by_ort(model, feeds), strict=True):
        assert_equal(got, wanted, str(node))
    return session
