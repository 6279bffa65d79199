"""The layers of floats that `direct` serves, and how it divides them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qconv import Conv2d, Quantization, generator
from qconv.errors import Infeasible
from qconv.generator.families.direct import Direct, DirectPlan, config
from qconv.generator.families.direct.cost import cost
from qconv.targets.target import TARGETS

TILE = Direct(tile_h=8, tile_w=8, slabs=2, warps=2, batch=1, blocks_per_sm=2)


def grouped(x_type: str, c_group: int, w_type: str = "", k_group: int = 0, groups: int = 32, taps: int = 3) -> Conv2d:
    out_type = "float16" if x_type.startswith("float8") else "float32"
    c, k = groups * c_group, groups * (k_group or c_group)
    quantization = Quantization(x_type, w_type or x_type, out_type, bias="float32", activation="relu")
    return Conv2d(32, 28, 28, c, k, taps, taps, pad=taps // 2, groups=groups, quantization=quantization)


def planned(problem: Conv2d, target: str = "sm_90a", **changed: int) -> DirectPlan:
    plan = generator.plan(problem, replace(TILE, **changed), TARGETS[target])
    assert isinstance(plan, DirectPlan)
    return plan


@pytest.mark.parametrize(
    ("x_type", "w_type", "served"),
    [
        ("float16", "float16", ("sm_80", "sm_89", "sm_90a", "sm_120", "cpu.sm_80")),
        ("bfloat16", "bfloat16", ("sm_80", "sm_89", "sm_90a", "sm_120", "cpu.sm_80")),
        ("tfloat32", "tfloat32", ("sm_80", "sm_89", "sm_90a", "sm_120", "cpu.sm_80")),
        ("float8_e4m3fn", "float8_e5m2", ("sm_89", "sm_90a", "sm_120")),
        ("float32", "float32", ()),
    ],
)
def test_an_instruction_decides_which_floats_are_served(x_type: str, w_type: str, served: tuple[str, ...]) -> None:
    problem = grouped(x_type, 8, w_type)
    for name in ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_120", "gfx942", "cpu", "cpu.sm_80"):
        says = config.why_none(problem, TARGETS[name])
        assert says == (
            None if name in served else f"{name} has no mma.sync of {x_type} by {w_type} with asynchronous copies"
        )


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (replace(grouped("float16", 8), layout="nchw"), "layout=nchw: neighbouring channels must lie side by side"),
        (grouped("float16", 12), "groups of 12 channels of float16: 24 bytes neither divide 16 nor are a multiple"),
        (grouped("float16", 40), "groups of 40 channels of float16: 80 bytes neither divide 16 nor are a multiple"),
        (grouped("bfloat16", 1, groups=31), "c=31 of bfloat16: pixels are no multiple of 4 bytes"),
        (grouped("float16", 8, k_group=1), "8 input channels have 1 output channels, no multiple of 8"),
        (grouped("float16", 1, k_group=16), "output channels of 8 input channels: 128; at most 64"),
        (grouped("float16", 8, k_group=8, taps=25), "registers of a lane for filters: 626; at most 128"),
    ],
)
def test_a_problem_that_is_not_served_says_why(problem: Conv2d, says: str) -> None:
    with pytest.raises(Infeasible, match=says):
        planned(problem)


def test_a_chunk_has_as_many_channels_as_fill_sixteen_bytes() -> None:
    for x_type, c_group, chunks, c, k in (
        *(("float16", 4, 1, 8, 8), ("float16", 16, 2, 16, 16), ("float16", 24, 3, 24, 24)),
        *(("tfloat32", 8, 2, 8, 8), ("float8_e5m2", 4, 1, 16, 16), ("float8_e5m2", 32, 2, 32, 32)),
        ("tfloat32", 4, 2, 8, 8),  # one chunk has four output channels
    ):
        slab = planned(grouped(x_type, c_group)).slab
        assert (slab.chunks, slab.c, slab.k, slab.parts) == (chunks, c, k, 1)


def test_warps_divide_the_filters_of_a_large_group() -> None:
    """A lane would hold 144 words of 32 halves by 32 output channels by 9 taps."""
    plan = planned(grouped("float16", 32))
    assert (plan.slab.k, plan.slab.parts, plan.tiles.slabs) == (16, 2, 64)
    assert config.filter_words(plan.slab) == 72
    # Both parts multiply the same pixels.
    assert plan.in_bytes == 10 * 10 * 64
    with pytest.raises(Infeasible, match="slabs=1 are not all 2 parts of a group's output channels"):
        planned(grouped("float16", 32), slabs=1)


def test_arrays_of_floats_are_aligned_to_what_is_read() -> None:
    for x_type, groups, x, w, y in (("float16", 32, 16, 2, 16), ("bfloat16", 5, 4, 2, 8), ("tfloat32", 5, 8, 4, 8)):
        alignment = planned(grouped(x_type, 2, groups=groups), slabs=1, warps=1).alignment
        assert (alignment["x"], alignment["w"], alignment["y"]) == (x, w, y)


def test_converted_floats_take_more_registers() -> None:
    """On Hopper, a product of 8-bit floats is made of conversions and products of halves."""
    bytes_of_ada, of_hopper = (
        planned(grouped("float8_e4m3fn", 32), name, blocks_per_sm=2) for name in ("sm_89", "sm_90a")
    )
    assert bytes_of_ada.slab == of_hopper.slab
    planned(grouped("float8_e4m3fn", 32), "sm_89", batch=2, blocks_per_sm=4)
    with pytest.raises(Infeasible, match="registers of a thread, about: 264; at most 255"):
        planned(grouped("float8_e4m3fn", 32), "sm_90a", batch=2)


def test_converted_floats_take_longer() -> None:
    hopper = TARGETS["sm_90a"]
    other = replace(hopper, generation=replace(hopper.generation, name="another"))
    plan = planned(replace(grouped("float8_e4m3fn", 8), n=256))
    assert cost(plan) > 1.3 * cost(replace(plan, target=other))


@pytest.mark.parametrize(("c_group", "side"), [(4, 56), (8, 28), (16, 14), (32, 7)])
def test_grouped_layers_of_halves_are_multiplied_by_whole_groups(c_group: int, side: int) -> None:
    """The layers of ResNeXt-50."""
    problem = replace(grouped("float16", c_group), h=side, w=side)
    assert generator.default(problem, TARGETS["sm_90a"]).config.family == "direct"


def test_a_wider_element_takes_as_many_instructions_per_byte() -> None:
    halves, floats = planned(grouped("float16", 8)), planned(grouped("tfloat32", 4))
    assert halves.steps == 5
    assert floats.steps == 9
    assert halves.tiles.slab_k == floats.tiles.slab_k == 8


def test_two_groups_share_the_rows_of_their_windows() -> None:
    """Windows of 3 rows, one below the other, have four rows together."""
    above = {"tile_w": 16, "batch": 2}
    for c_group, taps, loads, products in (
        (8, 3, 3, 6),  # a load has two rows of a tap
        (16, 3, 6, 18),  # a load has both chunks of a tap, of two output instructions
        (8, 5, 7.5, 15),
        (8, 2, 2, 3),  # the upper group has no third row
        (8, 1, 0.5, 1),
    ):
        problem = replace(grouped("float16", c_group, taps=taps), r=taps, s=taps)
        plan = planned(problem, **above)
        assert plan.pairs_rows
        assert (plan.loads, plan.products) == (loads, products)
    problem = grouped("float16", 8)
    for alone in (
        planned(problem, batch=2),
        planned(problem, tile_w=16),
        planned(replace(problem, stride=(2, 2)), **above),
        planned(replace(problem, quantization=Quantization()), **above),
    ):
        assert not alone.pairs_rows
        assert (alone.loads, alone.products) == (alone.steps, alone.steps * alone.atoms)
    assert planned(replace(problem, stride=(2, 2), dilation=(2, 1)), **above).pairs_rows
