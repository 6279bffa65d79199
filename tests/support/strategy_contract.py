"""The contract of every search strategy. A strategy is tested by supplying the fixture `begin`, which makes one for a
space. No kernel is compiled: a function of the config stands for its time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pytest

from qconv import generator
from qconv.generator import Config
from qconv.problem.convolution import Conv2d
from qconv.targets.target import target
from qconv.tuner.search.strategies import Space, Strategy

Begin = Callable[[Space], Strategy]

SMALL = Conv2d(1, 3, 3, 4, 4, 2, 2)
LARGE = Conv2d(8, 28, 28, 64, 96, 3, 3, pad=(1, 1, 1, 1))
TARGET = target("gfx906")  # without matrix instructions: all configs belong to one family


def simulated_us(config: Config) -> float:
    """A smooth landscape with one optimum that is not the default."""
    wanted = {"tile_m": 64, "tile_n": 64, "tile_k": 32, "thread_m": 8, "thread_n": 4, "pipeline_stages": 2}
    return 10.0 + sum(abs(int(getattr(config, name)) - best) / best for name, best in wanted.items())


@lru_cache(maxsize=2)
def space_of(problem: Conv2d) -> Space:
    return Space(problem, generator.space(problem, TARGET)[0])


def configs(space: Space) -> set[Config]:
    return {plan.config for plan in space.plans}


def run(strategy: Strategy, most: int = 10_000, ahead: int = 1, fails: bool = False) -> list[Config]:
    """Return the proposed configs, in order; `ahead` of them are proposed before the first result is reported."""
    asked: list[Config] = []
    told = 0
    while len(asked) < most and (plan := strategy.ask()) is not None:
        asked.append(plan.config)
        if len(asked) - told == ahead:
            strategy.tell(asked[told], None if fails else simulated_us(asked[told]))
            told += 1
    return asked


class StrategyContract:
    def test_a_small_space_is_exhausted_and_nothing_is_asked_twice(self, begin: Begin) -> None:
        space = space_of(SMALL)
        strategy = begin(space)
        asked = run(strategy)
        assert len(asked) == len(set(asked))
        assert set(asked) == configs(space)
        assert strategy.ask() is None

    def test_what_it_asks_are_plans_of_the_space(self, begin: Begin) -> None:
        space = space_of(LARGE)
        plans = {plan.config: plan for plan in space.plans}
        strategy = begin(replace(space, seed=2))
        for _ in range(20):
            plan = strategy.ask()
            assert plan is not None
            assert plans.pop(plan.config) is plan

    def test_any_number_may_be_asked_before_the_first_is_told(self, begin: Begin) -> None:
        asked = run(begin(space_of(LARGE)), most=60, ahead=16)
        assert len(set(asked)) == 60

    def test_what_the_caller_names_comes_first_and_in_order(self, begin: Begin) -> None:
        space = space_of(LARGE)
        first, second = space.plans[-1].config, space.plans[len(space.plans) // 2].config
        stranger = space_of(SMALL).plans[0].config
        assert stranger not in configs(space)
        named = replace(space, first=(first, stranger, second, first))
        assert run(begin(named), most=3)[:2] == [first, second]

    def test_what_was_measured_before_is_not_asked(self, begin: Begin) -> None:
        space = space_of(SMALL)
        known = sorted(configs(space), key=str)[:3]
        strategy = begin(replace(space, first=known))
        strategy.tell(known[0], None)
        for config in known[1:]:
            strategy.tell(config, simulated_us(config))
        assert set(run(strategy)) == configs(space) - set(known)

    def test_a_config_of_another_space_tells_nothing(self, begin: Begin) -> None:
        space = space_of(SMALL)
        strategy = begin(space)
        strategy.tell(next(iter(configs(space_of(LARGE)) - configs(space))), 1.0)
        assert set(run(strategy)) == configs(space)

    def test_failures_do_not_stop_it(self, begin: Begin) -> None:
        assert len(run(begin(space_of(LARGE)), most=30, fails=True)) == 30

    def test_an_empty_space_has_nothing_to_ask(self, begin: Begin) -> None:
        strategy = begin(Space(SMALL, []))
        strategy.tell(space_of(SMALL).plans[0].config, 1.0)
        assert strategy.ask() is None

    @pytest.mark.parametrize("seed", [0, 1])
    def test_a_seed_makes_the_same_search(self, begin: Begin, seed: int) -> None:
        space = replace(space_of(LARGE), seed=seed)
        assert run(begin(space), most=20) == run(begin(space), most=20)
