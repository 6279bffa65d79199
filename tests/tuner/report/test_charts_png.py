"""Charts as bitmaps show the same as the SVG, in the same places."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from qconv.tuner.report import charts as png
from qconv.tuner.report.charts import HEIGHT, WIDTH, Axis, Bar, Plane, bars


def test_marks_stand_where_the_svg_has_them(tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image")
    plane = Plane(Axis("x", 0, 10), Axis("a $ and a <", 0, 1), "says")
    plane.line([(0, 0.5), (10, 0.5)], "second", 4)
    plane.point(5, 0.9, "a point")
    plane.word(5, 0.2, "a word")
    png.write(plane.svg(), tmp_path / "plane.png")
    seen = image.imread(tmp_path / "plane.png")
    assert seen.shape[:2] == (4 * HEIGHT, 4 * WIDTH)

    def colour_at(x: float, y: float) -> list[int]:
        across, down = plane.at(x, y)
        return [round(255 * float(part)) for part in seen[round(4 * down), round(4 * across)][:3]]

    assert colour_at(2, 0.5) == [0xD9, 0x77, 0x06]
    assert colour_at(5, 0.9)[2] > 200 > colour_at(5, 0.9)[0]  # blue, slightly translucent
    assert colour_at(3, 0.7) == [255, 255, 255]
    png.write(bars([Bar("name", 2.0, "two"), Bar("other", 1.0, "one")], "says"), tmp_path / "bars.png")
    first = image.imread(tmp_path / "bars.png")[4 * 28, 4 * 300]
    assert [round(255 * float(part)) for part in first[:3]] == [0x25, 0x63, 0xEB]


def test_an_element_that_cannot_be_drawn_is_named() -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match="no <ellipse>"):
        png.artist_of("ellipse", {}, "")


def test_without_matplotlib_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match="pip install matplotlib, or take --format svg"):
        png.write(bars([], "says"), tmp_path / "bars.png")
