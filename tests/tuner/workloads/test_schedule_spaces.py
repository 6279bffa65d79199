"""Spaces that are cached from visit to visit, and their number."""

from __future__ import annotations

from typing import Any

import pytest

from qconv import generator
from qconv.problem.convolution import Conv2d
from qconv.targets.target import TARGETS
from qconv.tuner.workloads.schedule import Spaces

TARGET = TARGETS["cpu"]
FIRST, SECOND = Conv2d(1, 8, 8, 8, 16, 3, 3, pad=1), Conv2d(1, 8, 8, 8, 16, 3, 3)


@pytest.fixture
def enumerated(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record whose space was enumerated, in order."""
    asked: list[Any] = []
    whole = generator.space

    def counted(problem: Any, *rest: Any) -> Any:
        asked.append(problem)
        return whole(problem, *rest)

    monkeypatch.setattr(generator, "space", counted)
    return asked


def test_a_space_is_kept_until_the_last_visit(enumerated: list[Any]) -> None:
    spaces = Spaces(TARGET)
    whole, _ = generator.space(FIRST, TARGET)
    enumerated.clear()
    for again in (True, True, False):
        assert [plan.config for plan in spaces.plans(FIRST, again)] == [plan.config for plan in whole]
    assert enumerated == [FIRST]
    spaces.plans(FIRST, False)
    spaces.plans(FIRST, False)
    assert enumerated == [FIRST] * 3


def test_no_more_plans_are_kept_than_there_is_room_for(enumerated: list[Any]) -> None:
    """Cached plans stay; after their last visit, the next ones use the room."""
    room = max(len(generator.space(one, TARGET)[0]) for one in (FIRST, SECOND))
    spaces = Spaces(TARGET, room)
    enumerated.clear()
    for problem, again in ((FIRST, True), (SECOND, True), (FIRST, True), (SECOND, True), (FIRST, False)):
        spaces.plans(problem, again)
    assert enumerated == [FIRST, SECOND, SECOND]
    for again in (True, False):
        spaces.plans(SECOND, again)
    assert enumerated == [FIRST, SECOND, SECOND, SECOND]
