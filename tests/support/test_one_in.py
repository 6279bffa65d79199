"""The tests that take turns, and which of them a run has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from one_in import is_taken

NAMES = [f"test_many[{i}]" for i in range(3000)]


def test_commits_take_different_tests_about_as_many_as_are_asked_for() -> None:
    a, b = ({name for name in NAMES if is_taken(name, commit, 3)} for commit in ("3f2a", "9c01"))
    assert all(900 < len(taken) < 1100 for taken in (a, b))
    assert 250 < len(a & b) < 420
    assert all(is_taken(name, "3f2a", 1) for name in NAMES)
    with pytest.raises(ValueError, match="at least 1"):
        is_taken(NAMES[0], "3f2a", 0)


@pytest.mark.slow
def test_a_run_leaves_out_none_that_takes_no_turns() -> None:
    file = "tests/templates/test_special_random.py"
    many = f"{file}::test_many_random_configs"
    few = [f"{file}::{name}" for name in ("test_a_random_config", "test_the_many_have_every_choice_and_kind")]
    few += [f"{file}::test_the_widest_slab_of_pointwise"]
    every, some = (collected(file, *options) for options in ((), ("--one-in", "4")))
    assert some < every
    functions = {name.partition("[")[0] for name in every - some}
    assert {many} <= functions <= {many, *few}
    assert 0 < len([name for name in some if "::test_many" in name]) < len([n for n in every if "::test_many" in n]) / 2


@pytest.mark.slow
def test_the_fast_suite_has_a_part_of_those_that_take_turns() -> None:
    # A hundred and more take turns in these files: every commit has some.
    files = [str(path) for path in sorted(Path(__file__).parents[1].glob("templates/*_sanitizers.py"))]
    fast, slow = (collected(*files, "-m", marked) for marked in ("not slow", "slow"))
    every = collected(*files, "-m", "not slow", "--one-in", "1")
    assert fast < every < fast | slow
    functions = {name.partition("[")[0].partition("::")[2] for name in every - fast}
    assert {"test_nothing_is_found", "test_a_planted_bug_is_found"} <= functions


@pytest.mark.slow
def test_the_long_tests_of_a_file_that_builds_run_together_or_not_at_all() -> None:
    texts = {str(path): path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py")}
    own = [path for path, text in texts.items() if "pytest.mark.thirds" in text and "pytest.mark.turns" not in text]
    files = [path for path in own if path != __file__]
    every, some = (collected(*files, "-m", "slow", "--one-in", number) for number in ("1", "20"))
    taken, left = ({name.partition("::")[0] for name in names} for names in (some, every - some))
    assert taken
    assert left
    assert not taken & left


def collected(*arguments: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    run = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    return {line for line in run.stdout.splitlines() if "::" in line}
