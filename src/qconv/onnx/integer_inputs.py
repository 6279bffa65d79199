"""Models whose inputs are integers: a quarter of the bytes to the device, and one kernel less."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from qconv.integer_input import IntegerInput
from qconv.onnx.graph import STANDARD
from qconv.onnx.model import loaded, read_by, source_of
from qconv.onnx.node import BYTES


def with_integer_inputs(
    model: onnx.ModelProto | bytes | str | Path,
) -> tuple[onnx.ModelProto, dict[str, IntegerInput]]:
    """Return the model without the QuantizeLinear behind its inputs, and the inputs that are integers now, by name.
    Inputs with other readers, and inputs quantized per channel, stay as they are."""
    changed = loaded(source_of(model))
    graph = changed.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    reads = [(node, *read_by(node)) for node in graph.node]
    found: dict[str, IntegerInput] = {}
    reasons: list[str] = []
    for value in graph.input:
        if value.name in constants:
            continue
        readers = [node for node, *names in reads if value.name in names]
        given = _quantized(readers, value.name, constants)
        if isinstance(given, str):
            reasons.append(given)
            continue
        (node,) = readers
        # The output keeps its name for its readers, or as an output of the model.
        node.CopyFrom(helper.make_node("Identity", [value.name], list(node.output), name=node.name))
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(given.dtype))
        found[value.name] = given
    if not found:
        raise ValueError(f"no input can take integers: {'; '.join(reasons) or 'the model has no inputs'}")
    return changed, found


def _quantized(
    readers: list[onnx.NodeProto], name: str, constants: Mapping[str, onnx.TensorProto]
) -> IntegerInput | str:
    """Return the quantization that the only reader of an input applies, or why the input must stay."""
    others = [node for node in readers if node.op_type != "QuantizeLinear" or node.domain not in STANDARD]
    if others or len(readers) != 1:
        read = f"{others[0].op_type} ({others[0].name})" if others else f"{len(readers)} QuantizeLinear"
        return f"{name!r} is read by {read}, where one QuantizeLinear alone should read it"
    (node,) = readers
    numbers = [constants.get(each) for each in node.input[1:] if each]
    if None in numbers:
        return f"the scale or the zero point of {name!r} is no constant"
    scale, *zero_point = [numpy_helper.to_array(each) for each in numbers if each is not None]
    dtype = str(zero_point[0].dtype) if zero_point else _dtype_of(node)
    if scale.size != 1 or dtype not in BYTES:
        return f"{name!r} is quantized to {dtype} with {scale.size} scales; {' or '.join(BYTES)} with one is supported"
    return IntegerInput(dtype, float(scale.reshape(())), _integer(zero_point))


def _dtype_of(node: onnx.NodeProto) -> str:
    """Return the output type of a QuantizeLinear without a zero point."""
    stated: Any = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}.get("output_dtype", 0)
    return str(helper.tensor_dtype_to_np_dtype(stated)) if stated else "uint8"


def _integer(zero_point: list[NDArray[Any]]) -> int:
    return int(zero_point[0].reshape(())) if zero_point else 0
