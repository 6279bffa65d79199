"""The tests that a mutant names, as pytest names them: a mutant gives a test file by the end of its path."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mutants.mutant import ROOT
from mutants.tree import ends_of


def node_ids(tests: Sequence[str]) -> tuple[str, ...]:
    """Return them with whole paths; an end that no file has, or several, is refused."""
    return tuple(f"{_file(test.partition('::')[0])}{''.join(test.partition('::')[1:])}" for test in tests)


def _file(end: str) -> Path:
    found = _files().get(end, [])
    if len(found) != 1:
        raise ValueError(f"{end} is the end of {len(found)} test files' paths, and must be that of one: {found}")
    return found[0]


@cache
def _files() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        path = file.relative_to(ROOT)
        for end in ends_of(path):
            found.setdefault(end, []).append(path)
    return found
