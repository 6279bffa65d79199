"""One worker measures one problem after the other, and several configs of one."""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qconv import generator
from qconv.device import open_device
from qconv.problem import Conv2d
from qconv.tuner import worker as worker_module
from qconv.tuner.candidate import Candidate
from qconv.tuner.child import Child
from qconv.tuner.input_sets import InputSets
from qconv.tuner.protocol import WALL_CLOCK
from tests.tuner.test_child import HELLO, child

CPU = open_device("cpu")
ONE, OTHER = Conv2d(1, 3, 3, 4, 4, 1, 1), Conv2d(1, 4, 3, 8, 4, 1, 1)


def test_each_problem_has_its_own_data_and_each_config_its_own_row() -> None:
    with Child(CPU, WALL_CLOCK, 120.0) as worker:
        for problem in (ONE, OTHER):
            row = worker.measure(Candidate.of(generator.default(problem, CPU.target)))
            assert (row.problem, row.outcome) == (problem, "correct"), row.reason
        candidates = [Candidate.of(plan) for plan in generator.space(OTHER, CPU.target)[0][:2]]
        rows = worker.race(candidates)
    assert [(row.config, row.outcome) for row in rows] == [(one.config, "correct") for one in candidates]


def test_a_worker_that_did_not_answer_is_gone_at_once(tmp_path: Path) -> None:
    """Not only when its owner ends: the next request must not get the last one's answer."""
    pid = tmp_path / "pid"
    body = f"import os\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\n" + HELLO + "time.sleep(60)\n"
    candidate = Candidate.of(generator.default(ONE, CPU.target))
    with child(tmp_path, body, timeout_s=1.0) as worker:
        assert worker.measure(candidate).outcome == "timeout"
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


def test_what_a_request_says_of_the_timing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all candidates are timed in full, or from a cache that holds all of their inputs."""
    protocol = replace(WALL_CLOCK, rotated_bytes=1234, repeats=5)
    candidate = Candidate.of(generator.default(ONE, CPU.target))
    request = {"problem": str(ONE), "candidates": [candidate.as_dict()], "protocol": protocol.as_dict(), "seed": 1}
    requests = [request | {"best_us": 7.5, "race": False}, request | {"best_us": None, "race": True}]
    asked: list[object] = []

    def timed(candidates: Any, input_sets: InputSets, *how: object) -> Any:
        asked.append((input_sets._rotated_bytes, *how))
        row = candidate.failed(CPU, "g++ 0", "compile", "a test")
        return [row] if isinstance(candidates, list) else row

    answers = io.StringIO()
    quiet = SimpleNamespace(fdopen=lambda *_, **__: answers, dup=lambda _: 0, dup2=lambda *_: None)
    monkeypatch.setattr(worker_module, "os", quiet)
    monkeypatch.setattr(worker_module, "evaluate", timed)
    monkeypatch.setattr(worker_module, "race", timed)
    monkeypatch.setattr(sys, "argv", ["worker", "cpu"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(json.dumps(one) + "\n" for one in requests)))
    worker_module.main()
    assert asked == [(1234, protocol, 7.5), (1234, protocol)]
    assert len(answers.getvalue().splitlines()) == 1 + len(requests)
