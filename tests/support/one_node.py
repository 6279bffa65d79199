"""Models of one quantized op with random numbers, and a session on them beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import quantized_networks as networks
from onnx import helper, numpy_helper
from session_comparison import assert_equal

from qconv.onnx import Session

Operand = tuple[Any, Any, Any]  # the tensor, its scale and its zero point; None for a zero point that is not there


def whole_range(rng: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def drawn(rng: Any, dtype: str, shape: tuple[int, ...]) -> Operand:
    return whole_range(rng, dtype, shape), np.float32(rng.uniform(0.01, 0.1)), whole_range(rng, dtype, ())


def model_of(op: str, operands: list[Operand], y: Operand, **attributes: Any) -> tuple[Any, dict[str, Any]]:
    """The model of one op of com.microsoft, and what it is to be fed. Of `y` the array is not looked at."""
    names, held, feeds, shown = [], {}, {}, []
    for number, (x, scale, zero) in enumerate([*operands, y]):
        is_input = number < len(operands)
        if is_input:
            feeds[f"x{number}"] = x
            kind = helper.np_dtype_to_tensor_dtype(x.dtype)
            shown.append(helper.make_tensor_value_info(f"x{number}", kind, x.shape))
        held[f"s{number}"] = scale
        if zero is not None:
            held[f"z{number}"] = zero
        names += [f"x{number}"] * is_input + [f"s{number}", "" if zero is None else f"z{number}"]
    node = helper.make_node(op, names, ["y"], domain="com.microsoft", **attributes)
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    kind = helper.np_dtype_to_tensor_dtype(operands[0][0].dtype)
    output = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([node], "one", shown, [output], constants)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=9), feeds


def runs_on(model: Any, feeds: dict[str, Any], what: str) -> Any:
    """The row that says where the one layer ran, once its bits were those of ONNX Runtime."""
    session = Session(model, "cpu")
    (got,) = session.run(None, feeds)
    assert_equal(got, networks.by_ort(model, feeds)[0], what)
    (row,) = session.explain().rows
    return row
