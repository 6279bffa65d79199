"""Every bug that the tests of templates plant replaces text that today's kernels have. Those tests take turns; this one
runs at each commit, so that a change of a page never meets a bug that can no longer be planted."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from qconv import generator

MODULES = sorted(
    file.stem
    for file in Path(__file__).parent.glob("test_*.py")
    if any(f"\n{name}" in file.read_text() for name in ("LEFT_OUT = {", "PLANTED = {", "PLANTED: dict"))
)


def text_of(module: ModuleType, name: str) -> str:
    """Return the kernel of a plan, or of a case of ring's, of this name."""
    plans = getattr(module, "PLANS", {})
    return generator.render(plans[name]).text if name in plans else str(module.CASES[name].text(module.CPU))


def test_there_are_bugs() -> None:
    assert len(MODULES) >= 13


@pytest.mark.parametrize("name", MODULES)
def test_the_text_that_a_bug_replaces_occurs_once(name: str) -> None:
    module = importlib.import_module(f"tests.templates.{name}")
    bugs = getattr(module, "LEFT_OUT", {}) | getattr(module, "PLANTED", {})
    places = {of: bug[0] for of, bug in bugs.items()}
    texts = {place: text_of(module, place) for place in {*places.values()}}
    assert [of for of, bug in bugs.items() if texts[places[of]].count(bug.old) != 1] == []
