"""Every field of every config is in the drawing of its family, and the drawings are those of the script."""

from __future__ import annotations

import re
import runpy
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from qconv.generator import FAMILIES

HERE = Path(__file__).parents[2] / "docs/drawings"


@pytest.fixture(scope="module")
def drawings() -> Any:
    sys.path.insert(0, str(HERE))
    try:
        return runpy.run_path(str(HERE / "draw.py"))["DRAWINGS"]
    finally:
        sys.path.remove(str(HERE))


def test_every_family_has_one(drawings: Any) -> None:
    assert set(drawings) == set(FAMILIES) == {path.stem for path in HERE.glob("*.svg")}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_drawing_is_the_script_s_and_names_every_field(name: str, drawings: Any) -> None:
    text = (HERE / f"{name}.svg").read_text()
    assert text == drawings[name]().svg(), "python docs/drawings/draw.py draws them anew"
    named = set(re.findall(r"\w+", " ".join(re.findall(r"<text[^>]*monospace[^>]*>([^<]*)</text>", text))))
    assert {field.name for field in fields(FAMILIES[name].config)} <= named


@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_is_cut_off(name: str) -> None:
    """Estimates the width of 12-point letters."""
    text = (HERE / f"{name}.svg").read_text()
    found = re.search(r'viewBox="0 0 (\d+) (\d+)"', text)
    assert found is not None
    for x, y, anchor, family, words in re.findall(
        r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)" font-family="([^"]*)"[^>]*>([^<]*)</text>', text
    ):
        width = len(words) * (7.3 if "monospace" in family else 6.4)
        begin = float(x) - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        assert begin >= 0, words
        assert begin + width <= int(found[1]), words
        assert 12 <= float(y) <= int(found[2]), words
