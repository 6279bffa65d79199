"""Models whose layers are expressions, computed exactly in NumPy: without a compiler, so that many cases are quick."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from qconv.expression.function import COMPUTED
from qconv.network import one_output_each
from qconv.network.expressions.expressed import Expressed
from qconv.network.expressions.fuse import fuse
from qconv.onnx import Session
from qconv.onnx.model import read
from qconv.op import Sample
from qconv.ops import registry


def model_of_nodes(nodes: list[Any], feeds: dict[str, Any], constants: dict[str, Any], opset: int = 18) -> Any:
    """Return a model that takes the feeds, and returns the last node's outputs."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in feeds.items()}
    graph = helper.make_graph(
        nodes,
        "nodes",
        [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in feeds.items()],
        [onnx.ValueInfoProto(name=name) for name in nodes[-1].output],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    inferred = onnx.shape_inference.infer_shapes(made)
    for output in made.graph.output:
        (known,) = (each for each in inferred.graph.output if each.name == output.name)
        kind = known.type.tensor_type.elem_type or next(iter(kinds.values()))
        output.CopyFrom(helper.make_tensor_value_info(output.name, kind, None))
    return made


def fused(model: Any) -> tuple[list[Expressed], dict[str, str], dict[str, Any]]:
    """Return the expressions of a model, the reasons of layers that are none, and its constants."""
    network = one_output_each(read(model, {}).network, COMPUTED).without_unread()
    made, served, why_not = fuse(network, {})
    found = [served[layer.name] for layer in made.layers if layer.name in served]
    assert all(isinstance(one, Expressed) for one in found)
    return found, why_not, dict(network.constants)  # type: ignore[return-value]


def keys_of(model: Any) -> list[str]:
    """Return the keys of the problems of a model's expressions."""
    return [one.kernel(one.lasts).problem.key for one in fused(model)[0]]


def evaluated(model: Any, feeds: dict[str, Any]) -> list[Any]:
    """Return the outputs of a model, all of whose layers are expressions."""
    found, why_not, constants = fused(model)
    assert not why_not
    values = constants | feeds
    for one in found:
        kernel = one.kernel(one.lasts)
        arrays = [
            np.concatenate([np.reshape(one.constants[n] if n in one.constants else values[n], -1) for n in names])
            for names in kernel.tensors
        ]
        (y,) = registry.compute(kernel.problem, Sample(tuple(each.reshape(-1) for each in arrays)))
        shape = kernel.y_shape if not kernel.is_last else (kernel.y_shape[0], *kernel.y_shape[2:], kernel.y_shape[1])
        y = y.reshape(shape)
        values[one.y] = np.moveaxis(y, -1, 1) if kernel.is_last else y
    return [values[output.name] for output in model.graph.output]


def one_op(op: str, x: Any, *constants: Any, outputs: int = 1, opset: int = 18, **attributes: Any) -> Any:
    """Return the model of one op of x and of constants; None stands for an absent one."""
    held = {f"c{at}": np.asarray(one) for at, one in enumerate(constants) if one is not None}
    names = ["x", *("" if one is None else f"c{at}" for at, one in enumerate(constants))]
    node = helper.make_node(op, names, [f"y{at}" for at in range(outputs)], **attributes)
    return model_of_nodes([node], {"x": x}, held, opset)


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """Return integers of the whole range, bools or floats."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def by_onnxruntime(model: Any, feeds: dict[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def assert_as_onnxruntime(model: Any, feeds: dict[str, Any], ulps: int = 0) -> None:
    """Check that all layers are expressions, and that their results are ONNX Runtime's or at most `ulps` of the
    largest number from them."""
    for got, wanted in zip(evaluated(model, feeds), by_onnxruntime(model, feeds), strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        if ulps:
            # Sums of numbers of both signs have the error of their largest terms.
            largest = max(np.abs(each.astype(np.float64)).max() for each in (wanted, *feeds.values()))
            np.testing.assert_allclose(got, wanted, rtol=0, atol=ulps * np.spacing(wanted.dtype.type(largest)))
        else:
            np.testing.assert_array_equal(got, wanted)


def runs_here(model: Any, feeds: dict[str, Any]) -> None:
    """Check that a session on the CPU device has the bits of the expressions, and leaves no layer to ONNX Runtime."""
    session = Session(model, device="cpu")
    for got, wanted in zip(session.run(None, feeds), evaluated(model, feeds), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert not session.explain().fallen_back
