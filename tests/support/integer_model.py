"""Models of integer layers only, built node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
from one_node import whole_range
from onnx import helper, numpy_helper

Linear = tuple[float, int]


class Model:
    """A sequence of integer layers, with the network's tensors by name."""

    def __init__(self, dtype: str = "uint8", seed: int = 0) -> None:
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        self.nodes: list[Any] = []
        self.held: list[Any] = []
        self.fed: dict[str, Any] = {}
        self.open_shapes: dict[str, list[Any]] = {}

    def constant(self, array: Any) -> str:
        self.held.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.held)}"))
        return str(self.held[-1].name)

    def input(self, *shape: int, open_shape: list[Any] | None = None) -> str:
        name = f"x{len(self.fed)}"
        self.fed[name] = whole_range(self.rng, self.dtype, shape)
        self.open_shapes[name] = list(shape) if open_shape is None else open_shape
        return name

    def numbers(self, of: Linear | None = None) -> tuple[str, str]:
        scale, zero = of or (self.rng.uniform(0.02, 0.2), int(whole_range(self.rng, self.dtype, ())))
        return self.constant(np.float32(scale)), self.constant(np.asarray(zero, self.dtype))

    def conv(self, x: str, c: int, k: int, x_is: Any, y_is: Any, size: int = 1, w: Any = None) -> str:
        """Add a convolution of uint8 by uint8 or int8 by int8, which every processor sums exactly."""
        w = whole_range(self.rng, self.dtype, (k, c, size, size)) if w is None else w
        w_is = self.constant(np.float32(0.004 if w.size > 1 else 1.0)), self.constant(np.zeros((), self.dtype))
        read = [x, *x_is, self.constant(w), *w_is, *y_is]
        return self.node("QLinearConv", read, kernel_shape=[size] * 2, pads=[size // 2] * 4)

    def depthwise(self, x: str, c: int, x_is: Any, y_is: Any, size: int) -> str:
        w_is = self.constant(np.float32(0.01)), self.constant(np.zeros((), self.dtype))
        read = [x, *x_is, self.constant(whole_range(self.rng, self.dtype, (c, 1, size, size))), *w_is, *y_is]
        return self.node("QLinearConv", read, kernel_shape=[size] * 2, pads=[size // 2] * 4, group=c)

    def add(self, a: str, a_is: Any, b: str, b_is: Any, y_is: Any) -> str:
        return self.node("QLinearAdd", [a, *a_is, b, *b_is, *y_is], domain="com.microsoft")

    def node(self, op: str, read: list[str], domain: str = "", **attributes: Any) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, read, [name], name=name, domain=domain, **attributes))
        return name

    def made(self, *outputs: str) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        given = [helper.make_tensor_value_info(name, kind, self.open_shapes[name]) for name in self.fed]
        shown = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "sums", given, shown, self.held)
        domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=9)
