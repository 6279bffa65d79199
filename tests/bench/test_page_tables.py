"""The tables of the pages are those of the JSON, and quote no row of which a kernel has changed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import page_tables
import pytest
import speedups
from mostly_slow import mostly_slow
from rows_of_today import of_today


# For performance.md, thousands of kernels are generated anew.
@pytest.mark.parametrize(
    "name", mostly_slow([page.name for page in page_tables.PAGES], {"README.md", "index.md", "networks.md"})
)
def test_the_pages_have_todays_tables(name: str) -> None:
    (page,) = (page for page in page_tables.PAGES if page.name == name)
    assert page_tables.filled(page) == page.read_text(), "python bench/page_tables.py makes other tables: commit them"


def test_no_ratio_stands_outside_a_table() -> None:
    for page in page_tables.PAGES:
        prose = page_tables.MARKED.sub("", page.read_text())
        assert re.findall(r"\b\d+\.\d+x", prose) == []


def changed(monkeypatch: pytest.MonkeyPatch, rows: slice) -> dict[str, Any]:
    """Plant rows of other kernels in the suite `dense`."""
    known = of_today(speedups.document("dense"))
    for row in known["rows"][rows]:
        row["digest"] = "0" * 32
    document = speedups.document
    for module in (speedups, page_tables):
        monkeypatch.setattr(module, "document", lambda suite: known if suite == "dense" else document(suite))
    return known


def line_of(table: str, words: str) -> list[str]:
    (line,) = (line for line in table.splitlines() if words in line)
    return [cell.strip() for cell in line.split("|")]


def test_a_row_of_a_changed_kernel_is_counted_and_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(changed(monkeypatch, slice(0))["rows"])
    before = line_of(page_tables.compared(False), "CUTLASS")
    changed(monkeypatch, slice(10))
    after = line_of(page_tables.compared(False), "CUTLASS")
    assert (before[4:6], after[4:6]) == ([str(count), "0"], [str(count - 10), "10"])


def test_a_suite_of_changed_kernels_alone_has_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(changed(monkeypatch, slice(None))["rows"])
    table = page_tables.compared(False)
    assert "CUTLASS" not in table
    assert f"Left out, since a kernel has changed or the row does not name it: {count} of [dense]" in table
    assert "CUTLASS" not in page_tables.front()


def test_a_peers_search_that_was_cut_short_is_counted() -> None:
    plans = {"offered": 7, "tried": 7}
    assert not page_tables.is_cut_short({"peer_facts": {"cudnn_int8": {"plans": plans}}})
    assert page_tables.is_cut_short({"peer_facts": {"cudnn_int8": {"plans": plans | {"tried": 3}}}})
    assert not page_tables.is_cut_short({"peer_facts": {"cudnn_fp16": {}}})


def zoo_rows() -> list[dict[str, Any]]:
    known = of_today(speedups.document("dense"))["rows"][0]
    kernel = {name: known[name] for name in ("problem", "config", "digest")}
    own = {"kind": "plain", "batch": 1, "elsewhere": {"Resize": 2}, "ms": 0.5, "eager_fp16_ms": 2.0, **kernel}
    trace = {"copies_to_device": 0, "copies_to_host": 1, "synchronizations": 3}
    ratios = {"inductor_fp16_ms": 1.0, "over_inductor_fp16": 2.0, "over_faster_peer": 2.0}
    others = {"over_inductor_fp16": 8.0, "over_faster_peer": 0.5, "inductor_fp16_ms": 4.0}
    return [
        {"name": "a", **own, **ratios, "trace": trace},
        {"name": "b", **own, **others},
        {"name": "c", **own, **others, "digest": "0" * 32},
        {"name": "d", "kind": "plain", "batch": 1, "missing": {"ours": "gone"}},
    ]


def test_the_zoo_has_a_table_for_each_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(page_tables, "RESULTS", tmp_path / "nvidia-h200")
    assert page_tables.zoo() == "Not measured yet."
    device = speedups.document("dense")["device"]
    for card in ("nvidia-h100", "nvidia-h200"):
        (tmp_path / card).mkdir()
        (tmp_path / card / "zoo.json").write_text(json.dumps({"device": device, "rows": zoo_rows()}))
    table = page_tables.zoo()
    assert table.count("bench/results/nvidia-h100/zoo.json") == table.count("bench/results/nvidia-h200/zoo.json") == 1
    shown = "| a | plain | 1 | 0.500 | 2.000 | 1.000 | 2.00 | 2 | 0, 1, 3 |"
    assert table.count(shown) == 2
    assert "| c |" not in table
    assert "| d |" not in table
    assert "N=1, 2 networks, geometric mean: 4.00 over Inductor, 1.00 over the faster peer; least: b, 0.50." in table
    assert table.count("Left out, since a kernel has changed: 1.") == 2
