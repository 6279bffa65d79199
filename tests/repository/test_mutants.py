"""The list of planted bugs is usable: each still applies, and every file that it should cover has one."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import mutate
import pytest
from mutants import AREAS, record
from mutants.excused import EXCUSED
from mutants.mutant import COMPARE_TEXT, ROOT, Mutant
from mutants.node_ids import node_ids
from mutants.tree import Place, Tree

SLOW = "pytest.mark.slow"
EVERY = [mutant for mutants in AREAS.values() for mutant in mutants]
# Files to cover: every page and role, and the path from a problem to a stored winner.
COVERED = (
    *("templates/**/*.j2", "generator/*.py", "tuner/**/*.py", "tune_db/*.py", "instances/*.py"),
    *("instances/library/*.py", "instances/library/*.cpp", "instances/library/*.h"),
    *("src/qconv/*.py", "src/qconv/conversion/*.py", "src/qconv/tensor_ops/*.py"),
    *("src/qconv/network/*.py", "src/qconv/onnx/*.py", "src/qconv/torch/*.py", "src/qconv/cli/*.py"),
    *("src/qconv/device/*.py", "src/qconv/device/*.h", "src/qconv/device/*.cpp"),
)


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree(ROOT)


@pytest.fixture(scope="module")
def places(tree: Tree) -> Mapping[str, Place]:
    """The place of each mutant."""
    found, refused = {}, []
    for mutant in EVERY:
        try:
            found[mutant.name] = tree.place(mutant)
        except ValueError as error:
            refused.append(str(error))
    assert not refused, "\n".join(refused)
    return found


def test_each_applies_once(places: Mapping[str, Place]) -> None:
    assert len(places) == len(EVERY)


def test_each_changes_something_and_says_why() -> None:
    for mutant in EVERY:
        assert mutant.old != mutant.new, mutant.name
        assert mutant.why.endswith("."), f"{mutant.name}: {mutant.why!r} is no sentence"
    assert not (twice := [name for name, count in Counter(m.name for m in EVERY).items() if count > 1]), twice


def test_a_test_file_is_named_by_the_end_of_its_path() -> None:
    tests = ("test_mutants.py", "repository/test_mutate.py::test_a[b::c]")
    assert node_ids(tests) == (
        "tests/repository/test_mutants.py",
        "tests/repository/test_mutate.py::test_a[b::c]",
    )
    for test, count in (("test_gone.py::test_a", 0), ("test_plan.py", 3)):
        with pytest.raises(ValueError, match=rf"{test.partition('::')[0]} is the end of {count}\d* test files' paths"):
            node_ids([test])


def test_each_names_tests_that_look_at_behaviour() -> None:
    for mutant in EVERY:
        assert mutant.tests, f"{mutant.name} names no test"
        for test in node_ids(mutant.tests):
            path = test.partition("::")[0]
            function = test.partition("::")[2].partition("[")[0]
            there = f"def {function}(" in (ROOT / path).read_text()
            assert there or not function, f"{mutant.name} names {test}, and {path} has no {function}"
            compares = not {path, test}.isdisjoint(COMPARE_TEXT)
            assert not compares, f"{mutant.name} names {test}, which any change of text fails"


def test_each_that_a_fast_test_notices_names_one() -> None:
    """A fast run leaves slow tests out, and finds nothing to say about the bug."""
    for mutant in EVERY:
        if not (mutant.slow or mutant.gpu or mutant.equivalent):
            named = [test.partition("::") for test in node_ids(mutant.tests)]
            slow = [function.partition("[")[0] in slow_tests(path) for path, _, function in named]
            assert not all(slow), f"{mutant.name} names slow tests alone: give it slow=True"


@cache
def slow_tests(path: str) -> frozenset[str]:
    """Return the tests of a file that are marked slow; the empty name is the file's, if all of them are."""
    module = ast.parse((ROOT / path).read_text())
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    tests = [function for function in functions if function.name.startswith("test_")]
    of_all = [
        ast.unparse(node.value)
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    all_are = any(SLOW in marks for marks in of_all)
    slow = {test.name for test in tests if all_are or SLOW in map(ast.unparse, test.decorator_list)}
    return frozenset({*slow, *([""] if 0 < len(tests) <= len(slow) else [])})


def test_a_new_file_brings_its_own(tree: Tree, places: Mapping[str, Place]) -> None:
    """A page or a module that nobody plants a bug in is not known to be tested."""
    planted = {str(place.path) for place in places.values()}
    called = {stem: [str(path) for path in tree.files_called(stem)] for stem in EXCUSED}
    assert not (unclear := {stem: paths for stem, paths in called.items() if len(paths) != 1}), unclear
    excused = {path for paths in called.values() for path in paths}
    files = {str(path.relative_to(ROOT)) for pattern in COVERED for path in ROOT.glob(pattern)}
    files = {path for path in files if Path(path).name != "__main__.py" and not is_empty(ROOT / path)}
    missing = sorted(files - planted - excused)
    assert not missing, f"plant a bug in each (tests/repository/mutants), or say in its excused.py why not: {missing}"
    needless = sorted(path for path in excused if path in planted or path not in files)
    assert not needless, f"excused, but planted in or gone: {needless}"


def is_empty(path: Path) -> bool:
    """Return true for a package's `__init__.py` with at most a docstring."""
    text = path.read_text()
    return not text.strip() or (path.suffix == ".py" and len(ast.parse(text).body) == 1)


def test_there_are_enough(places: Mapping[str, Place]) -> None:
    """As many as were asked for, and few that nobody can notice or that take the slow suite."""
    noticeable = [mutant for mutant in EVERY if not (mutant.equivalent or mutant.gpu)]
    counted = Counter(places[mutant.name].path.suffix for mutant in noticeable)
    assert counted[".j2"] >= 120, counted
    assert counted[".py"] >= 60, counted
    assert sum(not mutant.slow for mutant in noticeable) >= 0.85 * len(noticeable)


PYTHON = """
class Ring:
    @property
    def slots(self):
        return 4

def slots(ring):
    return 4 + len("return 4")

LEAST = 4
"""
PAGE = """
struct Ring {
    __device__ __forceinline__ int slots() const { return 4; }
};
//% if wide
template <int COUNT>
__device__ __forceinline__ int slots(
    const Ring& ring) {
    for (int i = 0; i < COUNT; ++i) wait(i);

    return 5;
}
//% endif
constexpr int LEAST = 4;
"""


@pytest.fixture
def rings(tmp_path: Path) -> Tree:
    for name, text in {"src/qconv/ring.py": PYTHON, "templates/page.j2": PAGE}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    return Tree(tmp_path)


@pytest.mark.parametrize(
    ("symbol", "old", "found"),
    [
        ("Ring.slots", "return 4", "src/qconv/ring.py:5"),
        ("Ring.slots", "@property", "src/qconv/ring.py:3"),
        ("slots", "return 4;", "templates/page.j2:3"),
        ("ring", "LEAST = 4", "src/qconv/ring.py:10"),
        ("Ring::slots", "return 4", "templates/page.j2:3"),
        ("slots", "return 5", "templates/page.j2:11"),
        ("page", "LEAST = 4", "templates/page.j2:14"),
        ("templates/page", "if wide", "templates/page.j2:5"),
        ("qconv/ring.py", "def slots(ring)", "src/qconv/ring.py:7"),
    ],
)
def test_a_symbol_and_a_text_find_one_place(symbol: str, old: str, found: str, rings: Tree) -> None:
    mutant = Mutant("a bug", symbol, old, "", "It is one.", ())
    place = rings.place(mutant)
    text = rings.texts[place.path]
    assert f"{place.path}:{text.count(chr(10), 0, place.begin) + 1}" == found
    assert rings.planted(mutant) == (place.path, text[: place.begin] + text[place.begin + len(old) :])


def test_a_text_in_no_place_or_in_two_is_refused(rings: Tree) -> None:
    for symbol, old in (("slots", "LEAST"), ("gone", "return 4"), ("slots", "return 6")):
        with pytest.raises(ValueError, match=f"mutant 'a bug': {symbol} holds its old text 0 times, and must"):
            rings.place(Mutant("a bug", symbol, old, "", "It is one.", ()))
    there = "src/qconv/ring.py:5, src/qconv/ring.py:8, src/qconv/ring.py:8, templates/page.j2:3"
    with pytest.raises(ValueError, match=rf"holds its old text 4 times \({there}\)"):
        rings.place(Mutant("a bug", "slots", "return 4", "", "It is one.", ()))


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
    assert f"- missed: `{missed.symbol}`, {missed.name}\n- not judged: " in table


def test_a_verdict_is_of_one_wording() -> None:
    mutant = next(mutant for mutant in EVERY if not mutant.gpu)
    known = {mutant.name: record.Judged(record.wording(mutant), "fast", 1.0, "0" * 10, "2026-11-27T19:30:00+00:00")}
    assert record.column(mutant, known) == "fast"
    assert record.column(replace(mutant, new=mutant.new + " "), known) == "not judged"


@pytest.mark.slow
def test_a_sample_is_caught() -> None:
    """The sample differs with every commit; mutate.py runs all of them. A mutant that takes more than a minute, on a
    busy machine, is no verdict."""
    verdicts = mutate.run(mutate.sample(12, mutate.commit()), jobs=2, limit_s=60)
    done = [verdict for verdict in verdicts if not verdict.unfinished]
    assert len(done) >= 6, "too few were judged in time"
    assert not (refused := [f"{v.mutant.name}: {v.says}" for v in done if not v.is_accepted]), refused
