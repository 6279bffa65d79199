"""Failures of a worker: each becomes a row with its reason."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qconv import generator
from qconv.device import open_device
from qconv.errors import CompilerKilled, DeviceError
from qconv.problem.convolution import Conv2d
from qconv.tune_db.database import Database
from qconv.tune_db.text import as_dict
from qconv.tuner.measure import child as child_module
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.child import ATTEMPTS, FAULTS, WORKER, Child, Killed
from qconv.tuner.measure.protocol import WALL_CLOCK
from qconv.tuner.search import compile_ahead
from qconv.tuner.search.tune import tune

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
    # Its process id is written before the time-out starts, however busy the machine is.
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
    """Return false for a zombie: the process that should have waited for it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ends(pid: int) -> bool:
    """Return true if it ends, however busy the machine is: a killed process only needs its turn."""
    deadline = time.monotonic() + 30
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(pid)


DEATHS = {f"os.kill(os.getpid(), {fault:d})": f"signal {fault:d}" for fault in sorted(FAULTS)}


@pytest.mark.parametrize(
    ("dying", "how"), [*DEATHS.items(), ("sys.exit('out of memory')", "exit code 1): out of memory")]
)
def test_death_is_a_row_and_the_next_config_gets_a_new_worker(tmp_path: Path, dying: str, how: str) -> None:
    with child(tmp_path, HELLO + f"sys.stdin.readline()\n{dying}\n") as worker:
        for _ in range(2):
            row = worker.measure(CANDIDATE)
            assert row.outcome == "runtime"
            assert row.reason is not None
            assert how in row.reason


# Under nohup, the tests ignore a hang-up, and so would the worker.
KILL = (
    "sys.stdin.readline()\nimport signal\nif {sent:d} != signal.SIGKILL:\n    signal.signal({sent:d}, signal.SIG_DFL)\n"
    "os.kill(os.getpid(), {sent:d})\n"
)


def test_a_worker_that_is_killed_from_outside_is_replaced_and_asked_again(tmp_path: Path) -> None:
    """As when the OS kills it for lack of memory; its successor is a real worker."""
    seen = tmp_path / "seen"
    real = f"os.execv(sys.executable, [sys.executable, *{WORKER[1:]!r}, 'cpu'])"
    body = f"if os.path.exists({str(seen)!r}):\n    {real}\nopen({str(seen)!r}, 'w').close()\n"
    with child(tmp_path, body + HELLO + KILL.format(sent=signal.SIGKILL), timeout_s=120.0) as worker:
        assert worker.measure(CANDIDATE).outcome == "correct"
        seen.unlink()
        worker.stop()
        assert [row.outcome for row in worker.race([CANDIDATE])] == ["correct"]


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_workers_that_are_killed_again_and_again_are_no_verdict(tmp_path: Path, sent: int) -> None:
    begun = tmp_path / "begun"
    body = f"open({str(begun)!r}, 'a').write('x')\n" + HELLO + KILL.format(sent=sent)
    with child(tmp_path, body) as worker, pytest.raises(Killed, match=f"the worker died .signal {sent:d}.$"):
        worker.measure(CANDIDATE)
    assert begun.read_text() == ATTEMPTS * "x"
    with child(tmp_path, body) as worker:
        assert worker.race([CANDIDATE]) == []


