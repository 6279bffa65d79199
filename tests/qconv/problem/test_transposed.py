"""Transposed convolutions as one of all phases, beside an oracle that spreads each input over its outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_transposed import random_layer

import qconv
from qconv import Conv2d, ConvTranspose2d, Quantization
from qconv.op import Array
from qconv.problem.transposed import size_with_outputs

SUMS = {"out_type": "int32"}


def spread(made: ConvTranspose2d, x: Array, w: Array, x_zero: int = 0, w_zero: Any = 0) -> Array:
    """Return the sums, NHWK. Every input adds its products to the outputs that its taps reach."""
    (h, width), (down, across) = made.axes, made.stride
    reach = [axis.stride * (axis.size - 1) + axis.span + axis.extra for axis in made.axes]
    k_group, c_group = made.k // made.groups, made.c // made.groups
    y = np.zeros((made.n, *reach, made.k), np.int64)
    zeros = np.broadcast_to(np.asarray(w_zero, np.int64).reshape(-1), (made.k,)).reshape(made.groups, k_group)
    for group in range(made.groups):
        of_x, of_y = slice(group * c_group, (group + 1) * c_group), slice(group * k_group, (group + 1) * k_group)
        real_x = x[..., of_x].astype(np.int64) - x_zero
        for r in range(made.r):
            for s in range(made.s):
                products = real_x @ (w[of_x, :, r, s].astype(np.int64) - zeros[group])
                rows = slice(r * h.gap, r * h.gap + down * (made.h - 1) + 1, down)
                columns = slice(s * width.gap, s * width.gap + across * (made.w - 1) + 1, across)
                y[:, rows, columns, of_y] += products
    return y[:, h.before : h.before + h.made, width.before : width.before + width.made]


def operands(made: ConvTranspose2d, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (made.n, made.h, made.w, made.c)).astype(np.int8)
    return x, rng.integers(-128, 128, (made.c, made.k // made.groups, made.r, made.s)).astype(np.int8)


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_random_layers(first: int) -> None:
    from qconv.ops.convolution import conv2d

    for seed in range(first, first + 30):
        made = random_layer(seed)
        x, w = operands(made, seed)
        sums = Conv2d(**{**vars_of(made.phases), "quantization": Quantization(**SUMS)})
        got = conv2d(sums, x, made.filters(w), sums.checked({}))
        assert np.array_equal(got, spread(made, x, w)), made


def vars_of(problem: Conv2d) -> dict[str, Any]:
    names = ("n", "h", "w", "c", "k", "r", "s", "stride", "dilation", "pad", "groups", "pixel_shuffle", "crop")
    return {name: getattr(problem, name) for name in names}


@pytest.mark.parametrize("seed", range(4))
def test_a_call_on_arrays(seed: int) -> None:
    made = random_layer(seed)
    x, w = operands(made, seed)
    w_zero = np.arange(made.k).astype(np.int8) - 3
    y = qconv.conv_transpose2d(
        *(x, w),
        **{name: getattr(made, name) for name in ("stride", "dilation", "pad", "output_padding", "groups")},
        x_zero_point=5,
        w_zero_point=w_zero,
        device="cpu",
        **SUMS,
    )
    assert np.array_equal(y, spread(made, x, w, 5, w_zero))


def test_numbers_per_output_are_repeated_for_each_phase() -> None:
    made = ConvTranspose2d(1, 4, 5, 6, 4, 2, 2, stride=2, groups=2)
    x, w = operands(made, 1)
    bias = np.array([7, -100000, 20000, -3], np.int32)
    y = qconv.conv_transpose2d(x, w, stride=2, groups=2, bias=bias, device="cpu", **SUMS)
    assert np.array_equal(y, spread(made, x, w) + bias)


def test_a_filter_as_large_as_the_stride_is_a_product_of_pixels() -> None:
    phases = ConvTranspose2d(16, 32, 32, 256, 128, 2, 2, stride=2).phases
    assert phases == Conv2d(16, 32, 32, 256, 512, 1, 1, pixel_shuffle=2)
    assert phases.y_shape == (16, 64, 64, 128)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pad": 4}, "pad=4,4 along h leaves 0 outputs"),
        ({"output_padding": 2}, "output_padding=2 along h must be less than its stride, 2"),
        ({"groups": 3}, "k=4 is not a multiple of groups=3"),
        ({"stride": 0}, "stride=0 must be between 1 and"),
    ],
)
def test_what_is_no_layer(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ConvTranspose2d(**{"n": 1, "h": 4, "w": 4, "c": 6, "k": 4, "r": 2, "s": 2, "stride": 2} | change)


def test_weights_in_another_order() -> None:
    with pytest.raises(
        ValueError, match=r"w has shape \(4, 6, 2, 2\); it must be \(6, 4, 2, 2\): C, K of a group, R, S"
    ):
        ConvTranspose2d(1, 4, 4, 6, 4, 2, 2).filters(np.zeros((4, 6, 2, 2), np.int8))
    with pytest.raises(ValueError, match=r"but x has 6 channels"):
        qconv.conv_transpose2d(np.zeros((1, 4, 4, 6), np.int8), np.zeros((4, 6, 2, 2), np.int8), device="cpu")


@pytest.mark.parametrize("pads", [(0, 0), (1, 3), (5, 0)])
def test_outputs_remain_of_the_smallest_image(pads: tuple[int, int]) -> None:
    before, behind = pads
    for wanted in (0, 2):
        size = size_with_outputs(before, behind, wanted)
        made = ConvTranspose2d(1, size, size, 4, 4, 1, 1, pad=(before, before, behind, behind))
        assert made.axes[0].made > wanted
