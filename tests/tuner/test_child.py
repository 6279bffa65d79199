"""What a worker can do wrong, and that each way is a row with its reason."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from pathlib import Path

import pytest

from qconv import generator
from qconv.device import open_device
from qconv.errors import DeviceError
from qconv.problem import Conv2d
from qconv.tuner.candidate import Candidate
from qconv.tuner.child import Child
from qconv.tuner.protocol import WALL_CLOCK

PROBLEM = Conv2d(1, 3, 3, 4, 4, 1, 1)
CPU = open_device("cpu")
CANDIDATE = Candidate.of(generator.default(PROBLEM, CPU.target))
HELLO = 'print(\'{"toolchain": "g++ 0"}\', flush=True)\n'


def child(tmp_path: Path, body: str, timeout_s: float = 120.0) -> Child:
    script = tmp_path / "worker.py"
    script.write_text("import os, sys, time\n" + textwrap.dedent(body))
    return Child(CPU, WALL_CLOCK, timeout_s, (sys.executable, str(script)))


def test_a_worker_measures() -> None:
    with Child(CPU, WALL_CLOCK, 120.0) as worker:
        row = worker.measure(CANDIDATE)
    assert row.outcome == "correct", row.reason
    assert row.median_us is not None
    assert row.median_us > 0
    assert row.digest == CANDIDATE.digest


def test_silence_is_a_timeout_and_the_worker_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    # Its number is written before the time runs, however busy the machine is.
    body = f"import os\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\n" + HELLO + "time.sleep(60)\n"
    with child(tmp_path, body, timeout_s=1.0) as worker:
        row = worker.measure(CANDIDATE)
    assert row.outcome == "timeout"
    assert row.reason is not None
    assert "1 s" in row.reason
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_the_compiler_that_a_silent_worker_has_started_is_killed_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    compiling = f"sleep = subprocess.Popen(['sleep', '300'])\nopen({str(pid)!r}, 'w').write(str(sleep.pid))\n"
    with child(tmp_path, "import subprocess\n" + compiling + HELLO + "time.sleep(60)\n", timeout_s=0.5) as worker:
        assert worker.measure(CANDIDATE).outcome == "timeout"
    deadline = time.monotonic() + 120
    while is_alive(int(pid.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(int(pid.read_text()))


def is_alive(pid: int) -> bool:
    """A zombie is not: whoever should have waited for it has ended before it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("dying", "how"),
    [("os.kill(os.getpid(), 11)", "signal 11"), ("sys.exit('out of memory')", "exit code 1): out of memory")],
)
def test_death_is_a_row_and_the_next_config_gets_a_new_worker(tmp_path: Path, dying: str, how: str) -> None:
    with child(tmp_path, HELLO + f"sys.stdin.readline()\n{dying}\n") as worker:
        for _ in range(2):
            row = worker.measure(CANDIDATE)
            assert row.outcome == "runtime"
            assert row.reason is not None
            assert how in row.reason


def test_a_worker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with (
        child(tmp_path, 'print(\'{"error": "no such device"}\', flush=True)') as worker,
        pytest.raises(DeviceError, match="no such device"),
    ):
        worker.measure(CANDIDATE)
    with child(tmp_path, "sys.exit(7)") as worker, pytest.raises(DeviceError, match="exit code 7"):
        worker.measure(CANDIDATE)