def test_a_config_whose_worker_was_killed_is_tried_again_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The untuned default among them: without its time, a layer has no ratio."""
    monkeypatch.setattr(compile_ahead, "build", lambda *_: None)
    default, where = CANDIDATE.config, tmp_path / "t.sqlite"
    with Database.open(where) as rows:
        with child(tmp_path, HELLO + KILL.format(sent=signal.SIGKILL)) as killed:
            first = tune(PROBLEM, CPU, rows, trials=2, child=killed)
        assert (first.measured, first.failures, first.best) == (2, {"runtime": 2}, None)
        assert rows.measurements() == []
        assert str(default) in caplog.text
        with Child(CPU, WALL_CLOCK, 120.0) as real:
            again = tune(PROBLEM, CPU, rows, trials=2, child=real)
        assert (again.known, again.measured, again.failures) == (0, 2, {})
        assert again.default is not None
        assert again.default.median_us is not None


def test_a_config_whose_compiler_was_killed_is_tried_again_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise CompilerKilled("g++ was killed")

    with Database.open(tmp_path / "t.sqlite") as rows, Child(CPU, WALL_CLOCK, 120.0) as worker:
        monkeypatch.setattr(compile_ahead, "build", killed)
        first = tune(PROBLEM, CPU, rows, trials=1, child=worker)
        assert (first.measured, first.failures) == (1, {"compile": 1})
        assert rows.measurements() == []
        monkeypatch.setattr(compile_ahead, "build", lambda *_: None)
        again = tune(PROBLEM, CPU, rows, trials=1, child=worker)
        assert (again.known, again.measured, again.failures) == (0, 1, {})


def test_a_worker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with (
        child(tmp_path, 'print(\'{"error": "no such device"}\', flush=True)') as worker,
        pytest.raises(DeviceError, match="no such device"),
    ):
        worker.measure(CANDIDATE)
    with child(tmp_path, "sys.exit(7)") as worker, pytest.raises(DeviceError, match="exit code 7"):
        worker.measure(CANDIDATE)


ROW = CANDIDATE.failed(CPU, "g++ 0", "compile", "a test")


def answering(rows: int) -> str:
    """Return the body of a worker that answers each request with this number of rows."""
    answer = json.dumps({"measurements": [as_dict(ROW)] * rows})
    return HELLO + f"for line in sys.stdin:\n    print({answer!r}, flush=True)\n"


@pytest.mark.parametrize(("raced", "passed_s", "answers"), [(3, 2900.0, True), (3, 3100.0, False), (1, 1100.0, False)])
def test_a_race_has_the_time_of_all_its_configs(
    raced: int, passed_s: float, answers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand seconds each, on a clock that jumps while the worker answers."""
    with child(tmp_path, answering(raced), timeout_s=1000.0) as worker:
        assert worker.race([CANDIDATE] * raced) == [ROW] * raced
        clock = itertools.chain([0.0], itertools.repeat(passed_s))
        monkeypatch.setattr(child_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        assert worker.race([CANDIDATE] * raced) == [ROW] * raced * answers


def test_each_request_has_a_seed_of_its_own(tmp_path: Path) -> None:
    """A config may be right for one sample by luck: each problem draws its own."""
    seen = tmp_path / "seeds"
    body = answering(1).replace(
        "for line in sys.stdin:\n", f"for line in sys.stdin:\n    open({str(seen)!r}, 'a').write(line)\n"
    )
    with child(tmp_path, body) as worker:
        for _ in range(3):
            worker.measure(CANDIDATE)
    requests: list[dict[str, Any]] = [json.loads(line) for line in seen.read_text().splitlines()]
    assert len({request["seed"] for request in requests}) == 3


@pytest.mark.parametrize(("outcome", "workers"), [("compile", 1), ("runtime", 2)])
def test_a_worker_whose_kernel_failed_is_not_asked_again(outcome: str, workers: int, tmp_path: Path) -> None:
    """A wild address breaks the context: any later launch would fail too."""
    row = CANDIDATE.failed(CPU, "g++ 0", outcome, "a test")
    pids, answer = tmp_path / "pids", json.dumps({"measurements": [as_dict(row)]})
    body = f"for line in sys.stdin:\n    open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
    with child(tmp_path, f"{HELLO}{body}    print({answer!r}, flush=True)\n") as worker:
        assert [worker.measure(CANDIDATE) for _ in range(2)] == [row] * 2
    assert len(set(pids.read_text().splitlines())) == workers
