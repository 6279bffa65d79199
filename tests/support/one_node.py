"""Models of one quantized op with random numbers, and sessions on them compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import quantized_networks as networks
from onnx import helper, numpy_helper
from session_comparison import assert_equal

from qconv.onnx import Session

Operand = tuple[Any, Any, Any]  # the tensor, its scale and its zero point; None for an absent zero point


def whole_range(rng: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def drawn(rng: Any, dtype: str, shape: tuple[int, ...]) -> Operand:
    return whole_range(rng, dtype, shape), np.float32(rng.uniform(0.01, 0.1)), whole_range(rng, dtype, ())


def model_of(op: str, operands: list[Operand], y: Operand, **attributes: Any) -> tuple[Any, dict[str, Any]]:
    """Return the model of one op of com.microsoft, and its inputs. The array in `y` is ignored."""
    arrays: dict[str, Any] = {}
    for number, (x, scale, zero) in enumerate([*operands, y]):
        arrays |= {f"x{number}": x} if number < len(operands) else {}
        arrays |= {f"s{number}": scale, f"z{number}": zero}
    fed = [f"x{number}" for number in range(len(operands))]
    return node_of(op, arrays, fed, domain="com.microsoft", **attributes)


def node_of(
    op: str, arrays: dict[str, Any], fed: Sequence[str] = ("x",), domain: str = "", outputs: int = 1, **attributes: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the model of one op, and its inputs. `arrays` are its inputs in order; those that are not `fed` are
    constants, and None stands for an absent one."""
    names = ["" if array is None else name for name, array in arrays.items()]
    made = ["y", *(f"y{number}" for number in range(1, outputs))]
    node = helper.make_node(op, names, made, domain=domain, **attributes)
    feeds = {name: arrays[name] for name in fed}
    shown = [helper.make_tensor_value_info(name, _kind(array), array.shape) for name, array in feeds.items()]
    held = {name: array for name, array in arrays.items() if array is not None and name not in feeds}
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    results = [helper.make_tensor_value_info(name, _kind(feeds[fed[0]]), None) for name in made]
    graph = helper.make_graph([node], "one", shown, results, constants)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=9), feeds


def _kind(array: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def runs_on(model: Any, feeds: dict[str, Any], what: str) -> Any:
    """Return the row that says where the layer ran, after checking that its bits are ONNX Runtime's."""
    session = Session(model, "cpu")
    for got, wanted in zip(session.run(None, feeds), networks.by_ort(model, feeds), strict=True):
        assert_equal(got, wanted, what)
    return session.explain().rows[0]
