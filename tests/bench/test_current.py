"""A row counts as long as today's generator makes the source that it was measured on."""

from __future__ import annotations

from typing import Any

import current
import pytest

from qconv import Conv2d, generator
from qconv.targets.target import target

PLANS = {
    str(layer): generator.default(layer, target("sm_90a"))
    for layer in (Conv2d(1, 4, 4, 8, 8, 1, 1), Conv2d(1, 4, 4, 8, 16, 3, 3))
}
ONE, OTHER = PLANS.values()


def row() -> dict[str, Any]:
    return {"problem": str(ONE.problem), "config": ONE.config.as_dict(), "digest": current.digest_of(ONE)}


def network() -> dict[str, Any]:
    made = current.kernels(PLANS)
    return {"configs": made["configs"], "digests": made["digests"]}


@pytest.mark.parametrize("made", [row(), network(), {"problem": "another"} | current.kernels({"a": ONE, "b": OTHER})])
def test_a_row_of_todays_kernels_is_current(made: dict[str, Any]) -> None:
    assert current.is_current(made, "sm_90a")
    assert not current.is_current(made, "sm_80"), "another target has another source"


def test_a_row_of_another_source_or_of_none_is_not() -> None:
    assert not current.is_current(row() | {"digest": "0" * 32}, "sm_90a")
    assert not current.is_current({name: value for name, value in row().items() if name != "digest"}, "sm_90a")
    made = network()
    made["digests"][str(OTHER.problem)] = current.digest_of(ONE)
    assert not current.is_current(made, "sm_90a")
    del made["digests"][str(OTHER.problem)]
    assert not current.is_current(made, "sm_90a")


def test_a_config_that_is_no_more_is_not() -> None:
    assert not current.is_current(row() | {"config": row()["config"] | {"tile_m": 7}}, "sm_90a")
    assert not current.is_current(row() | {"config": {"family": "gone"}}, "sm_90a")
