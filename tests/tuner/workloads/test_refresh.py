"""Stale winners, and the winners kept after tuning them again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from qconv import Conv2d, generator
from qconv.generator import Config
from qconv.targets.target import target
from qconv.tune_db.measurement import Measurement
from qconv.tuner.workloads.refresh import OVERTAKEN, kept, overtaken, stale, workload_of
from tests.tuner.measure.test_evaluate import CPU, MANY, PROBLEM, Recorded

ONE, TWO, THREE = (plan.config for plan in generator.space(PROBLEM, CPU.target)[0][:3])
DAY = datetime(2026, 3, 4, tzinfo=UTC)
GOOD = Recorded()._row(PROBLEM, ONE, 10.0, "raced", DAY)
OLD = replace(Recorded()._row(PROBLEM, TWO, 8.0, "raced", DAY), digest="0" * 16)


def test_a_winner_of_an_older_template_is_stale() -> None:
    assert stale([GOOD]) == []
    assert stale([GOOD, OLD]) == [OLD]
    other = replace(OLD, device="another")
    assert stale([GOOD, other, replace(other, median_us=9.0, times_us=(9.0,), config=THREE)]) == [other]


def test_what_was_measured_again_is_not_stale_though_it_was_faster() -> None:
    again = Recorded()._row(PROBLEM, TWO, 12.0, "raced")
    assert stale([GOOD, OLD, again]) == []
    assert kept([GOOD, OLD, again]) == [GOOD]
    assert kept([OLD, again]) == [again]
    assert kept([OLD]) == [OLD]


def test_a_loser_of_an_older_template_is_nobodys_concern() -> None:
    assert stale([GOOD, replace(OLD, median_us=11.0, times_us=(11.0,))]) == []


def test_a_winner_is_overtaken_where_a_kernel_is_expected_to_be_much_faster() -> None:
    hopper, problem = target("sm_90a"), Conv2d(32, 56, 56, 64, 64, 3, 3, pad=1)
    default = generator.default(problem, hopper)
    (expected,) = generator.expected([default])
    older = next(plan.config for plan in generator.space(problem, hopper)[0] if plan.config.family == "mma")

    def row(config: Config, times: float, device: str = "NVIDIA H200") -> Measurement:
        us = times * expected.us
        plan = {"problem": problem, "config": config, "device": device, "target": hopper.name}
        return replace(GOOD, **plan, times_us=(us,), median_us=us)  # type: ignore[arg-type]

    slow, fast = row(older, 1.01 * OVERTAKEN), row(older, 0.99 * OVERTAKEN)
    assert (overtaken([slow]), overtaken([fast])) == ([slow], [])
    assert overtaken([slow, row(default.config, 2 * OVERTAKEN)]) == []
    # The expected time for another GPU is scaled by its speed.
    assert overtaken([row(older, 1.01 * OVERTAKEN, "NVIDIA H100 80GB HBM3")]) == []
    assert overtaken([GOOD]) == []


def test_they_are_a_workload() -> None:
    other = replace(Recorded()._row(MANY, ONE, 8.0, "raced", DAY), digest="0" * 16)
    entries = workload_of(stale([OLD, other])).entries
    assert {entry.problem for entry in entries} == {PROBLEM, MANY}
    assert entries[0].places == ("tuned 2026-03-04",)
