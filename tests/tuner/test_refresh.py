"""Which winners are stale, and what is kept when they were tuned again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from qconv import generator
from qconv.tuner.refresh import kept, stale, workload_of
from tests.tuner.test_evaluate import CPU, MANY, PROBLEM, Recorded

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


def test_they_are_a_workload() -> None:
    other = replace(Recorded()._row(MANY, ONE, 8.0, "raced", DAY), digest="0" * 16)
    entries = workload_of(stale([OLD, other])).entries
    assert {entry.problem for entry in entries} == {PROBLEM, MANY}
    assert entries[0].places == ("tuned 2026-03-04",)
