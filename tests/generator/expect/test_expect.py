"""The expected time of a plan: its cost model's time, corrected by trees that are stored as plain numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from qconv import Conv2d, Quantization, generator
from qconv.generator import Plan
from qconv.generator.cost_units import CLOCK_MHZ, OFFSET, Y_ZERO_POINT
from qconv.generator.expect import LEAVES, UNKNOWN, Correction, Expected, Forest, Tree, read, stored, written
from qconv.generator.expect.features import of_problem
from qconv.generator.families.depthwise import DepthwisePlan
from qconv.generator.families.direct import DirectPlan
from qconv.generator.families.mma.plan import MmaPlan
from qconv.generator.families.stem import StemPlan
from qconv.problem.chain import chain_of
from qconv.targets.target import target

HOPPER = target("sm_90a")
DENSE = Conv2d(4, 28, 28, 64, 64, 3, 3, pad=1)
PROBLEMS = [
    DENSE,
    Conv2d(4, 28, 28, 96, 40, 1, 1),
    Conv2d(4, 28, 28, 96, 96, 3, 3, pad=1, groups=96),
    Conv2d(4, 28, 28, 3, 32, 3, 3, pad=1),
    Conv2d(1, 1, 1, 96, 40, 1, 1),
    chain_of([DENSE, Conv2d(4, 28, 28, 64, 32, 1, 1)]),
]


def test_a_tree_goes_right_where_a_feature_is_above_its_limit() -> None:
    asks = Tree((0, 1, -1, 0, -1, -1, -1), (1.0, 5.0, 0.0, 0.5, 0.0, 0.0, 0.0), tuple(range(LEAVES)))
    rows = [[0.0, 5.0], [0.7, 5.0], [0.0, 5.1], [1.0, 9.0], [1.1, 0.0]]
    assert Forest((asks,)).values(rows).tolist() == [0.0, 1.0, 2.0, 2.0, 4.0]
    assert Forest((asks, asks)).values(rows).tolist() == [0.0, 2.0, 4.0, 4.0, 8.0]
    assert Forest(()).values(rows).tolist() == [0.0] * 5
    assert Forest((asks,)).values(np.zeros((0, 2))).tolist() == []


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_what_is_stored_asks_for_what_is_given(problem: Conv2d) -> None:
    """The trees name features: a current plan has all of these, each with a number."""
    plans = generator.cheapest(problem, HOPPER, 2)
    for plan in [*plans, *([generator.unfused_plan(problem, HOPPER)] if problem.parts else [])]:
        correction = stored(plan.config.family)
        assert correction is not None
        own = correction.features
        given = generator.model().features(plan, generator.predicted_us(plan))
        assert tuple(given) == own
        assert all(map(math.isfinite, given.values()))


def test_features_say_what_a_plan_leaves_empty() -> None:
    """784 pixels are 13 tiles of 64; 40 channels are tiles of 32 or of 40."""
    problem = Conv2d(1, 28, 28, 96, 40, 1, 1)
    plans, _ = generator.space(problem, HOPPER, likely=True)
    plan = next(one for one in plans if isinstance(one, MmaPlan) and one.config.tile_m == 64 and one.config.split == 1)
    given = generator.model().features(plan, 1.0)
    tile_n = plan.config.tile_n
    assert given["m_filled"] == pytest.approx(784 / (13 * 64))
    assert given["n_filled"] == pytest.approx(40 / (tile_n * math.ceil(40 / tile_n)))
    assert (given["c_filled"], given["c_aligned"], given["k_aligned"]) == (0.75, 5.0, 3.0)
    assert (given["us"], given["config.tile_m"]) == (0.0, pytest.approx(math.log2(65)))
    assert given["blocks_per_sm"] == pytest.approx(math.log2(plan.blocks / 132))
    assert given["epilogue"] == 0
    assert given["waves"] <= given["blocks_per_sm"] < 0


def test_features_say_what_is_done_with_an_output() -> None:
    """A bias and an input zero point are one number, which is added; the output zero point is another."""
    bias = Quantization(per_channel=True, bias="int32")
    ways = (bias, replace(bias, x_zero_point=True), replace(bias, y_zero_point=True), replace(bias, residual="int8"))
    given = [of_problem(replace(DENSE, quantization=way))["epilogue"] for way in ways]
    assert given[0] == given[1] == OFFSET
    assert given[2:] == [OFFSET + Y_ZERO_POINT, OFFSET + 4]


def test_features_say_how_a_depthwise_layer_is_divided() -> None:
    """28 rows by threads of 8 rows: four tiles of rows, an eighth of whose rows is outside."""
    problem = Conv2d(4, 28, 28, 96, 96, 3, 3, pad=1, groups=96)
    plans, _ = generator.space(problem, HOPPER)
    plan = next(one for one in plans if isinstance(one, DepthwisePlan) and one.config.rows == 8)
    given = generator.model().features(plan, 1.0)
    rounds = plan.blocks / (plan.resident * 132)
    assert given["rows_filled"] == pytest.approx(28 / 32)
    assert given["rounds"] == pytest.approx(math.log2(rounds))
    assert given["last_round"] == pytest.approx(rounds / math.ceil(rounds))


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (DepthwisePlan, Conv2d(4, 28, 28, 96, 96, 3, 3, pad=1, groups=96)),
        (StemPlan, Conv2d(4, 28, 28, 3, 16, 3, 3, pad=1)),
    ],
)
def test_a_layer_of_floats_is_not_corrected_by_bytes(kind: type[Plan], problem: Conv2d) -> None:
    """The shipped trees are fitted to kernels of bytes."""
    halves = Quantization("float16", "float16", "float16")
    for quantization, is_corrected in ((Quantization(), True), (halves, False)):
        plans, _ = generator.space(replace(problem, quantization=quantization), HOPPER)
        plan = next(one for one in plans if isinstance(one, kind))
        assert generator.expected([plan])[0].is_corrected == is_corrected


def test_a_grouped_layer_of_floats_is_not_corrected_by_bytes() -> None:
    halves = Quantization("float16", "float16", "float16")
    problem = Conv2d(4, 28, 28, 128, 128, 3, 3, pad=1, groups=32)
    for quantization, is_corrected in ((Quantization(), True), (halves, False)):
        plans, _ = generator.space(replace(problem, quantization=quantization), HOPPER, likely=True)
        plan = next(one for one in plans if isinstance(one, DirectPlan))
        assert generator.expected([plan])[0].is_corrected == is_corrected


def test_the_cost_model_is_corrected_by_the_trees() -> None:
    plan = generator.cheapest(DENSE, HOPPER, 1)[0]
    doubles = Forest((Tree((-1,) * 7, (0.0,) * 7, (math.log(2),) * LEAVES),))
    correction = Correction("Hopper", 0.1, tuple(generator.model().features(plan, 1.0)), doubles)
    own = generator.model({plan.config.family: correction}.get)
    assert own.expected([plan]) == [Expected(pytest.approx(2 * generator.cost(plan) / CLOCK_MHZ), 0.1)]
    for corrections in ({plan.config.family: replace(correction, generation="Ampere")}, {}):
        assert generator.model(corrections.get).expected([plan]) == [
            Expected(generator.cost(plan) / CLOCK_MHZ, UNKNOWN)
        ]


def test_kernels_of_a_chain_are_expected_to_take_what_each_takes() -> None:
    plan = generator.unfused_plan(PROBLEMS[-1], HOPPER)
    (whole,) = generator.model(lambda family: None if family == "unfused" else stored(family)).expected([plan])
    parts = [generator.expected([part])[0].us for part in plan.parts]
    assert whole == Expected(pytest.approx(sum(parts)), UNKNOWN)


def test_plans_of_several_families_come_back_in_their_order() -> None:
    plans = generator.cheapest(DENSE, HOPPER, 3)
    mixed = plans[::2] + plans[1::2]
    assert len({plan.config.family for plan in plans}) > 1
    assert generator.expected(mixed) == [generator.expected([plan])[0] for plan in mixed]
    assert generator.fastest(mixed) == min(mixed, key=lambda plan: generator.expected([plan])[0].us)


def test_what_is_written_is_read() -> None:
    correction = stored("simt")
    assert correction is not None
    text = written(correction)
    assert read(text) == correction
    assert text.count("\n") == len(correction.forest.trees) + 2  # a review sees which tree changed


def test_a_prediction_says_how_sure_it_is() -> None:
    assert str(Expected(12.34, math.log(1.2))) == "12.3 us, give or take 20 %"
