"""One worker measures several problems in sequence, and several configs of one."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qconv import generator
from qconv.device import open_device
from qconv.problem.convolution import Conv2d
from qconv.tuner.measure import worker as worker_module
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.child import Child
from qconv.tuner.measure.protocol import WALL_CLOCK, TimingProtocol
from qconv.tuner.measure.verification import InputSets
from tests.tuner.measure.test_child import HELLO, child, ends

CPU = open_device("cpu")
ONE, OTHER = Conv2d(1, 3, 3, 4, 4, 1, 1), Conv2d(1, 4, 3, 8, 4, 1, 1)
CANDIDATE = Candidate.of(generator.default(ONE, CPU.target))


def test_each_problem_has_its_own_data_and_each_config_its_own_row() -> None:
    with Child(CPU, WALL_CLOCK, 120.0) as worker:
        for problem in (ONE, OTHER):
            row = worker.measure(Candidate.of(generator.default(problem, CPU.target)))
            assert (row.problem, row.outcome) == (problem, "correct"), row.reason
        candidates = [Candidate.of(plan) for plan in generator.space(OTHER, CPU.target)[0][:2]]
        rows = worker.race(candidates)
    assert [(row.config, row.outcome) for row in rows] == [(one.config, "correct") for one in candidates]


def test_a_worker_that_did_not_answer_is_gone_at_once(tmp_path: Path) -> None:
    """It is killed at once, not only with its owner: the next request must not get the last one's answer."""
    pid = tmp_path / "pid"
    body = f"import os\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\n" + HELLO + "time.sleep(60)\n"
    with child(tmp_path, body, timeout_s=1.0) as worker:
        assert worker.measure(CANDIDATE).outcome == "timeout"
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


def answers_of(monkeypatch: pytest.MonkeyPatch, timed: Callable[..., Any], requests: Sequence[Any]) -> list[Any]:
    """Return a worker's answers, computed in this process: `timed` is its way to evaluate and race."""
    written = io.StringIO()
    quiet = SimpleNamespace(fdopen=lambda *_, **__: written, dup=lambda _: 0, dup2=lambda *_: None, getppid=os.getppid)
    monkeypatch.setattr(worker_module, "os", quiet)
    monkeypatch.setattr(worker_module, "evaluate", timed)
    monkeypatch.setattr(worker_module, "race", timed)
    monkeypatch.setattr(sys, "argv", ["worker", "cpu"])
    monkeypatch.setattr(worker_module, "_requests", lambda _tuner: iter(json.dumps(one).encode() for one in requests))
    worker_module.main()
    return [json.loads(line) for line in written.getvalue().splitlines()][1:]


def requested(protocol: TimingProtocol, best_us: float | None, race: bool) -> dict[str, Any]:
    one = {"problem": str(ONE), "candidates": [CANDIDATE.as_dict()], "protocol": protocol.as_dict(), "seed": 1}
    return one | {"best_us": best_us, "race": race}


def test_what_a_request_says_of_the_timing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise all candidates would be timed in full, or from a cache that holds all of their inputs."""
    protocol = replace(WALL_CLOCK, rotated_bytes=1234, repeats=5)
    asked: list[object] = []

    def timed(candidates: Any, input_sets: InputSets, *how: object) -> Any:
        asked.append((input_sets._rotated_bytes, *how))
        row = CANDIDATE.failed(CPU, "g++ 0", "compile", "a test")
        return [row] if isinstance(candidates, list) else row

    requests = [requested(protocol, 7.5, race=False), requested(protocol, None, race=True)]
    assert len(answers_of(monkeypatch, timed, requests)) == 2
    assert asked == [(1234, protocol, 7.5), (1234, protocol)]


def test_a_kernel_that_failed_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wild address breaks the context: any later launch would fail too."""
    outcomes = iter(["compile", "runtime", "correctness"])
    requests = [requested(WALL_CLOCK, None, race=False)] * 3
    answers = answers_of(monkeypatch, lambda *_: CANDIDATE.failed(CPU, "g++ 0", next(outcomes), "a test"), requests)
    assert [row["outcome"] for answer in answers for row in answer["measurements"]] == ["compile", "runtime"]


# A tuner whose worker never finishes a request.
TUNER = """
import subprocess, sys, time
worker = "import os, time; from qconv.tuner.measure import worker; " \
    "lines = worker._requests(os.getppid()); next(lines); " \
    "print(os.getpid(), flush=True); time.sleep(600)"
asked = subprocess.Popen([sys.executable, "-c", worker], stdin=subprocess.PIPE)
asked.stdin.write(b"{}\\n")
asked.stdin.flush()
time.sleep(600)
"""


def test_a_worker_ends_with_its_tuner_in_the_middle_of_a_request() -> None:
    with subprocess.Popen([sys.executable, "-c", TUNER], stdout=subprocess.PIPE, text=True) as tuner:
        assert tuner.stdout is not None
        worker = int(tuner.stdout.readline())
        tuner.send_signal(signal.SIGKILL)
    assert ends(worker)
