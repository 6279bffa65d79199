"""The output of a few ONNX nodes of bytes, by ONNX Runtime in one thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime


def y_of(nodes: Sequence[Any], feeds: Mapping[str, Any], constants: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    """Return the tensor `y`, which has this shape and the type of what is fed."""
    helper = onnx.helper
    (dtype,) = {array.dtype for array in feeds.values()}
    type_of = helper.np_dtype_to_tensor_dtype(dtype)
    given = [helper.make_tensor_value_info(name, type_of, array.shape) for name, array in feeds.items()]
    held = [onnx.numpy_helper.from_array(np.asarray(array, order="C"), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "several", given, [helper.make_tensor_value_info("y", type_of, shape)], held)
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, dict(feeds))
    return y
