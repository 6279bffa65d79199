"""Every winner shipped in the package can be looked up on the device where it was measured."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from typing import Any

import pytest

from qconv import generator
from qconv.instances.choose.lookup import choose
from qconv.instances.choose.shipped import file_name, layer
from qconv.problem.chain import FusedConv2d
from qconv.targets.target import target
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import Measurement
from qconv.tune_db.text import dump, parse
from qconv.tuner.workloads.refresh import overtaken

FILES = sorted(
    (path for path in (resources.files("qconv.instances") / "shipped").iterdir() if path.name.endswith(".json")),
    key=lambda path: path.name,
)


def rows(path: Any) -> list[Measurement]:
    return parse(path.read_text(), path.name)


TWO = FusedConv2d.op
KNOWN = "conv2d:n=128:h=56:w=56:c=128:k=128:r=3:s=3:pad=1,1,1,1:groups=128"


class Named:
    """The device attributes that choosing needs."""

    def __init__(self, row: Measurement) -> None:
        self.name, self.target = row.device, target(row.target)


def test_there_are_some() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_row_is_found_and_feasible(path: Any) -> None:
    for row in rows(path):
        assert path.name == file_name(row.device)
        assert layer(row.device).best(row.problem, row.device, row.target) == row
        choice = choose(row.problem, Named(row), Layered([layer(row.device)]))
        assert (choice.plan.config, choice.origin, choice.toolchain) == (row.config, "exact", row.toolchain)
        assert generator.plan(row.problem, row.config, target(row.target)) == choice.plan


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_layer_is_expected_to_be_much_faster_untuned(path: Any) -> None:
    """A family that was added since may be faster: its layers must then be tuned again."""
    slow = overtaken(rows(path))
    assert not slow, "\n".join(f"{row.problem}: {row.median_us:.1f} us" for row in slow)


def test_a_chain_has_the_config_of_a_close_neighbour_only() -> None:
    (row,) = (m for path in FILES for m in rows(path) if str(m.problem).startswith(f"{KNOWN}:") and m.problem.op == TWO)
    assert isinstance(row.problem, FusedConv2d)
    first, second = row.problem.first, row.problem.second
    curved = replace(first, quantization=replace(first.quantization, activation="hardswish"))
    larger = FusedConv2d(replace(first, n=4 * first.n), replace(second, n=4 * second.n))
    device, layers = Named(row), Layered([layer(row.device)])
    choice = choose(FusedConv2d(curved, second), device, layers)
    assert (choice.plan.config, choice.origin) == (row.config, "nearest")
    assert choose(larger, device, layers).origin == "default"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_text_is_as_dumped(path: Any) -> None:
    assert dump(rows(path)) == path.read_text()
