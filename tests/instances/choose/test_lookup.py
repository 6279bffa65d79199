"""The choices of lookup for untuned problems: neighbours' winners, configs near them and the cost model's best, ranked
by their expected time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from qconv import Conv2d, Quantization, generator
from qconv.conversion import Quantize
from qconv.errors import Infeasible
from qconv.generator import Config, Plan
from qconv.instances.choose import lookup
from qconv.instances.choose.lookup import (
    ABOUT_AS_FAST,
    NEIGHBOURS,
    TRUST,
    TRUST_CLOSEST,
    TRUST_OLDER,
    UNCORRECTED,
    UNCORRECTED_OLDER,
    Transfer,
    choose,
    ranked,
)
from qconv.op import Problem
from qconv.problem.chain import FusedConv2d
from qconv.targets.target import target
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import KEPT, LOST, Measurement
from qconv.tune_db.text import TextLayer, dump

TARGET = target("sm_90a")
PROBLEM = Conv2d(4, 28, 28, 64, 64, 3, 3, pad=1)
# Problems of its kind, each one doubling away from the next; a kernel for one runs on the other.
NEIGHBOUR, FARTHER = replace(PROBLEM, n=8), replace(PROBLEM, n=16)
OLDER = "0" * 32
BIASED = Quantization(per_channel=True, bias="int32")


class H200:
    name, target = "NVIDIA H200", TARGET


def row(problem: Problem, config: Config, median_us: float | None = None, digest: str | None = None) -> Measurement:
    """Return a row; without a time, it has its expected time."""
    plan = generator.plan(problem, config, TARGET)
    time_us = median_us or generator.expected([plan])[0].us
    return Measurement(
        problem=problem,
        config=config,
        device=H200.name,
        target=TARGET.name,
        toolchain="nvrtc 13.0",
        digest=digest or generator.render(plan).digest,
        outcome="correct",
        times_us=(time_us,),
        median_us=time_us,
        created_at=datetime(2026, 11, 21, tzinfo=UTC),
    )


def chosen(problem: Problem, *rows: Measurement) -> tuple[Plan, str, str]:
    layers = Layered([TextLayer(dump(list(rows)), "rows.json")])
    choice = choose(problem, H200(), layers)
    assert choice.toolchain is None
    return choice.plan, choice.origin, choice.reason


@pytest.fixture(autouse=True)
def planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache the cost model's best: it takes a tenth of a second, and these tests ask for it repeatedly. Configs that
    differ from a neighbour's in one field have their own tests."""
    monkeypatch.setattr(generator, "cheapest", CHEAPEST)
    monkeypatch.setattr(lookup, "moved", lambda plan: iter(()))


CHEAPEST = cache(generator.cheapest)


@pytest.fixture(scope="module")
def ratios() -> dict[Config, float]:
    """Return the expected times of configs that serve the problem and its neighbours, relative to the least."""
    plans = CHEAPEST(PROBLEM, TARGET, generator.RANKED)
    times = [one.us for one in generator.expected(plans)]
    found = {plan.config: us / min(times) for plan, us in zip(plans, times, strict=True)}
    return {one: ratio for one, ratio in found.items() if serves(NEIGHBOUR, one) and serves(FARTHER, one)}


def between(ratios: dict[Config, float], least: float, most: float) -> Config:
    return next(config for config, ratio in ratios.items() if least < ratio <= most)


@pytest.mark.parametrize(
    ("least", "most", "digest", "origin"),
    [
        (0.99, 1.0, None, "nearest"),
        (1.0, TRUST, None, "nearest"),
        (TRUST, 1.1, None, "default"),
        (0.99, TRUST_OLDER, OLDER, "nearest"),
        (TRUST_OLDER, TRUST, OLDER, "default"),
    ],
)
def test_a_neighbours_winner_is_taken_as_far_as_the_model_agrees(
    ratios: dict[Config, float], least: float, most: float, digest: str | None, origin: str
) -> None:
    config = between(ratios, least, most)
    plan, said, reason = chosen(PROBLEM, row(NEIGHBOUR, config, digest=digest))
    assert (said, plan.config) == (origin, config if origin == "nearest" else between(ratios, 0.0, 1.0))
    for text in (str(NEIGHBOUR), "1.0 doublings", " us, give or take ", "run qconv-tune tune"):
        assert text in reason
    assert reason.startswith(f"{origin}: ")


