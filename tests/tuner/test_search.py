"""The search against made-up devices: no kernel is compiled, a function of the config stands for the time."""

from __future__ import annotations

import pytest

from qconv import generator
from qconv.generator import Config, Plan
from qconv.problem import Conv2d
from qconv.target import target
from qconv.tuner.search import Search

SMALL = Conv2d(1, 3, 3, 4, 4, 2, 2)
LARGE = Conv2d(8, 28, 28, 64, 96, 3, 3, pad=(1, 1, 1, 1))
TARGET = target("gfx906")  # without matrix instructions: all configs are of the family that the landscape is of


def simulated_us(config: Config) -> float:
    """A smooth landscape with one optimum that is not the default."""
    values = config.as_dict()
    wanted = {"tile_m": 64, "tile_n": 64, "tile_k": 32, "thread_m": 8, "thread_n": 4, "stages": 2}
    return 10.0 + sum(abs(values[name] - best) / best for name, best in wanted.items())


def run(search: Search, most: int, fails: bool = False) -> list[Config]:
    asked = []
    while len(asked) < most and (plan := search.ask()) is not None:
        asked.append(plan.config)
        search.tell(plan.config, None if fails else simulated_us(plan.config))
    return asked


def space_of(problem: Conv2d) -> list[Plan]:
    return generator.space(problem, TARGET)[0]


def feasible(problem: Conv2d) -> set[Config]:
    return {plan.config for plan in space_of(problem)}


def test_a_small_space_is_enumerated_and_nothing_is_asked_twice() -> None:
    asked = run(Search(space_of(SMALL), [], {}, seed=1), 10_000)
    assert len(asked) == len(set(asked))
    assert set(asked) == feasible(SMALL)


def test_only_feasible_configs_are_asked_and_none_twice() -> None:
    asked = run(Search(space_of(LARGE), [], {}, seed=2), 60)
    assert len(set(asked)) == 60
    assert set(asked) <= feasible(LARGE)


def test_the_default_comes_first_and_then_what_the_caller_names() -> None:
    first = generator.default(LARGE, TARGET).config
    second = next(iter(feasible(LARGE) - {first}))
    assert run(Search(space_of(LARGE), [first, second, first], {}, seed=3), 3)[:2] == [first, second]


def test_what_is_known_is_not_asked_again() -> None:
    known = {config: simulated_us(config) for config in sorted(feasible(SMALL), key=str)[:3]}
    asked = run(Search(space_of(SMALL), list(known), known, seed=4), 10_000)
    assert set(asked) == feasible(SMALL) - set(known)


def test_failures_do_not_stop_the_search() -> None:
    assert len(run(Search(space_of(LARGE), [], {}, seed=5), 30, fails=True)) == 30


@pytest.mark.parametrize("seed", range(3))
def test_it_learns(seed: int) -> None:
    """Better than the middle of the space after a quarter of it."""
    space = sorted(simulated_us(config) for config in feasible(LARGE))
    asked = run(Search(space_of(LARGE), [], {}, seed=seed), len(space) // 4)
    best = min(simulated_us(config) for config in asked)
    assert best <= space[len(space) // 20]
