"""The list of planted bugs can be used: each still applies, and every file that it should cover has one."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import mutate
import pytest
from mutants import AREAS, record
from mutants.excused import EXCUSED
from mutants.mutant import COMPARE_TEXT, ROOT, Mutant

EVERY = [mutant for mutants in AREAS.values() for mutant in mutants]
# What is planted in: every page and role, and what turns a problem into a stored winner.
COVERED = (
    *("templates/**/*.j2", "generator/*.py", "tuner/**/*.py", "tune_db/*.py", "instances/*.py"),
    *("instances/library/*.py", "instances/library/*.cpp", "instances/library/*.h"),
    *("src/qconv/*.py", "src/qconv/conversion/*.py", "src/qconv/tensor_ops/*.py"),
    *("src/qconv/network/*.py", "src/qconv/onnx/*.py", "src/qconv/torch/*.py", "src/qconv/cli/*.py"),
    *("src/qconv/device/*.py", "src/qconv/device/*.h", "src/qconv/device/*.cpp"),
)


def test_each_applies_once() -> None:
    refused = []
    for mutant in EVERY:
        try:
            mutant.changed((ROOT / mutant.path).read_text())
        except ValueError as error:
            refused.append(str(error))
    assert not refused, "\n".join(refused)


def test_each_changes_something_and_says_why() -> None:
    for mutant in EVERY:
        assert mutant.old != mutant.new, mutant.name
        assert mutant.why.endswith("."), f"{mutant.name}: {mutant.why!r} is no sentence"
    assert not (twice := [name for name, count in Counter(m.name for m in EVERY).items() if count > 1]), twice


def test_each_names_tests_that_look_at_behaviour() -> None:
    for mutant in EVERY:
        assert mutant.tests, f"{mutant.name} names no test"
        for test in mutant.tests:
            path = test.partition("::")[0]
            assert (ROOT / path).is_file(), f"{mutant.name} names {path}, which does not exist"
            function = test.partition("::")[2].partition("[")[0]
            there = f"def {function}(" in (ROOT / path).read_text()
            assert there or not function, f"{mutant.name} names {test}, and {path} has no {function}"
            compares = not {path, test}.isdisjoint(COMPARE_TEXT)
            assert not compares, f"{mutant.name} names {test}, which any change of text fails"


def test_a_new_file_brings_its_own() -> None:
    """A page or a module that nobody plants a bug in is not known to be tested."""
    planted = {mutant.path for mutant in EVERY}
    files = {str(path.relative_to(ROOT)) for pattern in COVERED for path in ROOT.glob(pattern)}
    files = {path for path in files if Path(path).name != "__main__.py" and not is_empty(ROOT / path)}
    missing = sorted(files - planted - set(EXCUSED))
    assert not missing, f"plant a bug in each (tests/repository/mutants), or say in its excused.py why not: {missing}"
    needless = sorted(path for path in EXCUSED if path in planted or path not in files)
    assert not needless, f"excused, but planted in or gone: {needless}"


def is_empty(path: Path) -> bool:
    """A package's `__init__.py` may say in its docstring what lives there, and hold nothing else."""
    text = path.read_text()
    return not text.strip() or (path.suffix == ".py" and len(ast.parse(text).body) == 1)


def test_there_are_enough() -> None:
    """As many as were asked for, and few that nobody can notice or that take the slow suite."""
    noticeable = [mutant for mutant in EVERY if not (mutant.equivalent or mutant.gpu)]
    counted = Counter(Path(mutant.path).suffix for mutant in noticeable)
    assert counted[".j2"] >= 120, counted
    assert counted[".py"] >= 60, counted
    assert sum(not mutant.slow for mutant in noticeable) >= 0.85 * len(noticeable)


def test_a_text_that_is_gone_is_refused() -> None:
    mutant = Mutant("gone", "README.md", "no such text", "", "It is not there.", ("tests/repository/test_mutants.py",))
    with pytest.raises(ValueError, match=r"mutant 'gone': its old text occurs 0 times in README.md"):
        mutant.changed((ROOT / "README.md").read_text())


def test_a_sample_is_of_many_areas_and_fast() -> None:
    area_of = {mutant.name: area for area, mutants in AREAS.items() for mutant in mutants}
    chosen = mutate.sample(12, "seed")
    assert chosen == mutate.sample(12, "seed") != mutate.sample(12, "another")
    assert len({area_of[mutant.name] for mutant in chosen}) == 12
    assert not [mutant.name for mutant in chosen if mutant.slow or mutant.gpu or mutant.equivalent]


def test_a_table_of_what_was_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mutant, missed = [mutant for mutant in EVERY if not (mutant.gpu or mutant.equivalent)][:2]
    verdicts = [mutate.Verdict(mutant, "named", "FAILED", 1.0), mutate.Verdict(missed, "", "1 passed", 2.0)]
    file = tmp_path / "build" / "verdicts.json"
    record.save(mutate.judged_anew(verdicts, record.load(file)), file)
    assert mutate.main(["--table", str(file)]) == 0
    table = capsys.readouterr().out
    assert re.match(r"Judged in the trees of 1 commits, the last on \d{4}-\d\d-\d\d: [0-9a-f]{10}\.", table)
    assert re.search(rf"^\| \*\*all\*\* \| {len(EVERY)} \| 1 \| 0 \| 1 \|", table, re.M)
    assert f"- missed: `{missed.path}`, {missed.name}\n- not judged: " in table


def test_a_verdict_is_of_one_wording() -> None:
    mutant = next(mutant for mutant in EVERY if not mutant.gpu)
    known = {mutant.name: record.Judged(record.wording(mutant), "fast", 1.0, "0" * 10, "2026-11-27T19:30:00+00:00")}
    assert record.column(mutant, known) == "fast"
    assert record.column(replace(mutant, new=mutant.new + " "), known) == "not judged"


@pytest.mark.slow
def test_a_sample_is_caught() -> None:
    """Others with every commit; all of them on demand: see mutate.py. One that is not done in a minute, on a
    machine that has more to do, says nothing."""
    verdicts = mutate.run(mutate.sample(12, mutate.commit()), jobs=2, limit_s=60)
    done = [verdict for verdict in verdicts if not verdict.unfinished]
    assert len(done) >= 6, "too few were judged in time"
    assert not (refused := [f"{v.mutant.name}: {v.says}" for v in done if not v.is_accepted]), refused
