"""The judge of planted bugs: caught ones, and runs that say nothing about the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import mutate
import pytest
from mutants.mutant import Mutant
from mutants.tree import Tree


class Answering(mutate.Copy):
    """A copy without a planted bug; its tests give prescribed answers."""

    answers: ClassVar[list[tuple[int, str]]] = []

    def __init__(self, root: Path, *_: object) -> None:
        (root / "docs").mkdir()
        (root / "docs" / "page.md").write_text("a line\n")
        self.root, self.tree = root, Tree(root)

    def check_imports(self) -> None: ...

    def pytest(self, arguments: Sequence[str], *, own_cache: bool = False) -> tuple[int, str]:
        return self.answers.pop(0)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    monkeypatch.setattr(mutate, "Copy", Answering)
    monkeypatch.setattr(Answering, "answers", [])
    return Answering.answers


LINE = Mutant("line", "page", "a line", "another", "It is another.", ("test_house.py", "test_ladder.py::test_c"))


def test_a_death_by_a_signal_says_nothing_unless_it_is_expected(told: list[tuple[int, str]]) -> None:
    """It may have come from outside, as when memory ran out; an expected one is checked without the mutant."""
    told += [(-9, "..")]
    (verdict,) = mutate.run([LINE])
    assert (verdict.invalid, verdict.caught_by, verdict.is_accepted) == (True, "", False)
    assert verdict.says == "the process died by signal 9"
    told += [(-11, ".."), (mutate.PASSED, "2 passed")]
    (verdict,) = mutate.run([replace(LINE, crashes=True)])
    assert (verdict.invalid, verdict.caught_by, verdict.is_accepted) == (False, "named", True)
    assert verdict.failed == ("tests/repository/test_house.py", "tests/repository/test_ladder.py::test_c")
    told += [(-11, ".."), (-9, "..")]
    with pytest.raises(SystemExit, match="without a mutant, a test that caught one fails as well"):
        mutate.run([replace(LINE, crashes=True)])


@pytest.mark.parametrize("word", ["FAILED", "ERROR"])
def test_what_caught_one_is_run_again_without_it(word: str, told: list[tuple[int, str]]) -> None:
    """A test, or the fixture of one, that fails in any case says nothing of a mutant."""
    says = (mutate.FAILED, f"{word} tests/repository/test_ladder.py::test_c[x - y] - OSError: no space left\n1 error")
    told += [says, says]
    with pytest.raises(SystemExit, match="without a mutant, a test that caught one fails as well"):
        mutate.run([LINE])
    told += [says, (mutate.PASSED, "1 passed")]
    (verdict,) = mutate.run([LINE])
    assert (verdict.caught_by, verdict.is_accepted, told) == ("named", True, [])
