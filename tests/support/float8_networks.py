"""Small networks of 8-bit floats or bytes between DequantizeLinear and QuantizeLinear, and their outputs by onnx's
reference. Scales are powers of two and numbers whole, so that sums are exact in any order."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"
KINDS = {
    E4M3: TensorProto.FLOAT8E4M3FN,
    E5M2: TensorProto.FLOAT8E5M2,
    "float32": TensorProto.FLOAT,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
}


def numpy_of(dtype: str) -> Any:
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


class Float8Network:
    """A sequence of nodes: each method returns the name of its output. Bytes have a zero point, weights do not."""

    def __init__(self, dtype: str = E4M3, seed: int = 5, zero: int = 0, most: int = 3) -> None:
        self.dtype, self.zero, self.most, self.rng = dtype, zero, most, np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.held: list[Any] = []
        self.fed: dict[str, Any] = {}

    def input(self, *shape: int) -> str:
        name = f"x{len(self.fed)}"
        self.fed[name] = (self.numbers(*shape) + self.zero).astype(numpy_of(self.dtype))
        return name

    def whole(self, *shape: int, dtype: str = "") -> Any:
        return self.numbers(*shape).astype(numpy_of(dtype or self.dtype))

    def numbers(self, *shape: int) -> Any:
        return self.rng.integers(-self.most, self.most + 1, shape)

    def constant(self, array: Any) -> str:
        name = f"c{len(self.held)}"
        dtype = str(array.dtype)
        if dtype in (E4M3, E5M2):
            self.held.append(helper.make_tensor(name, KINDS[dtype], array.shape, array.tobytes(), raw=True))
        else:
            self.held.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def powers(self, *shape: int) -> Any:
        return np.exp2(-self.rng.integers(1, 4, shape)).astype(np.float32)

    def wide(self, x: str, scale: float = 0.5, dtype: str = "") -> str:
        zero = self.constant(np.asarray(self.zero, numpy_of(dtype or self.dtype)))
        return self.node("DequantizeLinear", x, self.constant(np.float32(scale)), zero)

    def narrow(self, x: str, scale: float = 4.0, **attributes: Any) -> str:
        zero = self.constant(np.asarray(self.zero, numpy_of(self.dtype)))
        return self.node("QuantizeLinear", x, self.constant(np.float32(scale)), zero, **attributes)

    def weights(self, *shape: int, axis: int | None = 0, dtype: str = "") -> str:
        """Return dequantized weights, with a scale for each element of an axis, or one."""
        w = self.whole(*shape, dtype=dtype)
        scales = self.powers(*(() if axis is None else shape[axis : axis + 1]))
        zero = self.constant(np.zeros(scales.shape, w.dtype))
        given = {} if axis is None else {"axis": axis}
        return self.node("DequantizeLinear", self.constant(w), self.constant(scales), zero, **given)

    def bias(self, k: int) -> str:
        return self.constant(self.numbers(k).astype(np.float32))

    def made(self, *outputs: str) -> onnx.ModelProto:
        kinds = KINDS[self.dtype]
        given = [helper.make_tensor_value_info(name, kinds, x.shape) for name, x in self.fed.items()]
        are_narrow = [name.startswith("quantizelinear") for name in outputs]
        shown = [
            helper.make_tensor_value_info(name, kinds if is_narrow else TensorProto.FLOAT, None)
            for name, is_narrow in zip(outputs, are_narrow, strict=True)
        ]
        graph = helper.make_graph(self.nodes, "floats of 8 bits", given, shown, self.held)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def by_reference(model: onnx.ModelProto, fed: dict[str, Any]) -> list[Any]:
    return list(ReferenceEvaluator(model).run(None, fed))
