"""Tensor maps: the limits of TMA, the maps of convolutions, and the plans that may declare one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from altered_plan import altered

from qconv import Conv2d, Quantization, generator
from qconv.errors import Infeasible
from qconv.generator.convolution import input_span
from qconv.generator.plan import Field
from qconv.generator.tensor_map import PixelBox, TensorMap, first_tap, im2col, matrix, window
from qconv.targets.target import target

PROBLEM = Conv2d(2, 9, 7, 64, 32, 3, 2, stride=(2, 1), dilation=(1, 3), pad=(1, 0, 2, 4))
TILE = TensorMap("x", "int8", (64, 7, 9, 2), (64, 448, 4032), (64, 4, 4, 1), swizzle=64)
PIXELS = im2col(PROBLEM, 64, 128, 64)


def test_im2col_of_a_convolution() -> None:
    assert (PIXELS.array, PIXELS.dtype, PIXELS.dims, PIXELS.strides) == ("x", "int8", (64, 7, 9, 2), (64, 448, 4032))
    # The trailing pads, minus the columns and rows from a filter's first tap to its last.
    assert PIXELS.pixel_box == PixelBox((0, -1), (4 - 3, 2 - 2), 64, 128)
    assert PIXELS.element_strides == (1, 1, 2, 1)
    assert (PIXELS.shape, PIXELS.bytes) == ((64, 128), 8192)


def test_the_pixel_box_has_as_many_columns_and_rows_as_the_output() -> None:
    assert PIXELS.pixel_box is not None
    counts = [
        (extent + upper - lower - 1) // step + 1
        for extent, lower, upper, step in zip(
            PIXELS.dims[1:3], PIXELS.pixel_box.lower, PIXELS.pixel_box.upper, PIXELS.element_strides[1:3], strict=True
        )
    ]
    assert counts == [PROBLEM.ow, PROBLEM.oh]


@pytest.mark.parametrize(
    ("pixel", "want"),
    [(0, (0, -1, 0)), (1, (1, -1, 0)), (PROBLEM.ow, (0, 1, 0)), (PROBLEM.oh * PROBLEM.ow + 2, (2, -1, 1))],
)
def test_where_a_filter_begins(pixel: int, want: tuple[int, int, int]) -> None:
    assert first_tap(PROBLEM, pixel) == want


def test_a_window_has_its_halo() -> None:
    of_tile = window(PROBLEM, *input_span(PROBLEM, 4, 5), 32, swizzle=32)
    assert of_tile.box == (32, 5 - 1 + 3 + 1, 3 * 2 + 2 + 1, 1)
    assert of_tile.bytes == 32 * 8 * 9


def test_a_tile_of_weights() -> None:
    weights = matrix("w", "int8", 32, 576, 16, 128, swizzle=128)
    assert (weights.dims, weights.strides, weights.box, weights.bytes) == ((576, 32), (576,), (128, 16), 2048)


def test_element_strides_leave_elements_out() -> None:
    every_third = replace(TILE, box=(64, 4, 6, 1), element_strides=(1, 3, 3, 1))
    assert (every_third.shape, every_third.bytes) == ((64, 2, 2, 1), 256)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (lambda: replace(TILE, dtype="int4"), "element type int4: it is one of int8, "),
        (lambda: replace(TILE, strides=(64, 448)), "4 dimensions with 2 strides: it has 1 to 5"),
        (lambda: replace(TILE, dims=(64, 7, 0, 2)), "a dimension of 0: dimensions are 1 to 2"),
        (lambda: replace(TILE, dims=(60, 7, 9, 2)), "rows of 60 int8: they are multiples of 16 bytes; pad them"),
        (lambda: replace(TILE, strides=(72, 448, 4032)), "a stride of 72 bytes: strides are multiples of 16 bytes"),
        (lambda: replace(TILE, strides=(64, 448, 2**40)), "a stride of 1099511627776 bytes"),
        (lambda: replace(TILE, swizzle=16), "swizzle 16, L2 promotion 128: they are one of"),
        (lambda: replace(TILE, l2_promotion=512), "swizzle 64, L2 promotion 512"),
        (lambda: replace(TILE, element_strides=(1, 1)), r"element strides \(1, 1\): there is one for each dimension"),
        (lambda: replace(TILE, element_strides=(2, 1, 1, 1)), "1 for the innermost"),
        (lambda: replace(TILE, element_strides=(1, 9, 1, 1)), "an element stride of 9: they are 1 to 8"),
        (lambda: replace(TILE, box=(64, 4)), "a box of 2 dimensions: the array has 4"),
        (lambda: replace(TILE, box=(64, 257, 1, 1)), "a box of 257 elements: an extent is 1 to 256; use smaller tiles"),
        (lambda: replace(TILE, box=()), "a copy has one of them"),
        (lambda: replace(TILE, pixel_box=PIXELS.pixel_box), "a copy has one of them"),
        (lambda: replace(TILE, box=(24, 4, 4, 1)), "rows of 24 bytes: they are multiples of 16 bytes"),
        (lambda: replace(TILE, box=(32, 4, 4, 1)), "rows of 32 bytes: a swizzle of 64 has rows of as many; swizzle by"),
        (lambda: replace(TILE, box=(48, 4, 4, 1)), "copy rows of as many, or do not swizzle"),
        (lambda: replace(PIXELS, pixel_box=PixelBox((0,), (0,), 64, 8)), "corners of 1 and 1: im2col has 3 to 5"),
        (
            lambda: replace(PIXELS, pixel_box=PixelBox((-129, 0), (0, 0), 64, 8)),
            "a pixel box's corner at -129: with 2 spatial dimensions it is -128 to 127",
        ),
        (
            lambda: replace(PIXELS, pixel_box=PixelBox((0, 0), (-7, 0), 64, 8)),
            "a pixel box of 0 pixels: it has one at least",
        ),
        (
            lambda: replace(PIXELS, pixel_box=PixelBox((0, 0), (0, 0), 64, 1025)),
            "64 channels of 1025 pixels: at most 256 of 1024 are copied at once",
        ),
        (lambda: im2col(replace(PROBLEM, layout="nchw"), 64, 8), "layout nchw: pixels are copied with their channels"),
        (lambda: im2col(Conv2d(1, 300, 8, 64, 8, 300, 1), 64, 8), "a filter that spans 299 pixels"),
        (lambda: window(replace(PROBLEM, c=60), 1, 1, 60), "rows of 60 int8"),
    ],
)
def test_what_the_engine_does_not_copy_is_refused(broken: Callable[[], TensorMap], says: str) -> None:
    with pytest.raises(Infeasible, match=says):
        broken()


def test_5_dimensions_have_smaller_corners() -> None:
    cube = TensorMap("x", "uint8", (16, 5, 5, 5, 1), (16, 80, 400, 2000), (), PixelBox((-16,) * 3, (15,) * 3, 16, 8))
    assert cube.pixel_box is not None
    with pytest.raises(Infeasible, match="with 3 spatial dimensions it is -16 to 15"):
        replace(cube, pixel_box=PixelBox((-17,) * 3, (15,) * 3, 16, 8))


def plan_for(name: str) -> generator.Plan:
    """Return a plan with a map before its other arguments, and one among them."""
    plain = generator.default(Conv2d(1, 4, 4, 16, 16, 1, 1, quantization=Quantization()), target(name))
    first, *rest = plain.fields
    mapped = Field("x_map", "tile::TensorMap", "tensor_map", "activations", tensor_map=TILE)
    return altered(plain, fields=(mapped, first, replace(mapped, name="w_map"), *rest))


def test_a_map_lies_where_c_puts_it() -> None:
    plan = plan_for("sm_90a")
    assert plan.offsets[:4] == (0, 128, 192, 320)
    assert plan.argument_bytes % 64 == 0
    assert plan.argument_bytes - 64 < plan.offsets[-1] + plan.fields[-1].size_bytes <= plan.argument_bytes
    assert [field.name for field in plan.tensor_maps] == ["x_map", "w_map"]


@pytest.mark.parametrize("name", ["sm_80", "gfx942", "cpu"])
def test_a_target_without_such_copies_refuses_the_plan(name: str) -> None:
    says = f"the tensor maps x_map, w_map: {name} copies nothing by tensor maps; plan without them"
    for refusing in (lambda plan: plan.tensor_maps, generator.render):
        with pytest.raises(Infeasible, match=says):
            refusing(plan_for(name))
