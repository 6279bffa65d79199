"""Every winner that travels in the package can be reached from the device that it was measured on."""

from __future__ import annotations

from importlib import resources
from typing import Any

import pytest

from qconv import generator
from qconv.instances.lookup import choose
from qconv.instances.shipped import file_name, layer
from qconv.target import target
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import Measurement
from qconv.tune_db.text import dump, parse

FILES = sorted(
    (path for path in (resources.files("qconv.instances") / "shipped").iterdir() if path.name.endswith(".json")),
    key=lambda path: path.name,
)


def rows(path: Any) -> list[Measurement]:
    return parse(path.read_text(), path.name)


class Named:
    """As much of a device as choosing needs."""

    def __init__(self, row: Measurement) -> None:
        self.name, self.target = row.device, target(row.target)


def test_there_are_some() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_row_is_found_and_feasible(path: Any) -> None:
    for row in rows(path):
        assert path.name == file_name(row.device)
        assert layer(row.device).best(row.problem, row.device, row.target) == row
        plan, origin, _, _ = choose(row.problem, Named(row), Layered([layer(row.device)]))  # type: ignore[arg-type]
        assert (plan.config, origin) == (row.config, "exact")
        assert generator.plan(row.problem, row.config, target(row.target)) == plan


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_text_is_as_dumped(path: Any) -> None:
    assert dump(rows(path)) == path.read_text()
