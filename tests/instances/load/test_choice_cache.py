"""Choices on disk: another process takes them, unless the program or the measurements have changed since."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qconv import generator
from qconv.device import open_device
from qconv.errors import Infeasible
from qconv.generator import Expected, source
from qconv.instances.choose import Choice
from qconv.instances.choose.lookup import choose
from qconv.instances.load import choice_cache, serving
from qconv.instances.load.building import Place
from qconv.instances.load.choice_cache import ChoiceCache
from qconv.problem.convolution import Conv2d
from qconv.targets.target import target
from qconv.tune_db.database import Database
from tests.instances.library.test_export import winner

H200 = Place("NVIDIA H200", target("sm_90a"))
CPU = open_device("cpu")
ONE, OTHER = (Conv2d(n, 8, 8, 16, 16, 3, 3, pad=1) for n in (1, 2))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path / "cache"))
    serving.forget()
    return tmp_path / "cache"


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Counter[Any]:
    """Count the choices that are made."""
    seen: Counter[Any] = Counter()

    def counted(problem: Any, *given: Any) -> Any:
        seen.update([problem])
        return choose(problem, *given)

    monkeypatch.setattr(serving, "choose", counted)
    return seen


def test_another_process_has_the_same_choices(chosen: Counter[Any]) -> None:
    first = serving.answers([ONE, OTHER], H200, None, in_sequence=True)
    serving.forget()
    assert serving.answers([OTHER, ONE], H200, None, in_sequence=True) == first[::-1]
    assert set(chosen.values()) == {1}
    assert all(isinstance(answer, Choice) and answer.expected is not None for answer in first)


@pytest.mark.parametrize("choice", [{"origin": "default"}, {"origin": "nearest", "expected": Expected(2.5, 0.25)}])
def test_every_field_of_a_choice_is_kept(choice: dict[str, Any], cache: Path) -> None:
    plan = generator.cheapest(ONE, H200.target, 4)[-1]
    made = Choice(plan, reason="for a test", **choice)
    ChoiceCache(cache / "choices" / "a.jsonl").add({ONE: made}, H200, False)
    again = ChoiceCache(cache / "choices" / "a.jsonl")
    assert again.find(ONE, H200, False) == made
    assert again.find(OTHER, H200, False) is None
    assert again.find(ONE, H200, True) is None
    assert again.find(ONE, Place("NVIDIA H100", H200.target), False) is None
    assert again.find(ONE, CPU, False) is None


def test_a_measured_choice_is_left_to_the_database(cache: Path) -> None:
    made = Choice(generator.default(ONE, H200.target), "exact", "for a test", measured_us=1.25)
    ChoiceCache(cache / "choices" / "a.jsonl").add({ONE: made}, H200, False)
    assert not cache.exists(), "who only reads a layer writes nothing"


def test_that_no_kernel_serves_a_problem_is_kept_too(cache: Path) -> None:
    ChoiceCache(cache / "choices" / "a.jsonl").add({ONE: Infeasible("it is a test")}, H200, False)
    found = ChoiceCache(cache / "choices" / "a.jsonl").find(ONE, H200, False)
    assert isinstance(found, Infeasible)
    assert str(found) == "it is a test"


def test_what_was_tuned_since_is_chosen(chosen: Counter[Any], cache: Path) -> None:
    (before,) = serving.answers([ONE], CPU, None, in_sequence=False)
    with Database.open(cache / "tune.sqlite") as rows:
        rows.add(replace(winner(ONE, "cpu"), device=CPU.name))
    serving.forget()
    (after,) = serving.answers([ONE], CPU, None, in_sequence=False)
    assert isinstance(before, Choice)
    assert isinstance(after, Choice)
    assert (before.origin, after.origin) == ("default", "exact")
    assert chosen[ONE] == 2


def test_a_tuned_kernel_is_rendered_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its source is compared with the one that was measured, and loaded."""
    with Database.open(cache / "tune.sqlite") as rows:
        rows.add(replace(winner(ONE, "cpu"), device=CPU.name))
    rendered: list[Any] = []
    page = source._page

    def counted(plan: Any, *given: Any) -> str:
        rendered.append(plan.problem)
        return page(plan, *given)

    monkeypatch.setattr(source, "_page", counted)
    instance = serving.lookup(ONE, "cpu")
    assert (instance.origin, rendered) == ("exact", [ONE])