@pytest.mark.parametrize(
    ("least", "most", "digest", "origin"),
    [
        (UNCORRECTED_OLDER, UNCORRECTED, None, "nearest"),
        (UNCORRECTED, 1.2, None, "default"),
        (1.0, UNCORRECTED_OLDER, OLDER, "nearest"),
        (UNCORRECTED_OLDER, UNCORRECTED, OLDER, "default"),
    ],
)
def test_a_measurement_says_more_than_a_model_that_nobody_corrected(
    monkeypatch: pytest.MonkeyPatch, least: float, most: float, digest: str | None, origin: str
) -> None:
    monkeypatch.setattr(generator, "expected", generator.model({}.get).expected)
    plans = [plan for plan in CHEAPEST(PROBLEM, TARGET, generator.RANKED) if serves(NEIGHBOUR, plan.config)]
    times = [generator.cost(plan) for plan in plans]
    config = between({p.config: us / min(times) for p, us in zip(plans, times, strict=True)}, least, most)
    plan, said, _ = chosen(PROBLEM, row(NEIGHBOUR, config, digest=digest))
    assert (said, plan.config == config) == (origin, origin == "nearest")


def test_of_two_neighbours_the_model_prefers_one_and_distance_does_not(ratios: dict[Config, float]) -> None:
    better, worse = between(ratios, 0.99, 1.0), between(ratios, 1.06, 1.2)
    plan, origin, reason = chosen(PROBLEM, row(NEIGHBOUR, worse), row(FARTHER, better))
    assert (plan.config, origin) == (better, "nearest")
    assert str(FARTHER) in reason


def test_configs_a_field_away_are_candidates(ratios: dict[Config, float]) -> None:
    """The next choices of each field are candidates where feasible, and are preferred if expected to be faster."""
    plan = generator.plan(PROBLEM, max(ratios, key=ratios.__getitem__), TARGET)
    near = list(MOVED(plan))
    choices = generator.families(PROBLEM)[plan.config.family].choices
    for one in near:
        ((name, was, now),) = (
            (name, getattr(plan.config, name), getattr(one.config, name))
            for name in choices
            if getattr(one.config, name) != getattr(plan.config, name)
        )
        assert abs(choices[name].index(was) - choices[name].index(now)) == 1
    assert len(near) > 3
    transfer = Transfer(plan, row(NEIGHBOUR, plan.config), 1.0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lookup, "moved", MOVED)
        order = ranked([], [transfer], lambda row: True)
    assert {one.plan.config for one in order} == {plan.config, *(one.config for one in near)}
    assert not order[0].is_transfer
    assert str(order[0]).startswith("one field from the winner of ")
    assert [one.expected.us for one in order] == sorted(one.expected.us for one in order)


MOVED = lookup.moved


def test_so_many_neighbours_are_ranked(ratios: dict[Config, float]) -> None:
    better, worse = between(ratios, 0.99, 1.0), max(ratios, key=ratios.__getitem__)
    nearer = [row(replace(PROBLEM, h=28 + i), worse) for i in range(1, NEIGHBOURS + 1)]
    assert chosen(PROBLEM, *nearer[1:], row(FARTHER, better))[1] == "nearest"
    assert chosen(PROBLEM, *nearer, row(FARTHER, better))[1] == "default"


