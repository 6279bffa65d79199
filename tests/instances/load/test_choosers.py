"""Kernels that other processes choose: the same as lookups choose, and chosen by lookups where a process fails."""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from qconv import Conv2d, generator
from qconv.conversion import Quantize
from qconv.instances.choose import Choice
from qconv.instances.choose.lookup import choose
from qconv.instances.load import chooser, choosers, serving
from qconv.instances.load.building import Place
from qconv.instances.load.choosers import choose_ahead, most_processes
from qconv.instances.load.neighbours import Neighbours
from qconv.op import Problem
from qconv.problem.chain import chain_of
from qconv.targets.target import target

H200 = Place("NVIDIA H200", target("sm_90a"))
FIRST, SECOND = Conv2d(1, 14, 14, 64, 64, 1, 1), Conv2d(1, 14, 14, 64, 64, 3, 3, pad=1)
CHAIN = chain_of([SECOND, FIRST])
BYTES = [Quantize(1, 1, 1000 * count, out_type="uint8") for count in range(1, 9)]
ASKED = [Neighbours((SECOND, FIRST), ((CHAIN, 0),)), *(Neighbours((one,)) for one in BYTES)]
EVERY = [problem for one in ASKED for problem in one.every]


@pytest.fixture(autouse=True)
def _empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("QCONV_PROCESSES", "3")
    serving.forget()
    yield
    serving.forget()


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Counter[Problem]:
    """Count the choices of this process."""
    seen: Counter[Problem] = Counter()

    def counted(problem: Problem, *given: Any) -> Any:
        seen.update([problem])
        return choose(problem, *given)

    monkeypatch.setattr(serving, "choose", counted)
    return seen


def command(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let a program of Python choose."""
    monkeypatch.setattr(choosers, "CHOOSER", (sys.executable, "-c", code))


def answers() -> list[Any]:
    return serving.answers(EVERY, H200, None, serving.is_in_sequence())


def test_lookups_answer_what_other_processes_chose(chosen: Counter[Problem]) -> None:
    with serving.in_sequence():
        choose_ahead(ASKED, H200)
        found = answers()
        assert not chosen
        serving.forget()
        assert answers() == found  # as they are on disk
        assert not chosen
    own = [serving.choose(problem, H200, layers, True) for layers in [_no_rows()] for problem in EVERY]
    assert [one.plan for one in found] == [one.plan for one in own]
    assert [one.reason for one in found] == [one.reason for one in own]


def _no_rows() -> Any:
    from qconv.instances.choose import shipped
    from qconv.tune_db.layered import Layered

    return Layered([shipped.layer(H200.name)])


def test_what_is_known_starts_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers()
    started = tmp_path / "started"
    command(monkeypatch, f"open({str(started)!r}, 'w')")
    choose_ahead(ASKED, H200)
    serving.forget()
    choose_ahead(ASKED, H200)
    assert not started.exists()
    with serving.in_sequence():  # which is another lookup
        choose_ahead(ASKED, H200)
    assert started.exists()


@pytest.mark.parametrize("why", ["few problems", "few processes", "lookups are answered"])
def test_few_problems_are_not_worth_a_process(why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = tmp_path / "started"
    command(monkeypatch, f"open({str(started)!r}, 'w')")
    if why == "few problems":
        choose_ahead(ASKED[: choosers.LEAST_PROBLEMS - 2], H200)
    elif why == "few processes":
        monkeypatch.setenv("QCONV_PROCESSES", str(choosers.LEAST_PROCESSES - 1))
        choose_ahead(ASKED, H200)
    else:
        with serving.answered_by(cast(Any, print)):
            choose_ahead(ASKED, H200)
    assert not started.exists()


@pytest.mark.parametrize(
    "code",
    [
        "",
        "import sys; sys.stdin.readline()",
        "print('{')",
        "print('[]', flush=True); input(); input(); print(1)",
        "import sys; [print('null', flush=True) for line in sys.stdin]",
    ],
)
def test_where_a_process_fails_lookups_choose(
    code: str, monkeypatch: pytest.MonkeyPatch, chosen: Counter[Problem]
) -> None:
    command(monkeypatch, code)
    choose_ahead(ASKED, H200)
    assert all(isinstance(one, Choice) for one in answers())
    assert set(chosen.values()) == {1}
    assert set(chosen) >= set(EVERY)


def test_a_program_that_is_not_there_is_missed_by_nobody(
    monkeypatch: pytest.MonkeyPatch, chosen: Counter[Problem], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(choosers, "CHOOSER", ("/no/such/program",))
    with caplog.at_level(logging.INFO, "qconv"):
        choose_ahead(ASKED, H200)
    assert "/no/such/program" in caplog.text
    assert len(answers()) == len(EVERY)
    assert set(chosen.values()) == {1}


def test_neighbours_come_once_and_the_longest_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QCONV_PROCESSES", "3")
    monkeypatch.setattr(choosers, "ThreadPoolExecutor", _InTurn)
    heard = tmp_path / "heard"
    hear = f"open({str(heard)!r}, 'a').write(line)"
    command(monkeypatch, f"import sys\nfor line in sys.stdin: {hear}; print('{{}}', flush=True)")
    choose_ahead([*ASKED[::-1], *ASKED], H200)
    asked = [Neighbours.from_dict(json.loads(line)) for line in heard.read_text().splitlines()]
    assert asked[0] == ASKED[0]
    assert Counter(asked) == Counter(ASKED)


class _InTurn:
    """An executor that runs each job as it comes."""

    def __init__(self, _: int) -> None: ...
    def __enter__(self) -> _InTurn:
        return self

    def __exit__(self, *_: object) -> None: ...
    def submit(self, job: Any) -> Any:
        class Done:
            made = job()

            def result(self) -> Any:
                return self.made

        return Done()


def test_what_was_measured_is_left_to_the_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Choice(generator.default(FIRST, H200.target), "exact", "a test")
    monkeypatch.setattr(serving, "choose", lambda *_: made)
    assert chooser.answered(Neighbours((FIRST,)).as_dict(), H200, False) == {}


def test_the_number_of_processes_is_the_users_or_that_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCONV_PROCESSES", "40")
    assert most_processes() == 40
    monkeypatch.delenv("QCONV_PROCESSES")
    monkeypatch.setattr(choosers.os, "sched_getaffinity", lambda _: set(range(6)))
    assert most_processes() == 6
    monkeypatch.setattr(choosers.os, "sched_getaffinity", lambda _: set(range(600)))
    assert most_processes() == choosers.MOST_PROCESSES
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert most_processes() == 1


@pytest.mark.parametrize("given", ["0", "many", "-1", ""])
def test_a_number_of_processes_that_is_none_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCONV_PROCESSES", given)
    with pytest.raises(ValueError, match="QCONV_PROCESSES="):
        most_processes()
