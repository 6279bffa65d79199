"""Faults during measurement: in the kernel, its child process, another tuner, or the database."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from measurement_samples import make_measurement
from postgres_server import server

from qconv import generator
from qconv.device import open_device
from qconv.problem.convolution import Conv2d
from qconv.tune_db.database import Database
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.child import Child
from qconv.tuner.measure.protocol import WALL_CLOCK

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("g++") is None, reason="no g++"), pytest.mark.thirds]
PROBLEM = Conv2d(1, 3, 3, 4, 4, 1, 1)
CPU = open_device("cpu")
PLAN = generator.default(PROBLEM, CPU.target)
ENTRY = f" {PLAN.main.kernel}(const"


def broken(statement: str) -> Candidate:
    """Return the default config, with a statement at the beginning of its kernel."""
    whole = Candidate.of(PLAN)
    *before, source = whole.sources
    at = source.text.index("{", source.text.index(ENTRY)) + 1
    text = f"{source.text[:at]}\n    {statement}\n{source.text[at:]}"
    return replace(whole, sources=(*before, replace(source, text=text)), digest="b" * 32)


def test_a_kernel_that_loops_for_ever() -> None:
    """The config gets a row, and so does the next config, in time."""
    began = time.monotonic()
    with Child(CPU, WALL_CLOCK, 6.0) as worker:
        row = worker.measure(broken("for (volatile int turning = 1; turning;) {}"))
        assert row.outcome == "timeout"
        assert "6 s" in str(row.reason)
        worker._timeout_s = 60.0  # the next one must not fail because other processes use the cores
        assert worker.measure(Candidate.of(PLAN)).outcome == "correct"
    assert time.monotonic() - began < 120


def test_a_kernel_that_writes_where_nothing_is() -> None:
    with Child(CPU, WALL_CLOCK, 60.0) as worker:
        row = worker.measure(broken("*(volatile int*)16 = 1;"))
        assert row.outcome == "runtime"
        assert "signal 11" in str(row.reason)
        assert worker.measure(Candidate.of(PLAN)).outcome == "correct"


def test_a_child_that_is_killed_is_asked_again() -> None:
    """The OS kills the child during a measurement, as when memory is short: the next worker gives the verdict."""
    with Child(CPU, WALL_CLOCK, 20.0) as worker:
        worker._ready()
        process = worker._process
        assert process is not None
        threading.Timer(2.0, os.kill, (process.pid, signal.SIGKILL)).start()
        row = worker.measure(broken("for (volatile int turning = 1; turning;) {}"))
        assert row.outcome == "timeout"
        assert worker.measure(Candidate.of(PLAN)).outcome == "correct"


def test_two_tuners_on_one_problem(tmp_path: Path) -> None:
    """Each config has one row, from the last measurement, and both tuners have a winner."""
    words = [sys.executable, "-m", "qconv.cli", "tune", str(PROBLEM), "--device", "cpu", "--trials", "8", "--json"]
    words += ["--db", str(tmp_path / "t.sqlite")]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    assert all(json.loads(out)["winner"] for out, _ in answers)
    with Database.open(tmp_path / "t.sqlite") as rows:
        stored = rows.measurements()
    assert set(Counter(row.key for row in stored).values()) == {1}
    assert len(stored) >= 8
    assert {row.outcome for row in stored} == {"correct"}


def test_a_server_that_is_restarted_in_the_middle() -> None:
    """Stored rows survive, and rows stored while the server is down wait for it."""
    added = [make_measurement(number) for number in range(200)]
    with server() as where, Database.open(where) as rows:
        restarting = threading.Thread(target=where.restart)
        for number, row in enumerate(added):
            if number == 50:
                restarting.start()
            rows.add(row)
            if number == 120:  # by then it may be up again, with connections that were not notified
                restarting.join()
        assert rows.measurements() == added
        assert rows.best(added[0].problem, added[0].device, added[0].target) is not None