def test_another_program_chooses_anew(chosen: Counter[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    serving.answers([ONE], CPU, None, in_sequence=False)
    serving.forget()
    monkeypatch.setattr(choice_cache, "_program", lambda: b"another")
    serving.answers([ONE], CPU, None, in_sequence=False)
    assert chosen[ONE] == 2


def test_a_changed_file_is_another_program(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("a.py", "inner/b.j2", "c.pyc"):
        (tmp_path / name).write_text("one")
    before = choice_cache.digest_of([tmp_path])
    (tmp_path / "c.pyc").write_text("two")
    assert choice_cache.digest_of([tmp_path]) == before
    (tmp_path / "inner" / "b.j2").write_text("two")
    assert choice_cache.digest_of([tmp_path]) != before
    assert choice_cache.digest_of([tmp_path / "missing"]) is None


@pytest.mark.parametrize("spoil", ['{"key": "', "[]", '{"no": 1}', "null", "\x00"])
def test_a_line_that_is_not_whole_is_skipped(spoil: str, cache: Path, chosen: Counter[Any]) -> None:
    serving.answers([ONE], CPU, None, in_sequence=False)
    (path,) = (cache / "choices").iterdir()
    path.write_text(f"{spoil}\n{path.read_text()}")
    serving.forget()
    serving.answers([ONE], CPU, None, in_sequence=False)
    assert chosen[ONE] == 1


@pytest.mark.parametrize(
    "change", [{"config": {"family": "none"}}, {"config": 3}, {"expected": {"us": 1}}, {"plan": 1}]
)
def test_a_choice_that_makes_no_sense_is_made_again(change: dict[str, Any], cache: Path, chosen: Counter[Any]) -> None:
    serving.answers([ONE], CPU, None, in_sequence=False)
    (path,) = (cache / "choices").iterdir()
    line = json.loads(path.read_text())
    if "plan" in change:
        del line["config"]
    path.write_text(json.dumps(line | change) + "\n")
    serving.forget()
    (answer,) = serving.answers([ONE], CPU, None, in_sequence=False)
    assert isinstance(answer, Choice)
    assert chosen[ONE] == 2


def test_few_files_are_kept_and_none_grows_without_end(
    cache: Path, monkeypatch: pytest.MonkeyPatch, chosen: Counter[Any]
) -> None:
    for number in range(2 * choice_cache.MOST_FILES):
        ChoiceCache(cache / "choices" / f"{number}.jsonl").add({ONE: Infeasible("a test")}, H200, False)
    assert len(list((cache / "choices").iterdir())) == choice_cache.MOST_FILES
    monkeypatch.setattr(choice_cache, "MOST_BYTES", 1)
    serving.answers([ONE], CPU, None, in_sequence=False)
    serving.forget()
    serving.answers([ONE], CPU, None, in_sequence=False)
    assert chosen[ONE] == 2


def test_a_cache_that_cannot_be_written_keeps_nothing(cache: Path, chosen: Counter[Any]) -> None:
    cache.mkdir()
    (cache / "choices").write_text("a file")
    for _ in range(2):
        serving.forget()
        serving.answers([ONE], CPU, None, in_sequence=False)
    assert chosen[ONE] == 2


def test_a_database_that_is_no_file_or_too_large_has_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tune.sqlite"
    assert choice_cache.contents_of(["postgresql://host/rows"]) is None
    assert choice_cache.contents_of([str(file)]) is None
    file.write_bytes(b"rows")
    alone = choice_cache.contents_of([str(file)])
    assert alone is not None
    (tmp_path / "tune.sqlite-wal").write_bytes(b"more")
    assert choice_cache.contents_of([str(file)]) not in (None, alone)
    monkeypatch.setattr(choice_cache, "LARGEST_DATABASES", 7)
    assert choice_cache.contents_of([str(file)]) is None
