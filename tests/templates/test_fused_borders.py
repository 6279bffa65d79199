"""Tiles of whole rows, whole columns or whole images: the area outside the image is filled once, and not computed.
Tolerance 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from exactness import check
from random_fused import TILE

from qconv import Conv2d, generator
from qconv.device.cpu import CpuDevice
from qconv.generator.families.fused.config import CHOICES, Block, tile_outputs
from qconv.generator.families.fused.layer import Border
from qconv.generator.families.fused.plan import FusedPlan
from qconv.problem.chain import chain_of
from qconv.targets.target import TARGETS
from tests.templates.test_fused_sanitizers import GIVES, SM_80, SM_90A, TAKES
from tests.templates.test_mma_sanitizers import EARLY, LATE
from tests.templates.test_simt_sanitizers import check as check_sanitized

POINTWISE = (1, 1)


def layers(*kinds: tuple[str, tuple[int, int]], h: int = 9, w: int = 9, **of_last: object) -> list[Conv2d]:
    """Return layers of `dw` or `dense` with a window; the last one has strides and pads that are not half the
    window."""
    made: list[Conv2d] = []
    for kind, (r, s) in kinds:
        c = made[-1].k if made else 32 if kind == "dw" else 24
        k, groups = (c, c) if kind == "dw" else (64, 1)
        gives = replace(GIVES, w_zero_point=False)
        made.append(Conv2d(2, h, w, c, k, r, s, pad=r // 2, groups=groups, quantization=gives))
        h, w = made[-1].oh, made[-1].ow
    made[-1] = replace(made[-1], quantization=replace(TAKES, w_zero_point=False), **of_last)
    return made


def plan_of(target: str, chain: Sequence[Conv2d], **config: int) -> FusedPlan:
    """Return a plan with the smallest tile that covers a whole image, unless the config has another."""
    tile = TILE if len(chain) == 2 else Block(**vars(TILE), third_m=1, third_n=2)
    sides = {"tile_h": chain[-1].oh, "tile_w": chain[-1].ow}
    whole = {name: min(choice for choice in CHOICES[name] if choice >= size) for name, size in sides.items()}
    made = generator.plan(chain_of(list(chain)), replace(tile, **(whole | config)), TARGETS[target])
    assert isinstance(made, FusedPlan)
    return made


DW, DW5, PW, DENSE = ("dw", (3, 3)), ("dw", (5, 5)), ("dense", POINTWISE), ("dense", (3, 3))
ON_WGMMA = {"weights_in_smem": 1, "on_wgmma": 1, "first_n": 4, "second_n": 1}
PLANS = {
    "warps": plan_of(SM_80, layers(PW, DW)),
    "warpgroups": plan_of(SM_90A, layers(PW, DW5), **ON_WGMMA),
    "slices": plan_of(SM_90A, layers(PW, DW), cluster_blocks=2, warps=4, **ON_WGMMA),
    "teams": plan_of(SM_90A, layers(PW, DW), teams=2, **ON_WGMMA),
    "a stride, other pads at every side": plan_of(
        SM_80, layers(PW, DW5, stride=(2, 1), pad=(1, 0, 2, 3), w=11), tile_h=7, second_n=1
    ),
    "rows alone": plan_of(SM_80, layers(PW, DW, h=7), tile_w=7),
    "columns alone": plan_of(SM_80, layers(PW, DW, w=8), tile_h=4, tile_w=8),
    "columns alone, of a tile of 28": plan_of(SM_80, layers(PW, DW, h=3, w=20), tile_h=2, tile_w=28),
    "rows alone, of a tile of 28": plan_of(SM_80, layers(PW, DW, h=20, w=20), tile_h=28, tile_w=7, warps=8),
    "windows of warpgroups": plan_of(SM_90A, layers(DENSE, DW, h=7), tile_h=7, tile_w=8, **ON_WGMMA),
    "read by a matrix": plan_of(SM_80, layers(PW, DENSE)),
    "read by warpgroups": plan_of(SM_90A, layers(PW, DENSE), weights_in_smem=1, on_wgmma=1),
    "given by dot products": plan_of(SM_80, layers(DW, DENSE), first_m=2),
    "given by dot products, rows alone": plan_of(SM_80, layers(DW, DENSE, h=5), tile_w=7, tile_h=7),
    "no padding, a tile larger than the image": plan_of(SM_80, layers(DW, PW, h=5, w=5), tile_h=8, tile_w=8),
    "in a cluster": plan_of(
        SM_90A, layers(DW, PW, h=5, w=5), tile_h=8, tile_w=8, cluster_blocks=2, weights_in_smem=1, second_n=1
    ),
    "in a cluster, padded": plan_of(
        SM_90A, layers(DW, DENSE, h=5, w=5), cluster_blocks=2, weights_in_smem=1, second_n=1
    ),
    "two channels of a lane, nothing whole": plan_of(SM_80, layers(PW, DW), tile_h=4, tile_w=7, first_n=1),
    "three, nothing whole": plan_of(SM_80, layers(PW, DW, DENSE), tile_h=4, tile_w=7),
    "three": plan_of(SM_80, layers(PW, DW, PW)),
    "three, padded twice": plan_of(SM_90A, layers(PW, DW, DENSE), weights_in_smem=2, on_wgmma=2),
    "three, columns of the first two": plan_of(SM_80, layers(DW, DENSE, DENSE, w=6), tile_h=4, tile_w=7),
    "mfma": plan_of("cpu.gfx942", layers(PW, DW), first_n=1, second_n=1),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANS)
def test_it_is_exact(name: str) -> None:
    plan, seed = PLANS[name], (LATE, EARLY)[list(PLANS).index(name) % 2]
    check(plan, CpuDevice(plan.target, seed=seed), seed=seed)


@pytest.mark.turns
@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_found(name: str, sanitizer: str) -> None:
    check_sanitized(PLANS[name], sanitizer, LATE if sanitizer == "address" else EARLY)


@pytest.mark.parametrize("name", PLANS)
def test_no_more_is_computed_than_exists_where_a_tile_has_all_of_it(name: str) -> None:
    plan = PLANS[name]
    last = plan.problem.last
    for layer in list(plan.layers.values())[:-1]:
        if plan.config.tile_h >= last.oh:
            assert layer.config.rows <= layer.problem.oh
        any_width = layer.problem.s == 1 or (layer.kind == "depthwise" and len(plan.layers) == 2)
        if plan.config.tile_w >= last.ow and any_width:
            assert layer.config.columns <= layer.problem.ow


def test_the_plans_are_what_they_are_for() -> None:
    bordered = [layer for plan in PLANS.values() for layer in plan.layers.values() if layer.bordered]
    assert {(layer.kind, layer.fills) for layer in bordered} >= {
        ("matrix", False),
        ("matrix", True),
        ("warpgroup", False),
        ("warpgroup", True),
        ("depthwise", False),
        ("depthwise", True),
    }
    assert {plan.stays for plan in PLANS.values()} == {True, False}
    assert PLANS["in a cluster"].clusters
    assert not any(PLANS["no padding, a tile larger than the image"].layers["second"].problem.pad)


def test_a_border_is_what_the_next_layer_looks_at() -> None:
    pair = chain_of(layers(PW, DW5, pad=(1, 2, 3, 1)))
    whole, in_rows, none = (tile_outputs(pair, *tile) for tile in ((14, 14), (14, 7), (4, 7)))
    assert whole == ({"second": (14, 14), "first": (9, 9)}, {"first": Border(18, 18, 1, 2, False)})
    assert in_rows == ({"second": (14, 7), "first": (9, 11)}, {"first": Border(18, 11, 1, 0, True)})
    assert none == ({"second": (4, 7), "first": (8, 11)}, {"first": Border(8, 11, 0, 0, True)})


def test_a_layer_before_one_that_is_not_whole_is_not() -> None:
    """The windows of warpgroups begin outside the image, and so does their input."""
    outputs, borders = tile_outputs(chain_of(layers(DW, DENSE, DW, w=6)), 4, 7)
    assert outputs["second"][1] == 9
    assert outputs["first"][1] == 11
    assert borders["first"].left == borders["second"].left == 0


def test_windows_in_the_padding_alone_leave_something_to_compute() -> None:
    """Two outputs eight pixels apart after nine pixels of padding: the whole tile is before the image."""
    pair = layers(PW, ("dw", (1, 1)), h=1, w=1, stride=8, pad=(9, 9, 0, 0))
    outputs, borders = tile_outputs(chain_of(pair), 2, 7)
    assert pair[-1].oh == 2
    assert outputs["first"] == (9, 1)
    assert borders["first"] == Border(9, 49, 0, 9, True)


def test_threads_have_several_channels_in_turn() -> None:
    """128 threads have four of 640 channels each, so some have several groups."""
    gives = replace(GIVES, w_zero_point=False)
    pair = [Conv2d(1, 3, 3, 16, 640, 1, 1, quantization=gives)]
    pair.append(Conv2d(1, 3, 3, 640, 640, 3, 3, pad=1, groups=640, quantization=replace(TAKES, w_zero_point=False)))
    plan = plan_of(SM_80, pair, second_n=1)
    check(plan, CpuDevice(plan.target, seed=LATE), seed=4)


def test_what_a_tool_takes_an_operand_to_be_lies_in_shared_memory() -> None:
    """compute-sanitizer assumes 64 rows of 32 bytes from the first chunk on, although the second is elsewhere."""
    plan = plan_of("sm_90a", layers(DW, PW, h=7, w=7, k=8), weights_in_smem=1, on_wgmma=1, second_n=1)
    chunks, pixels = plan.geometry.planes[1]
    last_two = (chunks - 2) * pixels * 16
    assert pixels < 64
    assert last_two + 64 * 32 <= plan.smem_bytes
