"""Random models in which float layers surround quantized convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper
from unusual_models import Made

# All processors with blocked layouts block 16 and 32 channels; other counts may be left unblocked.
CHANNELS = (16, 16, 16, 16, 32, 24, 8)
SIZES = (2, 16, 8, 6)
Shape = tuple[int, int, int, int]


class Islands:
    """Draws layers one by one, each reading existing tensors."""

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._held: dict[str, Any] = {}
        self._shapes: dict[str, Shape] = {"x": SIZES}  # of the float tensors

    def made(self, rounds: int) -> Made:
        """Build a model of `rounds` rounds: a float convolution after a quantized one, and an op that joins it with
        floats from before the quantized one."""
        for _ in range(rounds):
            self._conv(self._any())
            y = self._conv(self._quantized(self._any()))
            y = self._one_of(self._joined, self._added, self._added)(y)
            for _ in range(self._draw.integers(3)):
                y = self._one_of(self._pooled, self._activated, self._activated, self._resized, self._conv)(y)
        read = {name for node in self._nodes for name in node.input}
        left = [name for name in self._shapes if name not in read]
        # A sum over channels rounds differently if its pixels are not contiguous.
        outputs = [self._averaged(name) for name in left]
        feeds = {"x": self._draw.standard_normal(SIZES).astype(np.float32)}
        return Made(self._nodes, feeds, self._held, tuple(outputs + left))

    def _one_of(self, *choices: Any) -> Any:
        return choices[self._draw.integers(len(choices))]

    def _add(self, op: str, inputs: list[str], shape: Shape, **attributes: Any) -> str:
        y = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [y], **attributes))
        self._shapes[y] = shape
        return y

    def _hold(self, array: Any) -> str:
        name = f"h{len(self._held)}"
        self._held[name] = array
        return name

    def _any(self, *shape: int | None) -> str:
        """Return a tensor whose shape matches."""

        def fits(own: Shape) -> bool:
            return all(wanted in (None, size) for wanted, size in zip(shape, own, strict=False))

        return str(self._draw.choice([name for name, own in self._shapes.items() if fits(own)]))

    def _conv(self, x: str) -> str:
        n, c, h, w = self._shapes[x]
        k, size = self._one_of(*CHANNELS), self._one_of(1, 3)
        k, groups = (c, c) if self._draw.random() < 0.1 else (k, 1)
        filters = (k, c // groups, size, size)
        weights = (self._draw.standard_normal(filters) / np.sqrt(np.prod(filters[1:]))).astype(np.float32)
        inputs = [x, self._hold(weights)]
        if self._draw.random() < 0.5:
            inputs.append(self._hold(self._draw.standard_normal(k).astype(np.float32)))
        return self._add("Conv", inputs, (n, k, h, w), pads=[size // 2] * 4, group=groups)

    def _joined(self, a: str) -> str:
        n, c, h, w = self._shapes[a]
        b = self._any(n, None, h, w)
        return self._add("Concat", [a, b], (n, c + self._shapes[b][1], h, w), axis=1)

    def _added(self, a: str) -> str:
        both = [a, self._any(*self._shapes[a])]
        return self._add(self._one_of("Add", "Add", "Mul"), both[:: self._one_of(1, -1)], self._shapes[a])

    def _activated(self, x: str) -> str:
        return self._add(self._one_of("Relu", "Relu", "Sigmoid", "Tanh"), [x], self._shapes[x])

    def _pooled(self, x: str) -> str:
        n, c, h, w = self._shapes[x]
        stride = self._one_of(1, 2)
        sizes = (n, c, (h - 1) // stride + 1, (w - 1) // stride + 1)
        op = self._one_of("MaxPool", "AveragePool")
        return self._add(op, [x], sizes, kernel_shape=[3, 3], pads=[1] * 4, strides=[stride] * 2)

    def _resized(self, x: str) -> str:
        n, c, h, w = self._shapes[x]
        scales = self._hold(np.array([1, 1, 2, 2], np.float32))
        how = self._one_of({"mode": "linear"}, {"mode": "nearest", "nearest_mode": "floor"})
        coordinates = "half_pixel" if how["mode"] == "linear" else "asymmetric"
        made: Shape = (n, c, 2 * h, 2 * w)
        return self._add("Resize", [x, "", scales], made, coordinate_transformation_mode=coordinates, **how)

    def _averaged(self, x: str) -> str:
        n, c, _, _ = self._shapes[x]
        return self._add("GlobalAveragePool", [x], (n, c, 1, 1))

    def _quantized(self, x: str) -> str:
        n, c, h, w = shape = self._shapes[x]
        k = self._one_of(*CHANNELS)
        x_s, w_s, y_s = (self._hold(np.float32(scale)) for scale in (0.05, 0.01, 0.1))
        x_z, w_z, y_z = self._hold(np.uint8(120)), self._hold(np.int8(0)), self._hold(np.uint8(100))
        numbers = [x_s, x_z, self._hold(self._draw.integers(-64, 64, (k, c, 3, 3)).astype("int8")), w_s, w_z, y_s, y_z]
        q = self._add("QuantizeLinear", [x, x_s, x_z], shape)
        y = self._add("QLinearConv", [q, *numbers], (n, k, h, w), pads=[1] * 4)
        del self._shapes[q], self._shapes[y]  # bytes, which only the next layer reads
        return self._add("DequantizeLinear", [y, y_s, y_z], (n, k, h, w))
