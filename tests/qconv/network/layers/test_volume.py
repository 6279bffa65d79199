"""Convolutions with three axes are exact for every geometry: sums against NumPy, outputs against ONNX Runtime."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import quantized_networks as networks
from integer_model import Model
from one_node import node_of, runs_on, whole_range
from session_comparison import RUNS, assert_equal

from qconv.device import open_device
from qconv.expression.map import Map
from qconv.network import Layer, Network, Tensor, Unserved, Value, read_layer
from qconv.network.layers import copied
from qconv.onnx import Session
from qconv.problem.convolution import Conv2d

BYTES = ("int8", "uint8")
# Taps, strides, dilations, pads of each side, groups.
GEOMETRIES: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {
    "space": ((1, 3, 3), {"pads": [0, 1, 1, 0, 1, 1], "strides": [1, 2, 1]}),
    "space, every second frame": ((1, 3, 2), {"strides": [2, 1, 1]}),
    "space, a padded frame": ((1, 2, 2), {"pads": [1, 0, 0, 0, 0, 1]}),
    "time": ((3, 1, 1), {"pads": [1, 0, 0, 1, 0, 0]}),
    "time, with gaps": ((2, 1, 1), {"pads": [1, 0, 0, 2, 0, 0], "strides": [2, 1, 1], "dilations": [3, 1, 1]}),
    "time, every second pixel": ((3, 1, 1), {"pads": [1, 0, 0, 1, 0, 0], "strides": [1, 2, 2]}),
    "time, padded pixels": ((3, 1, 1), {"pads": [1, 1, 0, 1, 0, 2]}),
    "a pixel": ((1, 1, 1), {}),
    "a pixel, strided": ((1, 1, 1), {"strides": [2, 2, 2]}),
    "dense": ((3, 3, 3), {"pads": [1] * 6}),
    "dense, strided": ((3, 3, 3), {"pads": [1] * 6, "strides": [2, 2, 2]}),
    "dense, causal": ((3, 3, 3), {"pads": [2, 1, 1, 0, 1, 1]}),
    "dense, dilated": ((2, 2, 3), {"pads": [0, 0, 1, 3, 0, 0], "dilations": [2, 3, 1]}),
    "by rule": ((3, 2, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 1, 2]}),
    "time by rule": ((3, 1, 1), {"auto_pad": "SAME_LOWER"}),
}  # fmt: skip


def sums(x: Any, w: Any, spec: dict[str, Any], groups: int) -> Any:
    """Return the sums of a convolution, tap by tap. The pads are given."""
    stride, gap = (spec.get(name, [1, 1, 1]) for name in ("strides", "dilations"))
    pads = spec.get("pads", [0] * 6)
    x = np.pad(x.astype(np.int64), [(0, 0), (0, 0), *zip(pads[:3], pads[3:], strict=True)])
    sizes = [
        (extent - (taps - 1) * step - 1) // by + 1
        for extent, taps, step, by in zip(x.shape[2:], w.shape[2:], gap, stride, strict=True)
    ]
    n, k = x.shape[0], w.shape[0]
    x, w = x.reshape(n, groups, -1, *x.shape[2:]), w.astype(np.int64).reshape(groups, k // groups, *w.shape[1:])
    total = np.zeros((n, groups, k // groups, *sizes), np.int64)
    for tap in product(*map(range, w.shape[3:])):
        places = [
            slice(at * step, at * step + (size - 1) * by + 1, by)
            for at, step, size, by in zip(tap, gap, sizes, stride, strict=True)
        ]
        total += np.einsum("ngcdhw,gkc->ngkdhw", x[(..., *places)], w[(..., *tap)])
    return total.reshape(n, k, *sizes)


def layer_of(w: Any, x_zero: Any, w_zero: Any, attributes: dict[str, Any]) -> Any:
    """Return a ConvInteger of these weights."""
    held = {"w": w, "x_z": x_zero, "w_z": w_zero}
    layer = Layer("layer", "ConvInteger", ("x", *held), ("y",), attributes)
    return read_layer(layer, Network(("x",), ("y",), (layer,), {"x": Tensor("x", str(x_zero.dtype))}, held))


def check_sums(
    seed: int,
    taps: tuple[int, int, int],
    spec: dict[str, Any],
    groups: int,
    per_group: tuple[int, int],
    device_name: str = "cpu",
) -> Any:
    """Compare the sums of one layer, and return it prepared."""
    rng = np.random.default_rng(seed)
    x_type, w_type = rng.choice(BYTES, 2)
    c, k = (count * groups for count in per_group)
    x = whole_range(rng, x_type, (int(rng.integers(1, 3)), c, *map(int, rng.integers(5, 8, 3))))
    w, x_zero = whole_range(rng, w_type, (k, c // groups, *taps)), whole_range(rng, x_type, ())
    w_zero = whole_range(rng, w_type, (k,)) if seed % 2 else np.zeros((), w_type)
    made = layer_of(w, x_zero, w_zero, {**spec, "group": groups, "kernel_shape": list(taps)})
    device = open_device(device_name)
    prepared = made.prepare([x.shape], device)
    y = prepared(Value(device, host=x))
    wanted = sums(x.astype(int) - int(x_zero), w.astype(int) - w_zero.reshape(-1, 1, 1, 1, 1).astype(int), spec, groups)
    assert y.is_channels_last
    assert_equal(y.on_host, wanted.astype(np.int32), f"{seed} {taps} {spec} {groups} {per_group}")
    return prepared


@pytest.mark.turns
@pytest.mark.parametrize("name", [name for name, (_, spec) in GEOMETRIES.items() if "auto_pad" not in spec])
def test_the_sums_of_every_geometry(name: str) -> None:
    for seed, (groups, per_group) in enumerate([(1, (3, 5)), (2, (4, 3)), (3, (1, 1))]):
        check_sums(seed, *GEOMETRIES[name], groups, per_group)


@pytest.mark.turns
@pytest.mark.parametrize("name", GEOMETRIES)
def test_outputs_are_those_of_onnx_runtime(name: str) -> None:
    taps, spec = GEOMETRIES[name]
    rng = np.random.default_rng(len(name))
    for groups, dtype in ((1, "int8"), (2, "uint8")):
        arrays = {
            "x": whole_range(rng, dtype, (2, 4, 5, 7, 6)), "x_s": np.float32(0.02), "x_z": whole_range(rng, dtype, ()),
            "w": rng.integers(-64, 64, (6, 4 // groups, *taps)).astype(np.int8),
            "w_s": rng.uniform(0.005, 0.02, 6).astype(np.float32), "w_z": np.zeros(6, np.int8),
            "y_s": np.float32(0.2), "y_z": whole_range(rng, dtype, ()),
            "bias": rng.integers(-5000, 5000, 6).astype(np.int32),
        }  # fmt: skip
        row = runs_on(*node_of("QLinearConv", arrays, group=groups, kernel_shape=taps, **spec), f"{name} {dtype}")
        assert row.runs_on == "qconv", row.why


def drawn(rng: Any) -> tuple[tuple[int, int, int], dict[str, Any]]:
    """Draw a geometry in which the filter fits into five pixels with their pads."""
    taps = tuple(int(rng.choice((1, 2, 3))) for _ in range(3))
    dilations = [int(rng.integers(1, 3)) if size < 3 else 1 for size in taps]
    pads = [int(rng.integers(0, size)) for size in (*taps, *taps)]
    return taps, {"strides": rng.integers(1, 4, 3).tolist(), "dilations": dilations, "pads": pads}


@pytest.mark.turns
@pytest.mark.parametrize("seed", range(12))
def test_random_geometries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = int(rng.choice((1, 1, 2, 4)))
    check_sums(seed, *drawn(rng), groups, (int(rng.integers(1, 6)), int(rng.integers(1, 6))))


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_random_geometries(seed: int) -> None:
    test_random_geometries(seed)


@pytest.mark.parametrize(
    ("name", "has_frames"),
    [
        ("space", False),
        ("space, every second frame", True),
        ("time", False),
        ("time, with gaps", False),
        ("time, every second pixel", True),
        ("a pixel", False),
        ("dense", True),
    ],
)
def test_factors_are_views(name: str, has_frames: bool) -> None:
    """A filter of space or of time is one of images as they lie. The frames of others are copied, or read where they
    lie, which takes tensor maps and one group."""
    (problem,) = check_sums(0, *GEOMETRIES[name], 1, (32, 8), "cpu.sm_90a").problems
    assert (problem.frames is not None) == has_frames
    for prepared in (
        check_sums(0, *GEOMETRIES[name], 2, (4, 4), "cpu.sm_90a"),
        check_sums(0, *GEOMETRIES[name], 1, (4, 4)),
    ):
        assert [type(one) for one in prepared.problems] == [Map] * has_frames + [Conv2d]
        assert ("copied side by side" in prepared.why) == has_frames


@pytest.mark.parametrize("name", ["dense, strided", "dense, causal", "dense, dilated"])
def test_frames_are_copied_where_that_is_expected_to_be_faster(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied, "UNSURE", 0.0)
    prepared = check_sums(0, *GEOMETRIES[name], 1, (32, 8), "cpu.sm_90a")
    assert [type(one) for one in prepared.problems] == [Map, Conv2d]


@pytest.mark.parametrize(
    ("why", "attributes", "changed"),
    [
        ("strides=0", {"strides": [0, 1, 1]}, {}),
        ("pads=(-1, 0)", {"pads": [-1, 0, 0, 0, 0, 0]}, {}),
        ("it must have 3 numbers", {"strides": [1, 1]}, {}),
        ("it must have 6 numbers", {"pads": [1, 1, 1, 1]}, {}),
        ("kernel_shape=", {"kernel_shape": [1, 3, 3]}, {}),
        ("with 6 dimensions", {}, {"w": np.ones((2, 2, 3, 3, 3, 1), np.int8)}),
    ],
)
def test_what_is_not_served_says_why(why: str, attributes: dict[str, Any], changed: dict[str, Any]) -> None:
    w = changed.get("w", np.ones((2, 2, 3, 3, 3), np.int8))
    with pytest.raises(Unserved) as raised:
        layer_of(w, np.uint8(3), np.int8(0), attributes)
    assert why in str(raised.value)


@pytest.mark.parametrize("shape", [(1, 2, 2, 5, 5), (1, 2, 5, 5), (1, 3, 5, 5, 5)])
def test_inputs_that_no_filter_fits(shape: tuple[int, ...]) -> None:
    made = layer_of(np.ones((2, 2, 3, 3, 3), np.int8), np.uint8(3), np.int8(0), {})
    with pytest.raises(ValueError, match=r"spans 3 frames|must have 5|has 3 channels"):
        made.prepare([shape], open_device("cpu"))


def convolved(model: Model, x: str, w: Any, x_is: Any, y_is: Any) -> str:
    """Add a convolution whose output has the extents of its input."""
    w_is = model.constant(np.float32(0.01)), model.constant(np.zeros((), w.dtype))
    window = {"kernel_shape": w.shape[2:], "pads": [size // 2 for size in w.shape[2:]] * 2}
    return model.node("QLinearConv", [x, *x_is, model.constant(w), *w_is, *y_is], **window)


@pytest.mark.turns
@pytest.mark.parametrize("taps", [(1, 3, 3), (3, 1, 1), (3, 3, 3)])
def test_what_follows_is_folded(taps: tuple[int, int, int]) -> None:
    """A sum and a table are parts of the convolution as they are of one with two axes, with the same bits."""
    for choice in (True, False):
        model = Model("uint8", 7)
        x, x_is, two, y_is = model.input(2, 8, 4, 5, 6), *(model.numbers() for _ in range(3))
        w = whole_range(model.rng, "uint8", (8, 8, *taps))
        y = convolved(model, x, w, x_is, two)
        y = model.add(y, two, x, x_is, y_is)
        z = convolved(model, y, w, y_is, two)
        z = model.node("QLinearSigmoid", [z, *two, *x_is], domain="com.microsoft")
        made = model.made(z)
        session = Session(made, "cpu", strict=True, sums_in_convolutions=choice, tables_in_convolutions=choice)
        for _ in range(RUNS):
            assert_equal(session.run(None, model.fed)[0], networks.by_ort(made, model.fed)[0], f"{taps} {choice}")
        assert len(session.explain().rows) == (2 if choice else 4)


def test_a_clamp_is_folded() -> None:
    model = Model("int8", 8)
    x, numbers = model.input(1, 4, 4, 5, 6), model.numbers((0.3, -20))
    y = convolved(model, x, whole_range(model.rng, "int8", (4, 4, 3, 3, 3)), numbers, numbers)
    y = model.node("Relu", [model.node("DequantizeLinear", [y, *numbers])])
    made = model.made(model.node("QuantizeLinear", [y, *numbers]))
    session = Session(made, "cpu", strict=True)
    got = session.run(None, model.fed)[0]
    assert got.min() == -20
    assert_equal(got, networks.by_ort(made, model.fed)[0], "clamp")
    (row,) = session.explain().rows
    assert "Relu, QuantizeLinear folded" in row.why
