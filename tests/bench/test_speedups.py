"""README's picture and the tables of docs/performance.md say what the JSON under bench/results says."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from math import log2
from pathlib import Path

import pytest
import speedups

SVG = "{http://www.w3.org/2000/svg}"
ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def picture() -> ElementTree.Element:
    return ElementTree.parse(speedups.PICTURE).getroot()


def test_the_picture_names_every_comparison_and_its_geometric_mean(picture: ElementTree.Element) -> None:
    texts = [element.text for element in picture.iter(f"{SVG}text")]
    assert [text for text in texts if text in map(speedups.name, speedups.DRAWN)] == list(
        map(speedups.name, speedups.DRAWN)
    )
    assert texts[-len(speedups.DRAWN) :] == [speedups.label(each) for each in speedups.DRAWN]


def test_every_point_of_the_picture_is_a_row_of_the_json(picture: ElementTree.Element) -> None:
    """The axis is logarithmic, so a point's place is a linear function of its ratio's logarithm."""
    places, ratios = [], []
    for at, comparison in enumerate(speedups.DRAWN):
        (group,) = (each for each in picture.iter(f"{SVG}g") if each.get("id") == speedups.points(at))
        drawn = [float(use.attrib["x"]) for use in group.iter(f"{SVG}use")]
        assert len(drawn) == len(comparison.ratios)
        places += drawn
        ratios += map(log2, comparison.ratios)
    low, high = ratios.index(min(ratios)), ratios.index(max(ratios))
    scale = (places[high] - places[low]) / (ratios[high] - ratios[low])
    assert scale > 0
    expected = [places[low] + scale * (ratio - ratios[low]) for ratio in ratios]
    assert places == pytest.approx(expected, abs=0.01)


def test_the_script_draws_the_picture_byte_for_byte(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install '.[bench]'")
    drawn = speedups.PICTURE.read_bytes()
    if f"Matplotlib v{matplotlib.__version__}," not in drawn.decode():
        pytest.skip(f"matplotlib {matplotlib.__version__} is not the version that drew the committed picture")
    speedups.draw(tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == drawn, "python bench/speedups.py draws another picture: commit it"


def test_the_tables_of_the_page_are_the_ones_that_the_script_prints() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    for table in speedups.tables():
        assert table in page, "python bench/speedups.py --table prints other tables: put them into docs/performance.md"


def test_a_suite_of_another_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speedups, "DEVICE", "another")
    with pytest.raises(ValueError, match=r"dense\.json was measured on NVIDIA H200; the picture shows the another"):
        _ = speedups.DRAWN[0].ratios


def test_every_ratio_of_readme_is_one_of_the_json() -> None:
    known = {f"{value:.2f}" for each in speedups.COMPARISONS for value in (each.mean, min(each.ratios))}
    for suite in (speedups.RESULTS / "networks_n128.json", speedups.OF_H100 / "pairs_dw_pw_n32.json"):
        summary = json.loads(suite.read_text())["summary"]
        known |= {f"{value:.2f}" for name, value in summary.items() if name.startswith("over_")}
    said = re.findall(r"\b(\d+\.\d+)x", README)
    assert said, "README shows no ratio"
    assert set(said) <= known
