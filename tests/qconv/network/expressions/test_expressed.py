"""Expressions between convolutions, whose tensors have the channels last: what they read and write lies so as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from expressed_layers import by_onnxruntime, model_of_nodes
from onnx import helper

from qconv.network.expressions import partial
from qconv.onnx import Session

RNG = np.random.default_rng(71)
SHAPE = (2, 8, 6, 10)
X = RNG.integers(0, 256, SHAPE).astype(np.uint8)
NUMBERS: dict[str, Any] = {"s": np.float32(0.05), "z": np.uint8(120), "t": np.float32(0.03), "ws": np.float32(0.01)}
WEIGHTS = {"wz": np.int8(0), "w": RNG.integers(-50, 50, (8, 8, 1, 1)).astype(np.int8)}
# A sum with it is no function of a byte alone, which would be a table.
BIAS = RNG.uniform(-1, 1, (8, 1, 1)).astype(np.float32)
Given = tuple[str, list[str], dict[str, Any]]


def convolution(x: str, y: str, weights: str = "w") -> Any:
    return helper.make_node("QLinearConv", [x, "s", "z", weights, "ws", "wz", "s", "z"], [y])


def problems(given: list[Given], held: dict[str, Any], last: str = "w") -> list[str]:
    """Return the keys of the problems of layers between two convolutions, whose results are ONNX Runtime's."""
    nodes, name = [convolution("x", "x0")], "x0"
    for at, (op, inputs, attributes) in enumerate(given):
        nodes.append(helper.make_node(op, [name, *inputs], [f"x{at + 1}"], **attributes))
        name = f"x{at + 1}"
    model = model_of_nodes([*nodes, convolution(name, "y", last)], {"x": X}, NUMBERS | WEIGHTS | held, 21)
    session = Session(model, "cpu", strict=True)
    (got,), (want,) = session.run(None, {"x": X}), by_onnxruntime(model, {"x": X})
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
    first, *between, behind = [problem.key for problem in session.problems]
    assert first.startswith("conv2d")
    assert behind.startswith("conv2d")
    return between


def normalized_in_groups() -> list[str]:
    given: list[Given] = [
        ("DequantizeLinear", ["s", "z"], {}),
        ("Reshape", ["groups"], {}),
        ("InstanceNormalization", ["scale", "bias"], {}),
        ("Reshape", ["whole"], {}),
        ("QuantizeLinear", ["t", "z"], {}),
    ]
    held = {"groups": np.array([0, 4, -1]), "whole": np.array(SHAPE)}
    held |= {name: RNG.uniform(0.5, 1.5, 4).astype(np.float32) for name in ("scale", "bias")}
    return problems(given, held)


def test_groups_of_channels_are_read_as_they_lie() -> None:
    """Each kernel reads the bytes: there is no tensor of real numbers, and none whose channels are not last."""
    *means, y = normalized_in_groups()
    assert [key.partition(":in=")[0] for key in means] == ["reduce:rows=2,4:columns=60,2"] * 2
    assert all("x0[r0*480+c0*8+r1*2+c1]" in key for key in means)
    assert y.startswith("map:shape=2,60,4,2:in=uint8*960,")
    assert "x0[i0*480+i1*8+i2*2+i3]" in y


def test_long_rows_of_channels_are_folded_by_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbouring rows of the inner folds are neighbouring channels."""
    monkeypatch.setattr(partial, "LONG", 100)
    *parts, y = normalized_in_groups()
    shapes = [key.partition(":in=")[0] for key in parts]
    assert shapes[::2] == ["reduce:rows=12,8:columns=10", "reduce:rows=2,6,4,2:columns=10"]
    assert shapes[1::2] == ["reduce:rows=2,4:columns=6,2"] * 2
    assert y.startswith("map:shape=2,60,4,2:in=uint8*960,")


def test_a_map_that_a_transposed_normalization_reads_keeps_its_channels_last() -> None:
    given: list[Given] = [
        ("DequantizeLinear", ["s", "z"], {}),
        ("Add", ["bias"], {}),
        *((op, [], {}) for op in ["Sin", "Abs"] * 9),  # too many functions to be computed again
        ("Transpose", [], {"perm": [0, 2, 3, 1]}),
        ("LayerNormalization", ["scale"], {"axis": -1}),
        ("Transpose", [], {"perm": [0, 3, 1, 2]}),
        ("QuantizeLinear", ["t", "z"], {}),
    ]
    first, second = problems(given, {"scale": np.ones(8, np.float32), "bias": BIAS})
    assert first.startswith("map:shape=120,8:")
    assert second.startswith("reduce:rows=120:columns=8:")


def test_bytes_are_stored_and_not_what_is_dequantized_of_them_for_a_fold() -> None:
    given: list[Given] = [
        ("DequantizeLinear", ["s", "z"], {}),
        ("Add", ["bias"], {}),
        *((op, [], {}) for op in ["Sin", "Abs"] * 9),
        ("QuantizeLinear", ["t", "z"], {}),
        ("DequantizeLinear", ["t", "z"], {}),
        ("Transpose", [], {"perm": [0, 2, 3, 1]}),
        ("LayerNormalization", ["scale"], {"axis": -1}),
        ("Transpose", [], {"perm": [0, 3, 1, 2]}),
        ("QuantizeLinear", ["t", "z"], {}),
    ]
    first, second = problems(given, {"scale": np.ones(8, np.float32), "bias": BIAS})
    assert ":out=uint8:" in first
    assert second.startswith("reduce:rows=120:columns=8:in=uint8*960,")


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_of_pixels_are_moved_by_a_map(mode: str) -> None:
    held = {"narrow": RNG.integers(-50, 50, (8, 2, 1, 1)).astype(np.int8)}
    # A convolution in front would store the pixels itself.
    given: list[Given] = [
        ("MaxPool", [], {"kernel_shape": [1, 1]}),
        ("DepthToSpace", [], {"blocksize": 2, "mode": mode}),
    ]
    _, key = problems(given, held, "narrow")
    assert key.startswith("map:shape=12,2,10,4" if mode == "DCR" else "map:shape=12,2,10,2,2")


def test_pixels_become_patches_in_one_map() -> None:
    held = {"patches": np.array([48, 2, 5, 2]), "pixels": np.array([2, 8, 15, 4])}
    given: list[Given] = [
        ("Reshape", ["patches"], {}),
        ("Transpose", [], {"perm": [0, 2, 1, 3]}),
        ("Reshape", ["pixels"], {}),
    ]
    (key,) = problems(given, held)
    assert key.startswith("map:shape=")


def test_the_same_bytes_in_another_shape_have_no_kernel() -> None:
    given: list[Given] = [("Reshape", ["flat"], {})]
    assert problems(given, {"flat": np.array([2, 8, 60, 1])}) == []
