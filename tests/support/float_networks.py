"""Small networks of floats, each as a model and as its reference: the same model with a Cast to the narrow type and
back wherever a session with `floats` rounds. Numbers are whole multiples of a power of two, so that sums are exact in
any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

NARROW = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
OPSETS = {"": 17, "com.microsoft": 1}
CPU_ONLY = ["CPUExecutionProvider"]


class FloatNetwork:
    """A sequence of nodes: each method returns the name of its output. `narrow` is the type of a reference, None for
    the model itself."""

    def __init__(self, narrow: str | None = None, seed: int = 3) -> None:
        self.narrow, self.rng = narrow, np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.held: list[Any] = []
        self.fed: dict[str, Any] = {}
        self._count = 0

    def input(self, *shape: int) -> str:
        name = f"x{len(self.fed)}"
        self.fed[name] = self.rng.integers(-3, 4, shape).astype(np.float32)
        return name

    def constant(self, array: Any) -> str:
        name = f"c{len(self.held)}"
        self.held.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, *shape: int) -> str:
        return self.constant((self.rng.integers(-3, 4, shape) / 8).astype(np.float32))

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op.lower()}{self._count}"
        self._count += 1
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def rounded(self, x: str) -> str:
        """Return the tensor as a kernel of the narrow type reads or writes it."""
        if self.narrow is None:
            return x
        there, back = f"{x}_{len(self.nodes)}", f"{x}_{len(self.nodes)}_back"
        self.nodes.append(helper.make_node("Cast", [x], [there], to=NARROW[self.narrow]))
        self.nodes.append(helper.make_node("Cast", [there], [back], to=TensorProto.FLOAT))
        return back

    def conv(self, x: str, c: int, k: int, *taps: int, groups: int = 1, bias: bool = True, **attributes: Any) -> str:
        """Add a convolution, whose output is not rounded yet: what is folded into it may follow."""
        pads = {"pads": [size // 2 for size in taps] * 2} if "auto_pad" not in attributes else {}
        given = [self.rounded(x), self.weights(k, c // groups, *taps), *([self.weights(k)] if bias else [])]
        return self.node("Conv", *given, kernel_shape=list(taps), group=groups, **pads, **attributes)

    def made(self, *outputs: str) -> onnx.ModelProto:
        given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in self.fed.items()]
        shown = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "floats", given, shown, self.held)
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(domain, version) for domain, version in OPSETS.items()],
            ir_version=9,
        )


Network = Callable[[FloatNetwork], Sequence[str]]


def by_onnxruntime(model: onnx.ModelProto, fed: dict[str, Any]) -> list[Any]:
    return list(onnxruntime.InferenceSession(model.SerializeToString(), providers=CPU_ONLY).run(None, fed))


def residual(net: FloatNetwork) -> Sequence[str]:
    """Two layers with a sum behind the second, and what is left over as an expression."""
    x = net.input(2, 8, 9, 7)
    first = net.rounded(net.node("Relu", net.conv(x, 8, 16, 3, 3)))
    total = net.node("Add", net.conv(first, 16, 16, 3, 3), net.rounded(first))
    last = net.rounded(net.node("LeakyRelu", total, alpha=0.25))
    pooled = net.node("MaxPool", last, kernel_shape=[2, 2], strides=[2, 2])
    return [net.rounded(net.conv(pooled, 16, 8, 1, 1)), net.node("Neg", last)]


def grouped(net: FloatNetwork) -> Sequence[str]:
    """A depthwise and a grouped layer, with strides, dilations and SAME padding."""
    x = net.input(1, 16, 11, 12)
    low, high = net.constant(np.float32(0)), net.constant(np.float32(6))
    depthwise = net.conv(x, 16, 16, 3, 3, groups=16, strides=[2, 1], dilations=[1, 2])
    clipped = net.rounded(net.node("Clip", depthwise, low, high))
    made = net.conv(clipped, 16, 8, 3, 3, groups=4, bias=False, strides=[1, 2], auto_pad="SAME_UPPER")
    return [net.rounded(net.node("Clip", made, net.constant(np.float32(-2.5)), high))]


def rows(net: FloatNetwork) -> Sequence[str]:
    """Convolutions of rows, then products of their pixels."""
    x = net.input(2, 6, 20)
    made = net.rounded(net.node("Relu", net.conv(x, 6, 8, 5, strides=[2])))
    turned = net.node("Transpose", made, perm=[0, 2, 1])
    product = net.node("MatMul", net.rounded(turned), net.weights(8, 12))
    return [net.rounded(net.node("Add", product, net.weights(12)))]


def products(net: FloatNetwork) -> Sequence[str]:
    x = net.input(5, 24)
    first = net.node("Gemm", net.rounded(x), net.weights(16, 24), net.weights(16), transB=1, beta=0.5)
    relu = net.rounded(net.node("Relu", first))
    return [net.rounded(net.node("Gemm", net.rounded(relu), net.weights(16, 4), net.weights(1, 4)))]


def volumes(net: FloatNetwork) -> Sequence[str]:
    x = net.input(1, 4, 5, 6, 7)
    made = net.rounded(net.node("Relu", net.conv(x, 4, 8, 3, 3, 3, strides=[2, 1, 1])))
    return [net.rounded(net.conv(made, 8, 4, 1, 3, 3))]


def transposed(net: FloatNetwork) -> Sequence[str]:
    """Two transposed convolutions, by phases of a filter and by single pixels, and one of rows."""
    x = net.input(2, 8, 5, 6)
    given = [net.rounded(x), net.weights(8, 6, 3, 4), net.weights(12)]
    wide = net.node("ConvTranspose", *given, strides=[2, 3], pads=[1, 0, 0, 1], output_padding=[1, 2], group=2)
    relu = net.rounded(net.node("Relu", wide))
    pixels = net.rounded(net.node("ConvTranspose", relu, net.weights(12, 4, 2, 2), strides=[2, 2]))
    biased = net.node("Add", pixels, net.constant(np.full((1, 4, 1, 1), 0.25, np.float32)))
    sequence = net.input(1, 8, 9)
    return [biased, net.rounded(net.node("ConvTranspose", net.rounded(sequence), net.weights(8, 4, 4), strides=[2]))]


NETWORKS: dict[str, Network] = {
    "residual": residual,
    "grouped": grouped,
    "rows": rows,
    "products": products,
    "volumes": volumes,
    "transposed": transposed,
}
