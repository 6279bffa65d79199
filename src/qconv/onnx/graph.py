"""A model for the backend: its nodes in order, its constants and its inputs. Anything else is rejected by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from qconv.onnx.convolution import ConvInteger, QLinearConv
from qconv.onnx.linear import DequantizeLinear, DynamicQuantizeLinear, QuantizeLinear
from qconv.onnx.node import Node
from qconv.onnx.options import check_inputs
from qconv.onnx.tensor import TYPE_NAMES, Known, Unsupported, type_name

OPS: dict[str, type[Node]] = {
    op.__name__: op for op in (QLinearConv, ConvInteger, QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear)
}
STANDARD = ("", "ai.onnx")
# The attributes in which a Constant may hold its value, with the type if the attribute does not imply it.
_CONSTANTS: dict[str, str | None] = {"value": None, "value_float": "float32", "value_floats": "float32"}


class Graph:
    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        for node in graph.node:
            check_op(node)
        newest = onnx.defs.onnx_opset_version()
        for opset in model.opset_import:
            if opset.domain in STANDARD and opset.version > newest:
                raise Unsupported(
                    f"the model is of opset {opset.version}; onnx {onnx.__version__} knows up to {newest}: update onnx"
                )
        if graph.sparse_initializer:
            raise Unsupported(f"the initializer {graph.sparse_initializer[0].values.name!r} is sparse; make it dense")
        for tensor in graph.initializer:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                raise Unsupported(f"the initializer {tensor.name!r} is in another file: onnx.load(path) reads it in")
        try:
            onnx.checker.check_model(model)
        except onnx.checker.ValidationError as error:
            raise Unsupported(f"onnx {onnx.__version__} does not take it for a valid model: {error}") from None
        self.constants: dict[str, NDArray[Any]] = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer
        }
        known = {tensor.name: Known(type_name(tensor.data_type), len(tensor.dims)) for tensor in graph.initializer}
        self._inputs = {value.name: value for value in graph.input}
        known |= {name: _declared(value) for name, value in self._inputs.items()}
        self.nodes: list[Node] = []
        for proto in graph.node:
            if proto.op_type == "Constant":
                array = _constant(proto)
                self.constants[proto.output[0]] = array
                known[proto.output[0]] = Known(str(array.dtype), array.ndim)
                continue
            node = OPS[proto.op_type](proto, [known[name] if name else None for name in proto.input])
            self.nodes.append(node)
            known |= dict(zip(node.outputs, node.results, strict=False))
        self.outputs = [value.name for value in graph.output]

    def checked_inputs(self, inputs: Sequence[Any] | Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """Return the inputs by name. Inputs with an initializer may be omitted: all of them, or individual ones by
        name."""
        required = [name for name in self._inputs if name not in self.constants]
        if isinstance(inputs, Mapping):
            given = dict(inputs)
        else:
            names = list(self._inputs) if len(inputs) == len(self._inputs) else required
            if len(inputs) != len(names):
                raise ValueError(f"{len(inputs)} inputs were given; the model takes {len(names)}: {', '.join(names)}")
            given = dict(zip(names, inputs, strict=True))
        check_inputs(given, required, self._inputs)
        arrays = {name: np.asarray(array) for name, array in given.items()}
        for name, array in arrays.items():
            self._check(name, array)
        return arrays

    def _check(self, name: str, array: NDArray[Any]) -> None:
        declared = self._inputs[name].type.tensor_type
        if str(array.dtype) != type_name(declared.elem_type):
            raise ValueError(f"the input {name!r} is {array.dtype}; the model takes {type_name(declared.elem_type)}")
        if not declared.HasField("shape"):
            return
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in declared.shape.dim]
        fits = all(size in (None, extent) for size, extent in zip(sizes, array.shape, strict=False))
        if array.ndim != len(sizes) or not fits:
            shown = ", ".join("?" if size is None else str(size) for size in sizes)
            raise ValueError(f"the input {name!r} has shape {array.shape}; the model takes ({shown})")


def check_op(node: onnx.NodeProto) -> None:
    if node.domain not in STANDARD or node.op_type not in (*OPS, "Constant"):
        named = node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
        raise Unsupported(f"the op {named} is not supported; this backend runs {', '.join(OPS)}, and Constant")


def read_node(proto: onnx.NodeProto, arrays: Sequence[NDArray[Any] | None]) -> Node:
    """Return a single node, for the inputs that it will receive."""
    check_op(proto)
    if proto.op_type == "Constant":
        raise Unsupported("a single Constant node is not run; it is supported within a model")
    return OPS[proto.op_type](
        proto, [None if array is None else Known(str(array.dtype), array.ndim) for array in arrays]
    )


def _declared(value: onnx.ValueInfoProto) -> Known:
    if not value.type.HasField("tensor_type"):
        raise Unsupported(f"the input {value.name!r} is a {value.type.WhichOneof('value')}; supported are tensors")
    tensor = value.type.tensor_type
    if tensor.elem_type not in TYPE_NAMES:
        known = ", ".join(TYPE_NAMES.values())
        raise Unsupported(f"the input {value.name!r} is {type_name(tensor.elem_type)}; supported are {known}")
    return Known(type_name(tensor.elem_type), len(tensor.shape.dim) if tensor.HasField("shape") else None)


def _constant(proto: onnx.NodeProto) -> NDArray[Any]:
    (attribute,) = proto.attribute
    if attribute.name not in _CONSTANTS:
        raise Unsupported(f"a Constant has {attribute.name!r}; supported are {', '.join(_CONSTANTS)}")
    value = helper.get_attribute_value(attribute)
    dtype = _CONSTANTS[attribute.name]
    return numpy_helper.to_array(value) if dtype is None else np.asarray(value, dtype)
