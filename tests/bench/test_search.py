"""Searches on a recorded space: their replay and judgement, and that the tuner's own search beats chance."""

from __future__ import annotations

import contextlib
import json
import math
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from qconv import Conv2d, generator
from qconv.targets.target import target

LAYER = Conv2d(1, 14, 14, 32, 32, 3, 3, pad=1)


@pytest.fixture(scope="module")
def replayed() -> Any:
    """Return the simt configs of a layer, with times as if the cost model were right except for an exponent."""
    from recorded import RecordedSpace
    from replay import Replayed

    plans = [plan for plan in generator.space(LAYER, target("cpu"))[0] if plan.config.family == "simt"]
    times: dict[Any, float | None] = {plan.config: math.sqrt(plan.cost()) for plan in plans}
    times[plans[3].config] = None
    return Replayed.of(RecordedSpace(LAYER, "made up", "cpu", times))


def test_a_config_that_is_asked_for_again_costs_nothing(replayed: Any) -> None:
    from replay import Run, SpentError

    run = Run(replayed, 2)
    first, second, third = replayed.configs[2:5]
    assert run.evaluate(first) == run.evaluate(first) == replayed.times_us[first]
    assert run.evaluate(second) is None
    with pytest.raises(SpentError):
        run.evaluate(third)
    best = replayed.best_us / replayed.times_us[first]
    assert run.fractions_of_best() == [best, best]


def test_searches_are_judged_at_each_budget() -> None:
    from replay import summary

    rising = [i / 100 for i in range(1, 101)]
    said = summary([rising, [1.0] * 100])
    assert said["means"] == pytest.approx({"8": 0.54, "16": 0.58, "25": 0.625, "50": 0.75, "100": 1.0})
    assert (said["repeats"], said["reached"]) == (2, 0.5)
    assert said["errors"]["8"] == pytest.approx(0.46 / math.sqrt(2), abs=1e-5)


@pytest.mark.slow
def test_every_search_evaluates_each_config_once(replayed: Any) -> None:
    from replay import Run, SpentError
    from search import missing_for
    from searchers import searches

    missing = {name: module for name in searches() if (module := missing_for(name)) is not None}
    for name, search in searches().items():
        if name not in missing:
            run = Run(replayed, 12)
            with contextlib.suppress(SpentError):
                search(run, 3)
            assert len(run.seen) == 12, name
    if missing:
        pytest.skip(f"{', '.join(sorted(set(missing.values())))} not installed: pip install 'qconv-tune[search]'")


def test_a_search_whose_second_module_is_missing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optuna's GP needs PyTorch and SciPy, and PyTorch does not install SciPy."""
    import search

    monkeypatch.setattr(search.importlib.util, "find_spec", lambda module: None if module == "scipy" else module)
    assert search.missing_for("Optuna GP +") == "scipy"
    assert search.missing_for("Optuna CMA-ES") is None
    assert search.missing_for("random") is None


@pytest.mark.parametrize(
    ("lacks", "searches"), [("scipy", {"Optuna GP"}), ("torch", {"Optuna GP"}), ("cmaes", {"Optuna CMA-ES"})]
)
def test_a_search_says_which_module_it_lacks(lacks: str, searches: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import search

    monkeypatch.setattr(search.importlib.util, "find_spec", lambda name: None if name == lacks else object())
    assert {name for name in search.NEEDED if search.missing_for(f"{name} +") == lacks} == searches


def test_the_table_has_what_the_command_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import recorded
    import search

    problem = Conv2d(1, 4, 4, 8, 8, 1, 1)
    plans, _ = generator.space(problem, target("cpu"))
    space = recorded.RecordedSpace(problem, "made up", "cpu", {plan.config: plan.cost() for plan in plans})
    recorded.write(tmp_path / "tiny.json.gz", space)
    arguments = [str(tmp_path / "tiny.json.gz"), "--only", "^(cheapest|random)", "--repeats", "2", "--trials", "8"]
    search.main([*arguments, "--workers", "1", "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "search.json").read_text())["rows"]
    assert [(row["search"], row["space"], row["repeats"]) for row in rows] == [
        ("random", "tiny", 2),
        ("cheapest +", "tiny", 2),
    ]
    capsys.readouterr()
    search.main([*arguments, "--out", str(tmp_path), "--table"])
    lines = capsys.readouterr().out.splitlines()
    assert {line.split(" | ")[0] for line in lines[2:]} == {"| random", "| cheapest +"}
    assert all(row["means"]["8"] > 0.5 and f"| {row['means']['8']:.3f} |" in "".join(lines) for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize(("with_costs", "lead"), [(True, 0.06), (False, 0.03)])
def test_the_tuners_search_leads_chance_on_a_space_that_was_recorded(with_costs: bool, lead: float) -> None:
    """On a grouped layer on an H200, after 25 of 1200 configs, on average."""
    import recorded
    from replay import Replayed, searched
    from searchers import at_random, ours

    space = Replayed.of(recorded.read(Path(__file__).parents[2] / "bench/spaces/nvidia-h200/grouped.json.gz"))

    def mean(search: Any, seeds: int) -> float:
        return sum(searched(search, space, 25, seed)[-1] for seed in range(seeds)) / seeds

    assert mean(partial(ours, "bayesian", with_costs, 1), 3) >= mean(at_random, 40) + lead


RESULTS = Path(__file__).parents[2] / "bench/results/nvidia-h200/search.json"


@pytest.mark.parametrize("mark", [" +", ""])
def test_the_tuners_search_led_every_other_at_each_budget(mark: str) -> None:
    """In the committed results, with equal weight per space: by itself at each budget; with the costs, with which all
    searches find most optima at once, but for one budget, at which it is within a standard error of the best. Searches
    with the costs are compared with each other, and so are those without. `cheapest` is one of the tuner's."""
    from replay import BUDGETS

    rows = json.loads(RESULTS.read_text())["rows"]
    compared = [row for row in rows if not row["search"].startswith("cheapest") and "flight" not in row["search"]]
    with_mark = [row for row in compared if row["search"].endswith(" +") == bool(mark)]
    behind = []
    spaces = {row["space"] for row in rows}
    names = {row["search"] for row in with_mark}
    assert names >= {f"Optuna {name}{mark}" for name in ("TPE", "GP", "CMA-ES")} | {f"qconv{mark}"}
    for budget in BUDGETS:
        means = {}
        for name in names:
            some = {row["space"]: row["means"].get(str(budget)) for row in with_mark if row["search"] == name}
            assert set(some) == spaces, name
            if all(some.values()):
                means[name] = sum(some.values()) / len(some)
        best = max(means, key=lambda name: means[name])
        own = [row["means"][str(budget)] for row in with_mark if row["search"] == f"qconv{mark}"]
        if best != f"qconv{mark}":
            behind.append(budget)
            assert means[best] - statistics.mean(own) < statistics.stdev(own) / len(own) ** 0.5, (budget, means)
    assert behind in ([], [16] if mark else [])


def test_with_the_cost_model_it_finds_what_is_wanted() -> None:
    rows = [row for row in json.loads(RESULTS.read_text())["rows"] if row["search"] == "qconv +"]
    assert min(row["repeats"] for row in rows) >= 6
    for budget, wanted in {"8": 0.92, "16": 0.96}.items():
        assert sum(row["means"][budget] for row in rows) / len(rows) >= wanted
    assert sum(row["reached"] for row in rows) / len(rows) >= 0.95
