"""Ops that move elements: the results are ONNX Runtime's, for every element type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from expressed_layers import assert_as_onnxruntime, drawn, evaluated, fused, one_op, runs_here
from onnx.defs import onnx_opset_version

RNG = np.random.default_rng(50)
TYPES = ("float32", "float16", "int64", "int32", "uint8", "bool")
X = (2, 6, 4, 3)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def indices(*shape: int) -> Any:
    return RNG.integers(-4, 4, shape)


# The op, the shape of x, its constants and its attributes.
CASES: list[tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = [
    ("Identity", X, (), {}),
    ("Flatten", X, (), {"axis": 2}),
    ("Flatten", X, (), {"axis": -1}),
    ("Reshape", X, (ints(0, -1, 2),), {}),
    ("Reshape", X, (ints(3, 4, 12),), {}),
    ("Squeeze", (2, 1, 3, 1), (), {}),
    ("Squeeze", (2, 1, 3, 1), (ints(1, -1),), {}),
    ("Squeeze", (2, 1, 3), (), {"axes": [1], "opset": 9}),
    ("Unsqueeze", X, (ints(0, -1),), {}),
    ("Transpose", X, (), {"perm": [0, 3, 1, 2]}),
    ("Transpose", X, (), {}),
    ("Expand", (3, 1, 2), (ints(2, 1, 5, 1),), {}),
    ("Tile", X, (ints(1, 2, 3, 1),), {}),
    ("Slice", X, (ints(1, -1), ints(5, -9), ints(1, 2), ints(2, -1)), {}),
    ("Slice", X, (ints(-3), ints(1 << 62), ints(1)), {}),
    ("Slice", X, (ints(3, -1), ints(-100, -100), ints(2, 3), ints(-2, -3)), {}),
    ("Slice", X, (ints(0, 1, 0, 1), ints(2, 4, 100, 2)), {}),
    ("Slice", X, (), {"starts": [1, 0], "ends": [4, 2], "axes": [1, 3], "opset": 9}),
    ("Split", X, (ints(1, 2, 3),), {"axis": 1, "outputs": 3}),
    ("Split", (2, 7, 3), (), {"axis": -2, "num_outputs": 3, "outputs": 3}),
    ("Split", X, (), {"axis": 1, "outputs": 3, "opset": 11}),
    ("Split", X, (), {"axis": 1, "outputs": 2, "split": [2, 4], "opset": 11}),
    ("Gather", X, (ints(3, 0, -1),), {"axis": 1}),
    ("Gather", X, (ints(1, 3, 5),), {"axis": 1}),
    ("Gather", X, (ints(5, 3, 1, 0).reshape(2, 2),), {"axis": 1}),
    ("Gather", X, (np.int64(2),), {"axis": 2}),
    ("GatherElements", X, (indices(2, 5, 4, 3),), {"axis": 1}),
    ("GatherND", X, (ints(0, 1, 1, -1, 1, 3).reshape(3, 2),), {}),
    ("GatherND", X, (indices(2, 4, 1),), {"batch_dims": 1}),
    ("Compress", X, (np.array([1, 0, 0, 1, 1], bool),), {"axis": 1}),
    ("Compress", X, (np.array([1, 0, 0, 1, 1], bool),), {}),
    ("ReverseSequence", (4, 3, 5), (ints(1, 4, 2),), {"time_axis": 0, "batch_axis": 1}),
    ("ReverseSequence", (4, 3, 5), (ints(1, 3, 2, 1),), {"time_axis": 1, "batch_axis": 0}),
    ("SpaceToDepth", (2, 3, 6, 4), (), {"blocksize": 2}),
    ("DepthToSpace", (2, 8, 3, 4), (), {"blocksize": 2}),
    ("DepthToSpace", (2, 18, 2, 4), (), {"blocksize": 3, "mode": "CRD"}),
]
# ONNX Runtime has these for floats and some other types alone.
OF_FLOATS = {"SpaceToDepth", "DepthToSpace"}


@pytest.mark.turns
@pytest.mark.parametrize(("op", "shape", "constants", "attributes"), CASES)
def test_it_moves_as_onnx_runtime_does(op: str, shape: Any, constants: Any, attributes: Any) -> None:
    for dtype in ("float32",) if op in OF_FLOATS else TYPES:
        x = drawn(RNG, shape, dtype)
        assert_as_onnxruntime(one_op(op, x, *constants, **attributes), {"x": x})


def test_blocks_become_channels_in_both_orders() -> None:
    """ONNX Runtime has no order but the first."""
    x = drawn(RNG, (2, 3, 6, 4))
    for mode, channels in (("DCR", (0, 3, 5, 1, 2, 4)), ("CRD", (0, 1, 3, 5, 2, 4))):
        wanted = x.reshape(2, 3, 3, 2, 2, 2).transpose(channels).reshape(2, 12, 3, 2)
        (y,) = evaluated(one_op("SpaceToDepth", x, blocksize=2, mode=mode, opset=onnx_opset_version()), {"x": x})
        np.testing.assert_array_equal(y, wanted)


def test_a_split_of_floats_is_one_kernel_per_output_and_runs_here() -> None:
    x = drawn(RNG, X)
    runs_here(one_op("Split", x, ints(2, 4), axis=1, outputs=2), {"x": x})


def test_a_gather_of_longs_runs_here() -> None:
    x = drawn(RNG, X, "int64")
    runs_here(one_op("Gather", x, ints(3, 0, -1), axis=1), {"x": x})


@pytest.mark.parametrize(
    ("why", "op", "constants", "attributes"),
    [
        ("its output has no elements", "Slice", (ints(2), ints(2), ints(1)), {}),
        ("its output has no elements", "Compress", (np.zeros(6, bool),), {"axis": 1}),
    ],
)
def test_the_reason_of_what_runs_elsewhere(why: str, op: str, constants: Any, attributes: Any) -> None:
    x = drawn(RNG, X)
    model = one_op(op, x, *constants, **attributes)
    assert why in "".join(map(str, fused(model)[1].values()))
