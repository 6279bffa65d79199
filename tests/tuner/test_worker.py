"""One worker measures one problem after the other, and several configs of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qconv import generator
from qconv.device import open_device
from qconv.problem import Conv2d
from qconv.tuner.candidate import Candidate
from qconv.tuner.child import Child
from qconv.tuner.protocol import WALL_CLOCK
from tests.tuner.test_child import HELLO, child, ends

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


# A tuner whose worker never ends what it was asked for.
TUNER = """
import subprocess, sys, time
worker = "import os, time; from qconv.tuner import worker; lines = worker._requests(os.getppid()); next(lines); " \
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