def test_a_neighbour_too_far_is_not_asked(ratios: dict[Config, float]) -> None:
    better = between(ratios, 0.99, 1.0)
    _, origin, reason = chosen(PROBLEM, row(replace(PROBLEM, n=4 * 32), better))
    assert origin == "default"
    assert "nothing near of its kind was tuned" in reason


@pytest.mark.parametrize(
    ("least", "most", "origin"), [(1.1, TRUST_CLOSEST, "nearest"), (TRUST_CLOSEST, 9.0, "default")]
)
@pytest.mark.parametrize("digest", [None, OLDER])
def test_the_same_extents_are_trusted_more(
    ratios: dict[Config, float], least: float, most: float, origin: str, digest: str | None
) -> None:
    """The winner differs in bias or scale only, so the very tiles were measured. If a kernel is expected to be faster
    by more than the model's error, it was added since."""
    config = between(ratios, least, most)
    plan, said, reason = chosen(replace(PROBLEM, quantization=BIASED), row(PROBLEM, config, digest=digest))
    assert (said, plan.config == config) == (origin, origin == "nearest")
    assert "0.0 doublings" in reason


def test_of_a_neighbour_another_config_counts_only_if_it_is_about_as_fast(ratios: dict[Config, float]) -> None:
    """The neighbour's winner uses more blocks than this problem has tiles."""
    of_neighbour = generator.space(FARTHER, TARGET, likely=True)[0]
    winner, fits = next(p.config for p in of_neighbour if not serves(PROBLEM, p.config)), between(ratios, 0.99, 1.0)
    (us,) = (one.us for one in generator.expected([generator.plan(FARTHER, fits, TARGET)]))
    plan, origin, _ = chosen(PROBLEM, row(FARTHER, winner, 1.01 * us / ABOUT_AS_FAST), row(FARTHER, fits, us))
    assert (plan.config, origin) == (fits, "nearest")
    assert chosen(PROBLEM, row(FARTHER, winner, 0.99 * us / ABOUT_AS_FAST), row(FARTHER, fits, us))[1] == "default"


def serves(problem: Problem, config: Config) -> bool:
    try:
        generator.plan(problem, config, TARGET)
    except Infeasible:
        return False
    return True


def test_a_tile_of_another_kind_of_layer_is_not_taken() -> None:
    """Covers choices that took an H200 180 us where the cost model's takes 42, and 44 where fp16 takes 12."""
    tile = generator.config_from_json(
        '{"family": "mma", "instruction": 0, "tile_m": 64, "tile_n": 64, "tile_k": 64, "warp_m": 64, "warp_n": 16, '
        '"pipeline_stages": 2, "prefetch_fragments": 0, "split": 1, "split_last_wave": 0, "persist": 0, "stream_k": 0, '
        '"tile_swizzle_width": 1, "staged": 1}'
    )
    measured = row(Conv2d(32, 56, 56, 64, 64, 1, 1), tile)
    for channels, size in ((80, 80), (96, 56)):
        problem = Conv2d(32, size, size, channels, channels, 1, 1)
        plan, origin, _ = chosen(problem, measured)
        assert (origin, plan) == ("default", generator.default(problem, TARGET))


def test_an_op_whose_costs_are_no_times_takes_its_nearest() -> None:
    problem = Quantize(1, 1, 2**20)
    assert not generator.predicts_time(problem)
    plans, _ = generator.space(problem, TARGET)
    config = plans[-1].config
    plan, origin, reason = chosen(problem, row(replace(problem, inner=2**21), config))
    assert (plan.config, origin) == (config, "nearest")
    assert "expected" not in reason
    assert chosen(replace(problem, inner=2**20 + 1), row(replace(problem, inner=2**21), config))[1] == "default"


