"""Every fault and finding of the README has its test, by name."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROW = re.compile(r"^\| (?P<finding>[^|]+) \| `(?P<path>tests/[\w/]+\.py)::(?P<test>\w+)` \|$", re.MULTILINE)


@cache
def names_in(path: Path) -> frozenset[str]:
    return frozenset(node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))


def test_every_finding_has_a_test() -> None:
    rows = list(ROW.finditer((HERE / "README.md").read_text()))
    assert len(rows) == (HERE / "README.md").read_text().count("::test_"), "a row is not read"
    assert len(rows) > 45
    lost = [row["finding"] for row in rows if row["test"] not in names_in(ROOT / row["path"])]
    assert not lost, f"these findings name a test that is not there: {lost}"
