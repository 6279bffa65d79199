"""Compiling ahead: in order, one core each, and a hanging compiler takes no more than its time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from qconv import generator
from qconv.device import cache, compile, open_device
from qconv.errors import CompileError, CompileTimeout
from qconv.generator import Plan, Source
from qconv.problem.convolution import Conv2d
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.search import compile_ahead
from qconv.tuner.search.compile_ahead import Ahead
from qconv.tuner.search.tune import tune
from tests.tuner.measure.test_child import is_alive

PROBLEM = Conv2d(1, 3, 3, 4, 4, 2, 2)
CPU = open_device("cpu")
CANDIDATES = [Candidate.of(plan) for plan in generator.space(PROBLEM, CPU.target)[0][:4]]
PLANS = [candidate.plan for candidate in CANDIDATES]

# Answers like g++, and then waits for a child that does not end.
HANGS = """#!/bin/sh
case $1 in
--version) echo g++ ;;
-dump*) echo 9.9.9 ;;
*) sleep 300 & echo $! >PID; wait ;;
esac
"""


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the file to which the compiler's child writes its process id."""
    program, pid = tmp_path / "g++", tmp_path / "pid"
    program.write_text(HANGS.replace("PID", str(pid)))
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path / "cache"))
    honest = subprocess.Popen.communicate

    def hung(process: subprocess.Popen[str], timeout: float | None = None) -> tuple[str, str]:
        """Return the process's output. The time limit starts once it hangs: on a busy machine it would expire too
        early."""
        while process.poll() is None and not (pid.exists() and pid.read_text().endswith("\n")):
            time.sleep(0.01)
        return honest(process, timeout=timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", hung)
    monkeypatch.setattr(compile_ahead, "GRACE_S", 120.0)
    compile.compiler_for.cache_clear()
    yield pid
    compile.compiler_for.cache_clear()


def test_a_compiler_that_hangs_is_ended_with_its_children(hanging: Path) -> None:
    with Ahead("g++ 9.9.9", 0.5) as compiling:
        compiling.submit(CANDIDATES[0])
        candidate, refused = compiling.next()
    assert candidate == CANDIDATES[0]
    assert isinstance(refused, CompileTimeout)
    assert str(refused) == "g++ did not end within 0.5 s, and was ended"
    deadline = time.monotonic() + 120
    while is_alive(int(hanging.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(int(hanging.read_text()))


def test_an_interruption_does_not_wait_for_one_that_hangs(hanging: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time would be a day."""
    monkeypatch.setattr(compile_ahead, "GRACE_S", 1.0)
    compiling = Ahead("g++ 9.9.9", 24 * 3600.0)
    compiling.submit(CANDIDATES[0])
    while not (hanging.exists() and hanging.read_text()):
        time.sleep(0.01)
    interrupted = threading.Thread(target=compiling.__exit__, args=(KeyboardInterrupt,))
    interrupted.start()
    interrupted.join(30)
    is_waiting = interrupted.is_alive()
    os.kill(int(hanging.read_text()), signal.SIGKILL)
    interrupted.join()
    assert not is_waiting


def test_one_that_nothing_can_end_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers a library in this process: however many calls of it hang, the others are compiled."""
    forever, clock = threading.Event(), [0.0]

    def build(source: Source, plan: Plan, *_: object) -> None:
        if plan is not PLANS[-1]:
            clock[0] += 1.0
            forever.wait(60)

    # One at a time, and only the hanging one takes time: otherwise a busy machine could keep the last one from ending
    # in time.
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(compile_ahead.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(compile_ahead, "build", build)
    monkeypatch.setattr(compile_ahead, "GRACE_S", 0.0)
    with Ahead("any", 0.1) as compiling:
        for candidate in CANDIDATES:
            compiling.submit(candidate)
        answers = [compiling.next() for _ in PLANS]
    forever.set()
    said = {id(candidate.plan): str(refused) for candidate, refused in answers}
    assert said.pop(id(PLANS[-1])) == "None"
    assert set(said.values()) == {"the compiler did not end within 0.1 s"}


def test_what_is_submitted_first_is_compiled_first_and_leaving_drops_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    compiling, built = Ahead("any"), list[Plan]()

    def build(source: Source, plan: Plan, *_: object) -> None:
        built.append(plan)
        # The third ends once leaving has dropped the fourth.
        while plan is PLANS[2] and not compiling._begin.empty():
            time.sleep(0.001)

    monkeypatch.setattr(compile_ahead, "build", build)
    with compiling:
        for candidate in CANDIDATES:
            compiling.submit(candidate)
        assert compiling.full
        assert [compiling.next() for _ in PLANS[:2]] == [(candidate, None) for candidate in CANDIDATES[:2]]
    assert built == PLANS[: len(built)]
    assert len(built) < len(PLANS)


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (2, 1), (4, 3)])
def test_a_core_is_left_to_the_worker_and_one_candidate_waits(
    cores: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a search is further ahead than its compilers need, it knows fewer results when it proposes."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    begun, end = SimpleQueue[Plan](), threading.Event()

    def build(source: Source, plan: Plan, *_: object) -> None:
        begun.put(plan)
        end.wait(60)

    monkeypatch.setattr(compile_ahead, "build", build)
    with Ahead("any") as compiling:
        for at in range(workers + 1):
            assert not compiling.full
            compiling.submit(CANDIDATES[at])
        assert compiling.full
        assert {id(begun.get(timeout=60)) for _ in range(workers)} == set(map(id, PLANS[:workers]))
        assert compiling._begin.qsize() == 1
        end.set()


def test_what_a_build_raises_is_given_back_or_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(source: Source, plan: Plan, *_: object) -> None:
        raise CompileError("line 7") if plan is PLANS[0] else RuntimeError("a bug")

    monkeypatch.setattr(compile_ahead, "build", build)
    with Ahead("any") as compiling:
        compiling.submit(CANDIDATES[0])
        candidate, refused = compiling.next()
        assert (candidate, str(refused)) == (CANDIDATES[0], "line 7")
        compiling.submit(CANDIDATES[1])
        with pytest.raises(RuntimeError, match="a bug"):
            compiling.next()


class Idle:
    """A worker that gets no requests: nothing was compiled."""

    def start(self) -> None: ...

    def measure(self, candidate: Candidate, best_us: float | None = None) -> Measurement:
        raise AssertionError(f"{candidate.config} was measured")


def test_the_row_says_timeout_and_is_tried_again(hanging: Path, tmp_path: Path) -> None:
    child: Any = Idle()
    with Database.open(tmp_path / "t.sqlite") as database:
        outcome = tune(PROBLEM, CPU, database, trials=1, timeout_s=0.5, child=child)
        again = tune(PROBLEM, CPU, database, trials=1, timeout_s=0.5, child=child)
        [row] = database.measurements()
    assert (outcome.failures, again.failures, again.measured) == ({"timeout": 1}, {"timeout": 1}, 1)
    assert (row.outcome, row.toolchain) == ("timeout", "g++ 9.9.9")
    assert row.reason == "g++ did not end within 0.5 s, and was ended"


def test_in_the_background_a_plan_is_compiled_into_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path))
    toolchain = compile.compiler_for(CPU.target).toolchain
    compile_ahead.compile_in_background(PLANS[0], toolchain, 60.0).join()
    assert [source for source in CANDIDATES[0].sources if cache.find(source, CPU.target.name, toolchain) is None] == []
    unsaid: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", unsaid.append)
    refused = replace(CANDIDATES[1].sources[0], text="#error", digest="0" * 64)
    monkeypatch.setattr(Candidate, "of", lambda plan: Candidate(plan, (refused,), refused.digest))
    compile_ahead.compile_in_background(PLANS[1], toolchain, 60.0).join()
    assert unsaid == []  # its error is for whoever needs it
