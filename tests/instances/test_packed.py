"""Pack once, run many times; unpacking returns the packed values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exactness import expected

import qconv
from qconv import Conv2d, PooledConv2d, Quantization, generator
from qconv.device import open_device
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.tensor_ops import Add

Q = Quantization(
    per_channel=True, x_zero_point=True, w_zero_point=True, y_zero_point=True, bias="int32", activation="relu"
)
GEOMETRY: dict[str, Any] = {"stride": (2, 1), "pad": (1, 0, 2, 1), "quantization": Q}
LAYOUTS = ["nhwc", "nchw"]
# From the layout of the problem to the other one.
TURNED = {"nhwc": ("kcrs", (0, 3, 1, 2)), "nchw": ("krsc", (0, 2, 3, 1))}


def drawn_for(layout: str, seed: int = 0) -> tuple[Conv2d, Any]:
    problem = Conv2d(2, 7, 6, 12, 10, 3, 2, layout=layout, groups=2, **GEOMETRY)
    return problem, registry.draw(problem, seed)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pack_once_run_many(layout: str) -> None:
    problem, drawn = drawn_for(layout)
    packed = qconv.lookup(problem, "cpu").pack(drawn.arrays[1], **drawn.parameters)
    folded = {name: array.tobytes() for name, array in packed.folded.items()}
    for seed in range(4):
        x = registry.draw(problem, seed).arrays[0]
        y = packed(x)
        assert y.tobytes() == expected(problem, registry.Sample((x, drawn.arrays[1]), drawn.parameters)).tobytes()
        out = np.empty_like(y)
        assert packed(x, out=out) is out
        assert out.tobytes() == y.tobytes()
    assert {name: array.tobytes() for name, array in packed.folded.items()} == folded


def test_what_follows_from_the_weights_is_folded_once() -> None:
    """bias - x_zero * the sum of (w - w_zero), one number per filter."""
    problem, drawn = drawn_for("nhwc")
    packed = qconv.lookup(problem, "cpu").pack(drawn.arrays[1], **drawn.parameters)
    values = problem.checked(drawn.parameters)
    wide = drawn.arrays[1].astype(np.int64) - values.w_zero_point.reshape(-1, 1, 1, 1)
    offset = packed.folded["offset"]
    assert offset.dtype == np.int32
    assert np.array_equal(offset, values.bias - int(values.x_zero_point) * wide.sum(axis=(1, 2, 3)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_either_layout_of_the_weights_gives_the_same_bits(layout: str) -> None:
    problem, drawn = drawn_for(layout)
    (x, w), (other, axes) = drawn.arrays, TURNED[layout]
    instance = qconv.lookup(problem, "cpu")
    turned = np.ascontiguousarray(w.transpose(axes))
    packed = instance.pack(turned, w_layout=other, **drawn.parameters)
    assert packed(x).tobytes() == expected(problem, drawn).tobytes()
    assert instance.bind(x, turned, w_layout=other, **drawn.parameters)().tobytes() == packed(x).tobytes()


@pytest.mark.parametrize("given", ["own", "other"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_unpacking_gives_back_what_was_packed(layout: str, given: str) -> None:
    problem, drawn = drawn_for(layout)
    w, (other, axes) = drawn.arrays[1], TURNED[layout]
    turned = np.ascontiguousarray(w.transpose(axes))
    instance = qconv.lookup(problem, "cpu")
    if given == "own":
        packed = instance.pack(w, **drawn.parameters)
    else:
        packed = instance.pack(turned, w_layout=other, **drawn.parameters)
    unpacked, relaid = packed.unpack(), packed.unpack(w_layout=other)
    for array, wanted in ((unpacked["w"], w), (relaid["w"], turned)):
        assert (array.shape, array.dtype) == (wanted.shape, wanted.dtype)
        assert array.tobytes() == wanted.tobytes()
    for name, value in drawn.parameters.items():
        assert np.array_equal(unpacked[name], value), name
    assert set(unpacked) == set(relaid)


def test_weights_in_the_layout_of_the_kernel_are_not_copied() -> None:
    problem, drawn = drawn_for("nhwc")
    w = drawn.arrays[1].copy()
    packed = qconv.lookup(problem, "cpu").pack(w, **drawn.parameters)
    assert packed.weights["w"] is w
    w[...] = registry.draw(problem, 9).arrays[1]
    packed.refold()
    x = drawn.arrays[0]
    assert packed(x).tobytes() == expected(problem, registry.Sample((x, w), drawn.parameters)).tobytes()


def test_what_does_not_fit_is_refused() -> None:
    problem, drawn = drawn_for("nhwc")
    instance = qconv.lookup(problem, "cpu")
    with pytest.raises(ValueError, match=r"w has shape .*; this problem takes \(10, 3, 2, 6\)"):
        instance.pack(drawn.arrays[1].transpose(0, 3, 1, 2), **drawn.parameters)
    with pytest.raises(ValueError, match="0 arrays were given to pack; it takes w"):
        instance.pack(**drawn.parameters)
    with pytest.raises(ValueError, match="w_layout='kscr' is not one of krsc, kcrs"):
        instance.pack(drawn.arrays[1], w_layout="kscr", **drawn.parameters)
    packed = instance.pack(drawn.arrays[1], **drawn.parameters)
    with pytest.raises(ValueError, match="2 arrays were given; this problem takes 1: x"):
        packed(*drawn.arrays)
    with pytest.raises(ValueError, match="0 arrays were given to beside; it takes w"):
        packed.beside()
    two = qconv.FusedConv2d(Conv2d(1, 4, 4, 8, 8, 1, 1), Conv2d(1, 4, 4, 8, 4, 1, 1))
    first, second = np.ones((8, 1, 1, 8), "int8"), np.ones((4, 1, 1, 8), "int8")
    pair = load(generator.unfused_plan(two, open_device("cpu").target), open_device("cpu")).pack(first, second)
    for weights in ((), (first,), (first, second, second)):
        with pytest.raises(ValueError, match=f"{len(weights)} arrays were given to beside; it takes w1, w2"):
            pair.beside(*weights)


def test_unpacking_refuses_what_it_does_not_know() -> None:
    problem, drawn = drawn_for("nhwc")
    packed = qconv.lookup(problem, "cpu").pack(drawn.arrays[1], **drawn.parameters)
    with pytest.raises(ValueError, match="unpack was given wlayout; conv2d takes w_layout alone: leave it out"):
        packed.unpack(wlayout="kcrs")
    assert packed.unpack(w_layout=None).keys() == packed.unpack().keys()  # type: ignore[arg-type]
    of_sum = qconv.lookup(Add(1, 1, 64), "cpu").pack()
    with pytest.raises(ValueError, match="unpack was given w_layout; add has no weights in another layout"):
        of_sum.unpack(w_layout="kcrs")


def test_a_pool_behind_has_no_weights_to_unpack() -> None:
    device, problem = open_device("cpu"), PooledConv2d.over(Conv2d(1, 4, 4, 8, 8, 3, 3), window=2)
    w = np.random.default_rng(1).integers(-128, 128, (8, 3, 3, 8), dtype=np.int8)
    packed = load(generator.unfused_plan(problem, device.target), device).pack(w)
    unpacked = packed.unpack(w_layout="kcrs")
    assert np.array_equal(unpacked["first"]["w"], w.transpose(0, 3, 1, 2))
    assert unpacked["second"] == {}
    with pytest.raises(ValueError, match="unpack was given layout"):
        packed.unpack(layout="kcrs")
