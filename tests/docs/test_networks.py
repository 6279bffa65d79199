"""The page about networks: its tables are the commands' output."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import node_cases
from fallback_table import ALL, HEAD, PARTS, TRAINED, cell, explanations, load, rows

from qconv.device import Device

PAGE = (Path(__file__).parents[2] / "docs/networks.md").read_text().splitlines()


def test_the_page_has_the_table_and_no_other_network() -> None:
    assert set(HEAD) <= set(PAGE)
    assert {(name, form) for name, form, *_ in cells(HEAD)} == set(PARTS)


@pytest.mark.parametrize(
    ("name", "form"), [pytest.param(*part, marks=[pytest.mark.slow] * (part[0] in TRAINED)) for part in PARTS]
)
def test_a_row_has_the_layers_of_its_first_model(name: str, form: str) -> None:
    """Compare one model of each row in every run. All six take turns, so that a later commit would meet a stale row."""
    skip_if_absent(name)
    says, explanation = next(explanations(name, form))
    here = [row for row in cells(HEAD) if row[:2] == [name, form] and says in row[2].replace(ALL, says).split(", ")]
    assert [" | ".join(row[3:]) for row in here] == [cell(explanation)]


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), PARTS)
def test_a_part_of_the_table_is_what_the_command_makes(name: str, form: str) -> None:
    skip_if_absent(name)
    made = list(rows(name, form))
    assert made == [line for line in PAGE if line.startswith(f"| {name} | {form} | ")]


def skip_if_absent(name: str) -> None:
    if name in TRAINED and load(name) is None:
        pytest.skip("rapidocr-onnxruntime is not installed: pip install '.[networks]'")


def cells(head: tuple[str, ...]) -> list[list[str]]:
    """Return the cells of the table below a head."""
    lines = PAGE[PAGE.index(head[0]) + len(head) :]
    return [line.strip("| ").split(" | ") for line in takewhile(lambda line: line.startswith("|"), lines)]


def test_the_node_cases_of_the_page_add_up() -> None:
    *areas, every = ((area, *map(int, counts)) for area, *counts in cells(node_cases.HEAD))
    assert [area for area, *_ in areas] == list(node_cases.EVERY)
    assert every == ("all", *(sum(column) for column in list(zip(*areas, strict=True))[1:]))
    for area, count, here, others in (*areas, every):
        assert count == here + others
        assert area == "all" or others == sum(row[0] == area for row in cells(node_cases.OTHERS))


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("area", node_cases.EVERY)
def test_the_node_cases_of_an_area_are_what_the_command_makes(area: str) -> None:
    found = node_cases.outcomes(area)
    print(*node_cases.others(found), sep="\n")
    assert node_cases.row_of(area, found) in PAGE
    assert list(node_cases.others(found)) == [
        "| " + " | ".join(row) + " |" for row in cells(node_cases.OTHERS) if row[0] == area
    ]


@pytest.mark.gpu
@pytest.mark.parametrize("area", node_cases.EVERY)
def test_the_node_cases_of_an_area_run_alike_on_a_gpu(area: str, gpu: Device) -> None:
    """The page's counts are of one version of onnx; there may be another beside the GPU."""
    assert node_cases.outcomes(area, gpu.spec) == node_cases.outcomes(area, "cpu")
