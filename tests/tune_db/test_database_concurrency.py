"""Concurrent writers lose nothing; a killed process loses nothing that it had finished."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from measurement_samples import nth_measurement

from qconv.problem.convolution import Conv2d
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement

Make = Callable[..., Measurement]
WRITER = Path(__file__).parents[1] / "support" / "database_writer.py"


def writer(path: Path, count: int, digest: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(path), str(count), digest],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def start_together(writers: list[subprocess.Popen[str]]) -> None:
    for process in writers:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
    for process in writers:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def finish(process: subprocess.Popen[str]) -> list[str]:
    """Return a process's remaining output. Not communicate(), which loses what readline() has already buffered."""
    assert process.stdout is not None
    said = process.stdout.read().split()
    assert process.wait() == 0
    return said


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    """They also create the file at the same time."""
    path = tmp_path / "tune.sqlite"
    writers = [writer(path, 100, "mine"), writer(path, 100, "yours")]
    start_together(writers)
    with Database.open(path) as database:
        for _ in range(20):
            database.measurements()
    assert [finish(process) for process in writers] == [[str(n) for n in range(100)]] * 2
    with Database.open(path, create=False) as database:
        rows = database.measurements()
    assert len(rows) == len({row.key for row in rows}) == 200


@pytest.mark.slow
def test_two_processes_write_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "tune.sqlite"
    writers = [writer(path, 100, "ours"), writer(path, 100, "ours")]
    start_together(writers)
    for process in writers:
        finish(process)
    with Database.open(path, create=False) as database:
        assert len(database.measurements()) == 100


@pytest.mark.parametrize(
    "finished", [pytest.param(1, marks=pytest.mark.slow), 20, pytest.param(57, marks=pytest.mark.slow)]
)
def test_a_killed_process_loses_nothing_finished(tmp_path: Path, make: Make, problem: Conv2d, finished: int) -> None:
    path = tmp_path / "tune.sqlite"
    process = writer(path, 1_000_000, "d1")
    start_together([process])
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(finished)]
    process.kill()
    said += process.stdout.read().split()
    process.wait()
    assert process.returncode == -signal.SIGKILL
    stored = len(said)
    assert finished <= stored < 1_000_000, "killed in the middle"
    with Database.open(path, create=False) as database:
        rows = database.measurements()
        # One more may have been stored than was reported.
        assert len(rows) in (stored, stored + 1)
        assert rows[:stored] == [nth_measurement(number, "d1") for number in range(stored)]
        assert database.best(problem, "NVIDIA H200", "sm_90a") is not None
        database.add(make(399))


@pytest.mark.slow
def test_a_killed_creation_leaves_something_that_opens(tmp_path: Path, make: Make) -> None:
    for attempt in range(3):
        path = tmp_path / f"{attempt}.sqlite"
        process = writer(path, 1_000_000, "d1")
        while not path.exists():
            time.sleep(0.001)
        process.kill()
        process.communicate()
        with Database.open(path) as database:
            database.add(make(0))
            assert database.measurements() == [make(0)]


def test_another_writer_is_seen_at_once(tmp_path: Path, make: Make, problem: Conv2d) -> None:
    path = tmp_path / "tune.sqlite"
    with Database.open(path) as one, Database.open(path) as other:
        one.add(make(0))
        assert other.best(problem, "NVIDIA H200", "sm_90a") == make(0)
        other.add(make(1, median_us=5.0))
        assert one.best(problem, "NVIDIA H200", "sm_90a") == make(1, median_us=5.0)
