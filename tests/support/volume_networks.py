"""Small networks of videos and of volumes with seeded weights: what r3d_18, r2plus1d_18 and a 3-D U-Net consist of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from quantized_networks import CHANNELS, CLASSES, Builder

FRAMES, EXTENT = 4, 8


def triple(number: int | Sequence[int]) -> list[int]:
    return [number] * 3 if isinstance(number, int) else list(number)


class VolumeBuilder(Builder):
    """A sequence of nodes of tensors with the axes N, C, D, H, W."""

    def volume(
        self, x: str, c: int, k: int, size: int | Sequence[int] = 3, stride: int | Sequence[int] = 1, groups: int = 1
    ) -> str:
        sizes = triple(size)
        pads = [each // 2 for each in sizes] * 2
        window = {"kernel_shape": sizes, "strides": triple(stride), "pads": pads, "group": groups}
        return self.node("Conv", x, self.weights(k, c // groups, *sizes), self.weights(k), **window)

    def pool(self, op: str, x: str, size: int | Sequence[int], stride: int | Sequence[int], pads: int = 0) -> str:
        return self.node(op, x, kernel_shape=triple(size), strides=triple(stride), pads=[pads] * 6)

    def of_volumes(self, y: str, made: Sequence[Any]) -> Any:
        shown = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, FRAMES, EXTENT, EXTENT])
        given = helper.make_tensor_value_info(y, TensorProto.FLOAT, made)
        graph = helper.make_graph(self.nodes, "network", [shown], [given], self.held)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def classes(self, x: str, c: int) -> Any:
        flat = self.node("Flatten", self.node("GlobalAveragePool", x))
        return self.of_volumes(self.node("Gemm", flat, self.weights(c, CLASSES), self.weights(CLASSES)), ["N", CLASSES])


def r3d_like(seed: int = 10) -> Any:
    """A stem of 3x7x7, a block of dense filters, and one that halves every axis."""
    b, c = VolumeBuilder(seed), CHANNELS
    x = b.node("Relu", b.volume("x", 3, c, (3, 7, 7), (1, 2, 2)))
    y = b.volume(b.node("Relu", b.volume(x, c, c)), c, c)
    x = b.node("Relu", b.node("Add", y, x))
    y = b.volume(b.node("Relu", b.volume(x, c, 2 * c, stride=2)), 2 * c, 2 * c)
    x = b.node("Relu", b.node("Add", y, b.volume(x, c, 2 * c, 1, 2)))
    return b.classes(x, 2 * c)


def r2plus1d_like(seed: int = 11) -> Any:
    """Filters of space and of time behind each other, also where an axis is halved."""
    b, c = VolumeBuilder(seed), CHANNELS

    def factored(x: str, c: int, k: int, stride: int = 1) -> str:
        middle = k + 4
        x = b.node("Relu", b.volume(x, c, middle, (1, 3, 3), (1, stride, stride)))
        return b.volume(x, middle, k, (3, 1, 1), (stride, 1, 1))

    x = b.node("Relu", b.volume("x", 3, 12, (1, 7, 7), (1, 2, 2)))
    x = b.node("Relu", b.volume(x, 12, c, (3, 1, 1)))
    x = b.node("Relu", b.node("Add", factored(b.node("Relu", factored(x, c, c)), c, c), x))
    y = factored(b.node("Relu", factored(x, c, 2 * c, 2)), 2 * c, 2 * c)
    x = b.node("Relu", b.node("Add", y, b.volume(x, c, 2 * c, 1, 2)))
    return b.classes(x, 2 * c)


def unet_like(seed: int = 12) -> Any:
    """Two levels of pairs of dense filters with max pools between, grown again by repeated voxels and concatenated."""
    b, c = VolumeBuilder(seed), CHANNELS

    def pair(x: str, c: int, k: int) -> str:
        return b.node("Relu", b.volume(b.node("Relu", b.volume(x, c, k)), k, k))

    fine = pair("x", 3, c)
    coarse = pair(b.pool("MaxPool", fine, 2, 2), c, 2 * c)
    b.held.append(numpy_helper.from_array(np.asarray([1, 1, 2, 2, 2], np.float32), "scales"))
    grown = b.node("Resize", coarse, "", "scales", mode="nearest", coordinate_transformation_mode="asymmetric",
                   nearest_mode="floor")  # fmt: skip
    x = pair(b.node("Concat", fine, grown, axis=1), 3 * c, c)
    return b.of_volumes(b.volume(x, c, 2, 1), ["N", 2, FRAMES, EXTENT, EXTENT])


NETWORKS: dict[str, Callable[[], Any]] = {"r3d": r3d_like, "r2plus1d": r2plus1d_like, "unet": unet_like}


def videos(count: int, seed: int) -> Any:
    """Return random inputs of these networks."""
    return np.random.default_rng(seed).standard_normal((count, 3, FRAMES, EXTENT, EXTENT)).astype(np.float32)
