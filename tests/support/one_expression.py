"""One op as an expression, evaluated by the oracle of its kernel: nothing is compiled. Beside it the same op in ONNX
Runtime, or in onnx's reference where ONNX Runtime lacks the types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from qconv.network import Layer, Network, Tensor
from qconv.network.expressions.expressed import Expressed
from qconv.network.expressions.fuse import fuse
from qconv.network.expressions.kernel import Kernel
from qconv.onnx import float8
from qconv.onnx.model import ORT_ERRORS
from qconv.op import Sample
from qconv.ops.registry import compute

OPSET = 21
Arrays = Mapping[str, Any]


def model_of(
    op: str, arrays: Arrays, y_dtype: str, constants: Sequence[str] = (), opset: int = OPSET, **attributes: Any
) -> onnx.ModelProto:
    """Return the model of one op, whose output `y` has this type. `arrays` are its inputs in order; None stands for an
    absent one."""
    domain, _, name = op.rpartition(".")
    node = helper.make_node(name, _names(arrays), ["y"], domain=domain, **attributes)
    given = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
    fed = [
        helper.make_tensor_value_info(name, _kind(array.dtype), array.shape)
        for name, array in given.items()
        if name not in constants
    ]
    held = [numpy_helper.from_array(given[name], name) for name in constants]
    y = helper.make_tensor_value_info("y", _kind(y_dtype), None)
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph([node], "one", fed, [y], held), opset_imports=domains, ir_version=10)


def _names(arrays: Arrays) -> list[str]:
    return ["" if array is None else name for name, array in arrays.items()]


def _kind(dtype: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def expected(model: onnx.ModelProto, arrays: Arrays) -> Any:
    """Return the output of ONNX Runtime, without its optimizations, or of onnx's reference."""
    feeds = {value.name: np.asarray(arrays[value.name]) for value in model.graph.input}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except ORT_ERRORS:
        with np.errstate(all="ignore"):
            (y,) = ReferenceEvaluator(model).run(None, feeds)
            return y
    return float8.run(session, ["y"], feeds)[0] if float8.has_float8(session) else session.run(None, feeds)[0]


def network_of(op: str, arrays: Arrays, y: Any, constants: Sequence[str] = (), **attributes: Any) -> Network:
    """Return the network of one op, whose output is an array like `y`."""
    given = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
    tensors = {name: Tensor(name, str(array.dtype), array.shape) for name, array in (given | {"y": y}).items()}
    layer = Layer("one", op, tuple(_names(arrays)), ("y",), attributes)
    held = {name: given[name] for name in constants}
    return Network(tuple(name for name in given if name not in held), ("y",), (layer,), tensors, held)


def evaluated(network: Network, arrays: Arrays) -> Any:
    """Return the only output, by the oracles of the kernels. Raise AssertionError where a layer has none."""
    fused, served, why_not = fuse(network, {})
    assert not why_not, why_not
    values = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
    for layer in fused.layers:
        one = served[layer.name]
        assert isinstance(one, Expressed)
        kernel = one.kernel(one.lasts)
        held = dict(one.constants) | values
        operands = tuple(np.concatenate([np.reshape(held[name], -1) for name in names]) for names in kernel.tensors)
        (made,) = compute(kernel.problem, Sample(operands))
        values[one.y] = _in_order(made, kernel)
    return values[network.outputs[0]]


def _in_order(made: Any, kernel: Kernel) -> Any:
    """Return an output as a tensor whose channels are the second axis."""
    if not kernel.is_last:
        return made.reshape(kernel.y_shape)
    n, channels, *rest = kernel.y_shape
    return np.moveaxis(made.reshape(n, *rest, channels), -1, 1)


def computed(op: str, arrays: Arrays, y: Any, constants: Sequence[str] = (), **attributes: Any) -> Any:
    """Return the output of one op, whose output is an array like `y`."""
    return evaluated(network_of(op, arrays, y, constants, **attributes), arrays)