DEPTHWISE = Conv2d(4, 28, 28, 64, 64, 3, 3, pad=1, groups=64)
SAME = [
    (PROBLEM, replace(PROBLEM, n=1)),
    (PROBLEM, replace(PROBLEM, h=14, w=7)),
    (PROBLEM, replace(PROBLEM, c=192, k=256)),
    (PROBLEM, replace(PROBLEM, r=5, s=5, pad=2)),
    (PROBLEM, replace(PROBLEM, quantization=Quantization("uint8", out_type="uint8", activation="relu"))),
    (replace(PROBLEM, c=96), replace(PROBLEM, c=32)),
    (DEPTHWISE, replace(DEPTHWISE, c=48, k=48, groups=48)),
]
OTHER = [
    (PROBLEM, replace(PROBLEM, c=96)),
    (PROBLEM, replace(PROBLEM, c=80)),
    (PROBLEM, replace(PROBLEM, k=72)),
    (PROBLEM, replace(PROBLEM, k=1)),
    (replace(PROBLEM, c=3), replace(PROBLEM, c=4)),
    (PROBLEM, replace(PROBLEM, r=1, s=1, pad=0)),
    (PROBLEM, replace(PROBLEM, stride=(2, 2))),
    (PROBLEM, replace(PROBLEM, c=128, k=128, groups=2)),
    (PROBLEM, replace(PROBLEM, layout="nchw")),
    (PROBLEM, replace(PROBLEM, quantization=Quantization(out_type="float32"))),
    (PROBLEM, replace(PROBLEM, quantization=Quantization(w_zero_point=True))),
    (DEPTHWISE, replace(DEPTHWISE, c=72, k=72, groups=72)),
    (DEPTHWISE, replace(DEPTHWISE, k=128)),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=str)
def test_these_are_of_one_kind(one: Conv2d, other: Conv2d) -> None:
    assert one.shape_class == other.shape_class


@pytest.mark.parametrize(("one", "other"), OTHER, ids=str)
def test_these_are_of_two_kinds(one: Conv2d, other: Conv2d) -> None:
    assert one.shape_class != other.shape_class


def test_chains_are_of_one_kind_where_each_of_them_is() -> None:
    pointwise = Conv2d(4, 28, 28, 64, 128, 1, 1)
    chain = FusedConv2d(PROBLEM, pointwise)
    assert chain.shape_class == FusedConv2d(NEIGHBOUR, replace(pointwise, n=8)).shape_class
    assert chain.shape_class != FusedConv2d(PROBLEM, replace(pointwise, k=72)).shape_class


def test_a_network_prefers_what_its_race_kept() -> None:
    """In a network, the kept winner is preferred to rows that were faster alone; a single layer prefers these."""
    first, second = (plan.config for plan in CHEAPEST(PROBLEM, TARGET, generator.RANKED)[:2])
    kept = replace(row(PROBLEM, first, 9.0), protocol={"phase": KEPT})
    layers = Layered([TextLayer(dump([kept, row(PROBLEM, second, 2.0), row(PROBLEM, first, 3.0)]), "rows.json")])
    alone, in_network = choose(PROBLEM, H200(), layers), choose(PROBLEM, H200(), layers, in_sequence=True)
    assert (alone.plan.config, alone.measured_us, alone.is_kept) == (second, 2.0, False)
    assert (in_network.plan.config, in_network.measured_us, in_network.is_kept) == (first, 9.0, True)
    assert in_network.reason == "exact: kept in a network's race at 9.00 us in sequence on 2026-11-21"


@pytest.mark.parametrize("given", [{"protocol": {"phase": LOST}}, {"protocol": {"phase": KEPT}, "digest": OLDER}])
def test_what_lost_in_a_network_or_was_another_source_is_not_preferred(given: dict[str, Any]) -> None:
    first, second = (plan.config for plan in CHEAPEST(PROBLEM, TARGET, generator.RANKED)[:2])
    other = replace(row(PROBLEM, first, 1.0), **given)
    layers = Layered([TextLayer(dump([other, row(PROBLEM, second, 2.0)]), "rows.json")])
    assert choose(PROBLEM, H200(), layers, in_sequence=True).plan.config == second
