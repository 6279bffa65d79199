"""Charts: the positions of values, their labels, and valid XML."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from qconv.tuner.report.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis, Bar, Plane, alone, bars


def test_the_ends_of_an_axis_are_the_ends_of_the_plane() -> None:
    plane = Plane(Axis("x", 1, 1000, log=True), Axis("y", 0, 2), "a picture")
    assert plane.at(1, 0) == (LEFT, HEIGHT - BOTTOM)
    assert plane.at(1000, 2) == (WIDTH - RIGHT, TOP)
    across, down = plane.at(10**1.5, 1)
    assert (across, down) == pytest.approx(((LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2))


def test_ticks_are_decades_or_round_numbers_within_the_axis() -> None:
    assert Axis("x", 3, 2000, log=True).ticks() == [10, 100, 1000]
    assert Axis("x", 0, 1).ticks() == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    for high in (2, 7, 24, 40, 100, 333):
        ticks = Axis("x", 0, high).ticks()
        assert 3 <= len(ticks) <= 11
        assert ticks[-1] <= high


def test_words_are_escaped_and_a_figure_alone_has_its_colours() -> None:
    plane = Plane(Axis("a < b", 1, 10, log=True), Axis("y", 0, 1), 'says "<"')
    plane.point(2, 0.5, "<&>")
    for svg in (plane.svg(), bars([Bar("a<b", 3, "3 %"), Bar("c", 0, "0 %")], "bars")):
        root = ElementTree.fromstring(alone(svg))
        style = root.find("{http://www.w3.org/2000/svg}style")
        assert style is not None
        assert "--ink" in (style.text or "")
    assert [one.text for one in ElementTree.fromstring(plane.svg()).iter("{http://www.w3.org/2000/svg}title")] == [
        "<&>"
    ]
