"""The page `stem_pool` on the CPU device: its consumers' waits, signals and fences, and the positions of a window's
sums, changed one by one; the sanitizers; random problems; and unsupported problems."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from devices import EVERY_DEVICE
from exactness import check as check_exact
from exactness import check_all
from mostly_slow import mostly_slow
from random_pooled import stem_pools
from random_special import special_plan

from qconv import Conv2d, PooledConv2d, Quantization, generator
from qconv.device import Device, open_device
from qconv.errors import Infeasible
from qconv.generator.families.stem_pool import CHOICES, StemPool, StemPoolPlan
from qconv.instances.load.pair import load
from qconv.ops.registry import Sample, op_of
from qconv.targets.target import TARGETS
from qconv.tuner.measure.verification import mismatch
from tests.templates.test_fences import LATE, LeftOut, check_left_out, finding
from tests.templates.test_mma_sanitizers import WRONG, check
from tests.templates.test_stem_wgmma import layer
from tests.templates.test_wgmma import EARLY

TARGET = TARGETS["cpu.sm_90a"]
ZERO = Quantization(x_type="uint8", x_zero_point=True, bias="int32", activation="relu")
SIGNED = Quantization(per_channel=True, bias="int32")
UNSIGNED = Quantization(x_type="uint8")
FAST, LONG, CHUNK = 5, 300, 20


def plan_of(convolution: Conv2d, window: object, pad: object, **config: int) -> StemPoolPlan:
    problem = PooledConv2d.over(convolution, window=window, window_stride=2, window_pad=pad)
    made = generator.plan(problem, StemPool(**({"windows": 4, "team": 1} | config)), TARGET)
    assert isinstance(made, StemPoolPlan)
    return made


# Several strips of images per consumer, so that rings and halves wrap around.
PLANS = {
    "staged": plan_of(layer(5, 60, 64, 3, 64, 7, 7, quantization=ZERO), 3, 1),
    "before": plan_of(layer(6, 44, 48, 3, 48, 5, 5, quantization=SIGNED), 3, 0, team=4),
    "uneven": plan_of(layer(3, 59, 60, 4, 16, 5, 5, quantization=ZERO), 3, (1, 0, 1, 2), windows=2),
    "pairs": plan_of(layer(4, 44, 48, 3, 144, 3, 3, quantization=SIGNED), 2, 0, windows=6, team=4),
    "tall": plan_of(layer(4, 50, 52, 4, 48, 6, 3, pad=(2, 0, 1, 3), quantization=ZERO), (3, 2), (0, 0, 2, 0)),
    "wide": plan_of(layer(4, 50, 52, 4, 48, 3, 6, quantization=ZERO), (2, 3), (0, 1, 0, 1)),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_left_out(name: str) -> None:
    plan = PLANS[name]
    assert plan.strips > 2 * plan.blocks
    assert [finding(plan, generator.render(plan).text, seed) for seed in (LATE, EARLY)] == [None, None]


@pytest.mark.parametrize(("window", "pad"), [(2, (0, 0, 1, 1)), (3, 1)])
def test_the_least_sums_are_above_what_stands_for_no_output(window: int, pad: object) -> None:
    """Every product is the least, -128 * 255, also in windows that extend past the outputs."""
    plan = plan_of(layer(1, 13, 16, 4, 16, 8, 8, pad=4, quantization=UNSIGNED), window, pad)
    problem = plan.problem
    x, w = (tensor.shape for tensor in problem.inputs)
    drawn = Sample((np.full(x, 255, np.uint8), np.full(w, -128, np.int8)), {"y_scale": 2.0**17})
    (y,) = op_of(problem).compute(problem, drawn)
    assert np.unique(y).size > 4
    assert mismatch(load(plan, open_device(plan.target.name)), drawn) is None


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(PLANS, ["uneven"]))
def test_warps_of_a_consumer_need_not_go_together(name: str) -> None:
    """The memory model requires no more than a warp does: what one warp releases, others have seen."""
    plan = PLANS[name]
    text = generator.render(plan).text
    coupled = "    qconv_cpu_barrier_of_team(tile::warpgroup(), 128, line);\n"
    assert text.count(coupled) == 1
    alone = text.replace(coupled, "    tile::warp_barrier();\n")
    assert [finding(plan, alone, seed) for seed in (LATE, EARLY)] == [None, None]


RING = "    shared.ring.wait(at);\n"
RELEASE = "        if (tile::lane() == 0) shared.ring.release(at);\n"
STAGED = "    tile::fence_proxy_async();\n}\n\n// Makes"
READS = "    if (is_elected) tile::wait_for_store_reads<0>();\n"
THERE = "    tile::warpgroup_barrier(consumer);\n"

LEFT_OUT = {
    "the wait for the cells": LeftOut("staged", RING, "", f"wait|that has completed|{WRONG}"),
    "the word that a window is read": LeftOut("staged", RELEASE, "", "wait"),
    "the fence behind the outputs": LeftOut("staged", STAGED, "}\n\n// Makes", WRONG),
    "the wait until outputs have left": LeftOut("staged", READS, "", WRONG),
    "the barrier behind the outputs": LeftOut("staged", THERE, "", WRONG),
    "the other half": LeftOut("staged", "    stores.half = 1 - stores.half;\n", "", WRONG),
    "the barrier behind the edges": LeftOut("staged", "    tile::warp_barrier();\n#pragma", "#pragma", WRONG, EARLY),
    "the edge in front of the first": LeftOut("staged", "tiles.along == 0 && window == 0", "false", WRONG),
    "the other half of the edges": LeftOut("staged", "last ? 1 - half : half", "half", WRONG),
    "which half of the edges it is": LeftOut(
        "before", "(tiles.round * TILES_ACROSS + tiles.along) % 2", "0", WRONG
    ),
    "the edge of the window before": LeftOut("staged", "last ? 0 : window + 1", "last ? 0 : window", WRONG),
    "the padding above": LeftOut("staged", "    if (row < 0) {", "    if (false) {", WRONG),
    "the padding below and right": LeftOut("tall", "USED_ROWS <= CONVOLUTION_H", "0 <= CONVOLUTION_H", WRONG),
    "columns that do not exist": LeftOut("wide", "column + 8 <= CONVOLUTION_W", "true", WRONG),
    "a window's third row": LeftOut("tall", "return larger(two, sums[2 * down + 2][column]);", "return two;", WRONG),
    "the tile in front of the first": LeftOut(
        "before", "    if (tiles.is_before()) return;\n", "", "that begins before the array"
    ),
    "the first column of the output": LeftOut("before", "WINDOWS_ACROSS + FIRST_COLUMN", "WINDOWS_ACROSS", WRONG),
    "rows of windows": LeftOut("staged", "TILES_DOWN * (2 * WINDOWS_DOWN)", "TILES_DOWN * TILE_H", WRONG),
    "strips of one consumer": LeftOut("staged", "first_strip() + consumer", "first_strip()", WRONG),
    "where the outputs of a matrix lie": LeftOut("staged", "+ lane % 8 / 2;", "+ lane % 4;", WRONG),
    "which rows are a matrix": LeftOut("staged", "largest, 2 * matrix, finished", "largest, matrix, finished", WRONG),
    "the first step, which does not add": LeftOut("staged", "sums[0], step > 0);", "sums[0], true);", WRONG),
}  # fmt: skip


@pytest.mark.turns
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_is_found(name: str) -> None:
    check_left_out(PLANS[LEFT_OUT[name].plan], LEFT_OUT[name])


RUNS = {
    f"{name}-{sanitizer}-{seed}": (name, sanitizer, seed)
    for sanitizer, seed in (("address", LATE), ("thread", LATE), ("thread", EARLY))
    for name in PLANS
}


@pytest.mark.turns
@pytest.mark.parametrize("run", mostly_slow(RUNS, []))
def test_nothing_is_found(run: str) -> None:
    name, sanitizer, seed = RUNS[run]
    check(PLANS[name], sanitizer, seed)  # type: ignore[arg-type]


random_plan = partial(special_plan, "stem_pool")


def check_on(device: Device, first: int, count: int) -> None:
    target = TARGET if device.target.vendor == "cpu" else device.target
    if target.warpgroup is None:
        pytest.skip(f"{target.name} has no wgmma")
    chosen = list(enumerate(stem_pools(2, LONG)))[first : first + count]
    plans = [random_plan(problem, target, index) for index, problem in chosen]
    if device.target.vendor == "cpu":
        check_all(plans, first)
    else:
        for index, plan in enumerate(plans, first):
            check_exact(plan, device, seed=index)


@pytest.mark.many
@pytest.mark.parametrize("first", range(0, LONG, CHUNK))
@pytest.mark.parametrize("device", EVERY_DEVICE, indirect=True)
def test_many_random_configs(device: Device, first: int) -> None:
    check_on(device, first, CHUNK)


@pytest.mark.gpu
def test_a_few_for_the_sanitizer(gpu: Device) -> None:
    check_on(gpu, 0, 4)


def test_a_random_config() -> None:
    check_all([random_plan(problem, TARGET, index) for index, problem in enumerate(stem_pools(1, FAST))], 0)


def test_random_problems_have_all_that_the_family_serves() -> None:
    problems = stem_pools(2, LONG)
    assert {problem.window for problem in problems} == {(2, 2), (2, 3), (3, 2), (3, 3)}
    assert {problem.window_pad[1] for problem in problems if problem.window[1] == 3} == {0, 1}
    assert {problem.quantization.out_type for problem in problems} == {"int8", "uint8"}
    plans = [random_plan(problem, TARGET, index) for index, problem in enumerate(problems)]
    assert {plan.config.as_dict()["windows"] for plan in plans} >= set(CHOICES["windows"][:-1])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"c": 2}, "cells have 3 or 4 channels in one group .here c=2"),
        ({"k": 24}, "k=24: TMA stores rows of whole 16 bytes; unfused serves it"),
        ({"window_stride": (2, 1)}, "two pixels of a lane have a window of two or three; unfused serves it"),
        ({"window": (4, 4)}, r"window=\(4, 4\)"),
        ({"window_pad": (2, 0, 0, 0)}, "windows of 3 rows begin with their pair"),
        ({"window_pad": (0, 2, 0, 0)}, "windows of 3 columns begin with their pair"),
        ({"quantization": Quantization(activation="hardswish")}, "activation=hardswish, table=False: only none, relu"),
        (
            {"quantization": Quantization("float16", "float16", "int8")},
            "float16 by float16: the largest of sums is found",
        ),
        ({"quantization": Quantization(table=True)}, "table=True: only none, relu, clamp keep the order of sums"),
    ],
)
def test_what_it_does_not_serve(change: dict[str, object], says: str) -> None:
    convolution = Conv2d(1, 32, 32, 3, 64, 7, 7, stride=2, pad=3)
    problem = PooledConv2d.over(convolution, window=3, window_stride=2, window_pad=1)
    with pytest.raises(Infeasible, match=says):
        generator.plan(replace(problem, **change), StemPool(4, 1), TARGET)  # type: ignore[arg-type]


def test_a_gpu_without_warpgroups_runs_the_two_in_turn() -> None:
    problem = PooledConv2d.over(Conv2d(8, 224, 224, 3, 64, 7, 7, stride=2, pad=3), window=3, window_stride=2)
    with pytest.raises(Infeasible, match="no matrix instruction of warpgroups"):
        generator.plan(problem, StemPool(4, 1), TARGETS["sm_80"])
    assert generator.default(problem, TARGETS["sm_80"]).parts
