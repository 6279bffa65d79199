"""README's picture agrees with the rows of today's kernels under bench/results."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from math import log2
from pathlib import Path

import pytest
import speedups
from rows_of_today import of_today

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def picture() -> ElementTree.Element:
    return ElementTree.parse(speedups.PICTURE).getroot()


def test_the_picture_names_every_comparison_and_its_geometric_mean(picture: ElementTree.Element) -> None:
    texts = [element.text for element in picture.iter(f"{SVG}text")]
    names = list(map(speedups.name, speedups.shown()))
    assert [text for text in texts if text in names] == names
    assert texts[len(texts) - len(names) :] == list(map(speedups.label, speedups.shown()))


def test_every_point_of_the_picture_is_a_row_of_the_json(picture: ElementTree.Element) -> None:
    """The axis is logarithmic, so a point's position is a linear function of its ratio's logarithm."""
    places, ratios = list[float](), list[float]()
    for at, comparison in enumerate(speedups.shown()):
        (group,) = (each for each in picture.iter(f"{SVG}g") if each.get("id") == speedups.points(at))
        drawn = [float(use.attrib["x"]) for use in group.iter(f"{SVG}use")]
        assert len(drawn) == len(comparison.ratios)
        places += drawn
        ratios += map(log2, comparison.ratios)
    if not ratios:  # all kernels have changed
        return
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


def test_a_suite_of_another_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speedups, "DEVICE", "another")
    with pytest.raises(ValueError, match=r"dense\.json was measured on NVIDIA H200; the picture shows the another"):
        _ = speedups.COMPARISONS[0].ratios


def test_a_row_of_another_kernel_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    known = of_today(speedups.document("dense"))
    known["rows"][0]["digest"] = "0" * 32
    monkeypatch.setattr(speedups, "document", lambda suite: known)
    each = speedups.COMPARISONS[0]
    assert each.rows == known["rows"][1:]
    assert each.left_out == 1
    for row in known["rows"]:
        row.pop("digest", None)
    assert (each.rows, each.is_known, each.left_out) == ([], False, len(known["rows"]))
    assert each not in speedups.shown()


def test_the_better_of_the_published_kernels_counts() -> None:
    ratio = speedups.COMPARISONS[0].ratio
    assert ratio({"time_us": 2.0, "cutlass_sm80_us": 8.0, "cutlass_sm90_us": 4.0}) == 2.0
    assert ratio({"time_us": 2.0, "cutlass_sm80_us": 8.0, "cutlass_sm90_us": None}) == 4.0
