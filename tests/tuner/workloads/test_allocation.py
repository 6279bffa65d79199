"""The distribution of a budget, by arithmetic alone."""

from __future__ import annotations

from typing import Any

import pytest

from qconv.tuner.workloads.allocation import FIRST_TRIALS, Budget, Standing, first_totals, seconds_for, totals

PLENTY = 10**9


def test_trials_go_where_the_time_is() -> None:
    standings = [Standing(0, PLENTY, stake) for stake in (600.0, 300.0, 100.0)]
    assert totals(standings, 100) == [180, 90, 30]
    assert sum(totals(standings, 33)) == 99


def test_everything_is_measured_a_little_before_anything_much() -> None:
    standings = [Standing(0, PLENTY, 1e6), Standing(3, PLENTY, 1.0), Standing(0, 5, 1.0)]
    assert first_totals(standings, 24) == [FIRST_TRIALS, FIRST_TRIALS, 5]
    assert first_totals(standings, 2) == [2, 3, 2]
    assert totals(standings, 24) == [72 - FIRST_TRIALS - 5, FIRST_TRIALS, 5]


def test_what_was_made_counts_and_is_not_taken_back() -> None:
    standings = [Standing(0, PLENTY, 500.0), Standing(60, PLENTY, 500.0)]
    assert totals(standings, 40) == [20, 60]
    # Once they have their shares, nothing is left.
    assert totals([Standing(20, PLENTY, 400.0), Standing(60, PLENTY, 9.0)], 40) == [20, 60]
    assert totals([Standing(50, PLENTY, 1.0), Standing(60, PLENTY, 9.0)], 40) == [50, 60]


def test_a_space_that_is_exhausted_leaves_its_trials_to_the_others() -> None:
    assert totals([Standing(0, 10, 900.0), Standing(0, PLENTY, 100.0)], 50) == [10, 90]
    assert totals([Standing(0, 10, 900.0), Standing(0, 12, 100.0)], 50) == [10, 12]


def test_only_the_time_is_limited() -> None:
    assert totals([Standing(3, 40, 1.0), Standing(0, 7, 1.0)], None) == [40, 7]


def test_seconds_go_where_the_time_is() -> None:
    assert seconds_for([300.0, 100.0], 60.0) == 45.0
    assert seconds_for([100.0], 15.0) == 15.0
    assert seconds_for([0.0, 0.0], 10.0) == 5.0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "a budget of nothing"),
        ({"trials": 0}, "trials=0 must be at least 1"),
        ({"trials": True}, "trials=True must be"),
        ({"trials": "12"}, "trials='12' must be an integer"),
        ({"trials": 2.5}, "trials=2.5 must be an integer"),
        ({"seconds": "60"}, "seconds='60' must be a number"),
        ({"gain_percent": None, "seconds": True}, "seconds=True must be a number"),
        ({"seconds": 0.0}, "seconds=0 must be above 0"),
        ({"seconds": float("nan")}, "seconds=nan must be"),
        ({"seconds": 1e6}, "at most 86400"),
    ],
)
def test_a_budget_that_is_none(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Budget(**given)
