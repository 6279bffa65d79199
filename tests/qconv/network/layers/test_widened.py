"""Convolutions of pixels with zeros behind their channels: the bits of the layer as it is."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from one_node import node_of, runs_on, whole_range

from qconv import Conv2d, Quantization
from qconv.device import open_device
from qconv.expression.map import Map
from qconv.network import Layer, Network, Tensor, read_layer
from qconv.network.layers import copied
from qconv.network.layers.packed_convolution import PackedConvolution
from qconv.network.layers.widened import Widened
from qconv.ops import registry

BYTES = Quantization("uint8")


def layer(rng: Any, c: int, k: int, size: int) -> dict[str, Any]:
    return {
        "x": whole_range(rng, "uint8", (2, c, 6, 5)), "x_s": np.float32(0.02), "x_z": whole_range(rng, "uint8", ()),
        "w": rng.integers(-64, 64, (k, c, size, size)).astype(np.int8),
        "w_s": rng.uniform(0.005, 0.02, k).astype(np.float32), "w_z": np.zeros(k, np.int8),
        "y_s": np.float32(0.3), "y_z": whole_range(rng, "uint8", ()),
        "bias": rng.integers(-5000, 5000, k).astype(np.int32),
    }  # fmt: skip


@pytest.mark.parametrize(("c", "size"), [(17, 1), (22, 3), (45, 3), (36, 2)])
def test_its_outputs_are_those_of_onnx_runtime(c: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied, "UNSURE", 0.0)
    arrays = layer(np.random.default_rng(c), c, 24, size)
    row = runs_on(*node_of("QLinearConv", arrays, kernel_shape=(size, size), pads=[size // 2] * 4), f"{c} {size}")
    assert row.runs_on == "qconv"
    assert "zeros behind their channels" in row.why


def test_few_bytes_are_not_copied() -> None:
    assert Widened.of(Conv2d(1, 8, 8, 3, 16, 3, 3, quantization=BYTES)) is None


@pytest.mark.parametrize(
    ("problem", "channels"),
    [
        (Conv2d(1, 8, 8, 45, 16, 3, 3, quantization=BYTES), 48),
        (Conv2d(1, 8, 8, 45, 16, 1, 1, quantization=BYTES), 48),
        (Conv2d(1, 8, 8, 40, 16, 3, 1, quantization=BYTES), 48),
        (Conv2d(1, 8, 8, 12, 16, 3, 3, quantization=Quantization("float16", "float16", "float16")), 16),
        (Conv2d(1, 8, 8, 40, 16, 1, 1, quantization=BYTES), None),
        (Conv2d(1, 8, 8, 48, 16, 3, 3, quantization=BYTES), None),
        (Conv2d(1, 8, 8, 90, 16, 3, 3, groups=2, quantization=BYTES), None),
    ],
)
def test_which_pixels_are_copied(problem: Conv2d, channels: int | None) -> None:
    found = Widened.of(problem)
    assert (None if found is None else found.channels) == channels


def test_the_copy_writes_whole_chunks() -> None:
    made = Widened((2, 3, 5, 45), 48)
    problem = made.problem("int8")
    assert isinstance(problem, Map)
    assert (problem.shape, made.made) == ((30, 48), (2, 3, 5, 48))


def test_the_copy_reads_only_what_there_is() -> None:
    x = whole_range(np.random.default_rng(0), "int8", (3, 17))
    problem = Widened((1, 1, 3, 17), 32).problem("int8")
    (y,) = registry.compute(problem, registry.Sample((x.reshape(-1),)))
    assert np.array_equal(y, np.pad(x, ((0, 0), (0, 15))))


def of_weights(*shape: int) -> PackedConvolution:
    w = np.arange(prod(shape), dtype=np.int8).reshape(shape)
    layer = Layer("layer", "ConvInteger", ("x", "w"), ("y",), {"kernel_shape": shape[2:]})
    made = read_layer(layer, Network(("x",), ("y",), (layer,), {"x": Tensor("x", "int8")}, {"w": w}))
    assert isinstance(made, PackedConvolution)
    return made


def test_one_layer_reads_both() -> None:
    """Weights are kept for pixels as they are and for widened ones."""
    made, device = of_weights(2, 17, 1, 1), open_device("cpu")
    shapes = [made.weights_on(device, channels).shape for channels in (17, 32, 17)]
    assert shapes == [(2, 1, 1, 17), (2, 1, 1, 32), (2, 1, 1, 17)]


@pytest.mark.parametrize("channels", [4, 16])
def test_weights_are_uploaded_in_the_order_of_kernels(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One filter of one row, whose channels moved last are in Fortran's order: a GPU keeps the order of an array."""
    device = open_device("cpu")
    monkeypatch.setattr(device, "upload", lambda array: array)
    w = of_weights(1, 4, 1, 3).weights_on(device, channels)
    assert w.flags.c_contiguous
    assert w[0, 0, :, :4].tolist() == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
    assert not w[..., 4:].any()
