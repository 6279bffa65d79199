"""The page about networks: its table is the command's output."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from fallback_table import HEAD, PARTS, TRAINED, load, rows

PAGE = (Path(__file__).parents[2] / "docs/networks.md").read_text().splitlines()


def test_the_page_has_the_table_and_no_other_network() -> None:
    assert set(HEAD) <= set(PAGE)
    table = PAGE[PAGE.index(HEAD[0]) + len(HEAD) :]
    table = table[: table.index("")]
    assert {tuple(line.strip("| ").split(" | ")[:2]) for line in table} == set(PARTS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), PARTS)
def test_a_part_of_the_table_is_what_the_command_makes(name: str, form: str) -> None:
    if name in TRAINED and load(name) is None:
        pytest.skip("rapidocr-onnxruntime is not installed: pip install '.[networks]'")
    made = list(rows(name, form))
    assert made == [line for line in PAGE if line.startswith(f"| {name} | {form} | ")]
