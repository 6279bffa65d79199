"""The correction of the cost models: the stored trees are as good as those that the command fits, and they improve the
choice."""

from __future__ import annotations

import statistics
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import boosting
import correct
import measured
import numpy as np
import pytest

from qconv import Conv2d, Quantization, generator
from qconv.generator.expect import read
from qconv.targets.target import target
from qconv.tune_db.measurement import Measurement

PROBLEM = Conv2d(1, 14, 14, 64, 64, 3, 3, pad=1)


def test_boosting_finds_a_step_and_what_two_features_do_together() -> None:
    grid = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), -1).reshape(-1, 2)
    wanted = np.where(grid[:, 0] > 4, 0.5, 0.0) + np.where((grid[:, 0] > 7) & (grid[:, 1] > 2), 0.3, 0.0)
    each = np.arange(len(grid))
    forest = boosting.fit(grid, wanted, np.ones(len(grid)), each, replace(correct.HOW, shared=1.0))
    assert np.abs(forest.values(grid) - wanted).max() < 0.02
    again = boosting.fit(grid, wanted, np.ones(len(grid)), each, replace(correct.HOW, shared=1.0))
    assert again == forest


def test_of_splits_that_explain_the_same_the_first_is_taken() -> None:
    """The sums of the second column are those of the first from the other end: equal, but for how they are rounded."""
    column = np.arange(240.0) // 10
    rows, wanted = np.stack((column, -column), -1), np.random.default_rng(1).standard_normal(240)
    forest = boosting.fit(rows, wanted, np.ones(240), np.arange(240), replace(correct.HOW, shared=1.0))
    assert {feature for tree in forest.trees for feature in tree.features} <= {0, -1}


def test_what_all_rows_of_a_problem_share_counts_less() -> None:
    rows, problems = np.arange(40.0)[:, None], np.arange(40) // 20
    wanted = np.where(problems == 1, 1.0, 0.0) + np.where(np.arange(40) % 20 > 9, 0.5, 0.0)
    how = boosting.Boosting(trees=20, ridge=0.1, least_weight=2.0)
    values = [
        boosting.fit(rows, wanted, np.ones(40), problems, replace(how, shared=s)).values(rows) for s in (0.1, 1.0)
    ]
    between = [value[20:].mean() - value[:20].mean() for value in values]
    within = [value[10:20].mean() - value[:10].mean() for value in values]
    assert between[0] < 0.5 * between[1]
    assert within[0] > 0.7 * within[1]


def test_rows_are_packed_and_read_again(tmp_path: Path) -> None:
    plans = [*generator.space(PROBLEM, target("sm_90a"), likely=True)[0][:3]]
    rows = [measurement(plan, 10.0 + number, number != 1) for number, plan in enumerate(plans)]
    assert (
        measured.pack(
            [*rows, replace(rows[0], outcome="runtime", reason="x", times_us=(), median_us=None)],
            tmp_path / "x" / "rows.gz",
        )
        == 3
    )
    ((problem, found),) = measured.read(tmp_path / "x" / "rows.gz").items()
    assert problem == PROBLEM
    assert {(row.plan, row.us, row.is_newest) for row in found} == {
        (plan, 10.0 + number, number != 1) for number, plan in enumerate(plans)
    }
    with pytest.raises(ValueError, match="2 devices"):
        measured.pack([rows[0], replace(rows[1], device="NVIDIA H100")], tmp_path / "rows.gz")


def test_rows_of_kernels_that_are_no_more_are_not_judged_by(tmp_path: Path) -> None:
    """Covers wgmma's times with a residual before today's templates, and problems that have no other times of it."""
    layer = Conv2d(32, 56, 56, 64, 256, 1, 1, quantization=Quantization(residual="int8"))
    plans, _ = generator.space(layer, target("sm_90a"), likely=True)
    others, of_wgmma = (
        [plan for plan in plans if (plan.config.family == "wgmma") == is_wgmma][:7] for is_wgmma in (False, True)
    )
    for known, is_judged in (([0, 1], True), ([], False)):
        rows = [measurement(plan, 20.0 + number, number % 2 == 0) for number, plan in enumerate(others)]
        rows += [measurement(plan, 10.0 + number, number in known) for number, plan in enumerate(of_wgmma)]
        measured.pack(rows, tmp_path / "rows.gz")
        data = correct.data_of(tmp_path / "rows.gz")
        assert data.is_current.sum() == len(others) + len(known)
        # The slowest of the current rows is chosen.
        found = correct.ratios(data, 1 / data.us, lambda problem: True)
        assert found == ({layer: pytest.approx(10 / 26)} if is_judged else {})


def measurement(plan: generator.Plan, us: float, is_newest: bool) -> Measurement:
    return Measurement(
        problem=plan.problem,
        config=plan.config,
        device="NVIDIA H200",
        target="sm_90a",
        toolchain="nvrtc 13.0",
        digest=generator.render(plan).digest if is_newest else "0" * 32,
        outcome="correct",
        times_us=(us,),
        median_us=us,
        created_at=datetime(2026, 11, 25, tzinfo=UTC),
    )


def errors(data: correct.Data, found: correct.Corrections) -> dict[str, float]:
    """Return the root mean square error of the logarithms of each family's times."""
    times = generator.model(found.get).expected(data.plans)
    off = np.log(data.us / np.array([one.us for one in times]))
    families = np.array([plan.config.family for plan in data.plans])
    return {
        family: float(np.sqrt(np.average(off[own] ** 2, weights=data.weights[own])))
        for family in found
        for own in [data.is_current & (families == family)]
    }


@pytest.mark.slow
def test_the_stored_trees_explain_the_measurements_as_well_as_those_that_the_command_fits() -> None:
    """One split that another processor rounds the other way changes all trees behind it, and not how good they are."""
    data = correct.data_of(measured.PATH)
    stored = {path.stem: read(path.read_text()) for path in correct.CORRECTIONS.iterdir()}
    fitted = correct.fitted(data, np.ones(len(data.us), bool))
    assert fitted.keys() == stored.keys()
    best = errors(data, fitted)
    for family, error in errors(data, stored).items():
        assert error <= 1.02 * best[family], family
    assert all(0.01 < correction.spread < 0.5 for correction in stored.values())


@pytest.mark.many
@pytest.mark.slow
def test_networks_that_it_does_not_know_are_served_better_than_by_the_cost_model() -> None:
    data = correct.data_of(measured.PATH)
    found = correct.judged(data)
    known = np.where(np.isnan(found.corrected_us), np.nan, found.model_us)
    for wanted in (lambda problem: not problem.parts, lambda problem: bool(problem.parts)):
        plain, corrected = (
            sorted(correct.ratios(data, times, wanted).values()) for times in (known, found.corrected_us)
        )
        assert len(plain) == len(corrected) > 100
        assert statistics.geometric_mean(corrected) > max(0.94, statistics.geometric_mean(plain))
        assert np.quantile(corrected, 0.1) > max(0.85, np.quantile(plain, 0.1))
