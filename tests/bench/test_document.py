"""Documents of results: one line a row, a fact of the head a line, and equal to what was written when read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from document import write_document

ROOT = Path(__file__).parents[2]
DOCUMENT: dict[str, Any] = {
    "suite": "dense",
    "clocks": {"sm_before_mhz": 345, "sm_after_mhz": 1980},
    "summary": {"rows": 2, "classes": {"1x1": {"worst": 0.5}, "2x2": {"worst": None}}},
    "left_out": [],
    "rows": [{"name": "a", "peers": {"x": 1.0}, "configs": [{"t": 1}, {"t": 2}]}, {"name": "b"}],
}
TEXT = """{
 "suite": "dense",
 "clocks": {"sm_before_mhz": 345, "sm_after_mhz": 1980},
 "summary": {
  "rows": 2,
  "classes": {
   "1x1": {"worst": 0.5},
   "2x2": {"worst": null}
  }
 },
 "left_out": [],
 "rows": [
  {"name": "a", "peers": {"x": 1.0}, "configs": [{"t": 1}, {"t": 2}]},
  {"name": "b"}
 ]
}
"""


def test_a_row_is_a_line(tmp_path: Path) -> None:
    write_document(tmp_path / "folder/dense.json", DOCUMENT)
    assert (tmp_path / "folder/dense.json").read_text() == TEXT
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["dense.json"]


@pytest.mark.parametrize("value", [{}, [], {"a": 1}, [[1], [2]], {"rows": [{"a": []}]}, {"a": {"b": {"c": {}}}}])
def test_what_is_read_is_what_was_written(value: Any, tmp_path: Path) -> None:
    write_document(tmp_path / "a.json", value)
    write_document(tmp_path / "a.json.gz", value)
    assert json.loads((tmp_path / "a.json").read_text()) == value
    assert json.loads(gzip.decompress((tmp_path / "a.json.gz").read_bytes())) == value


def test_a_document_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    write_document(tmp_path / "a.json", {"a": 1})
    with pytest.raises(TypeError):
        write_document(tmp_path / "a.json", {"a": Path()})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": 1}


@pytest.mark.parametrize("path", sorted((ROOT / "bench/results").rglob("*.json")), ids=lambda path: path.stem)
def test_committed_results_have_this_form(path: Path, tmp_path: Path) -> None:
    write_document(tmp_path / "again.json", json.loads(path.read_text()))
    assert (tmp_path / "again.json").read_text() == path.read_text(), f"{path} was not written by bench/document.py"


def test_no_script_formats_json_by_itself() -> None:
    """`indent` and `separators` are how a script would."""
    own = [
        path.name
        for path in sorted((ROOT / "bench").rglob("*.py"))
        if path.name != "document.py" and any(word in path.read_text() for word in ("indent=", "separators=("))
    ]
    assert own == []
