"""Problems distributed over workers: a worker's task, and that nothing is lost or doubled if one is killed."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from postgres_server import server

from qconv.device import open_device
from qconv.errors import DeviceError
from qconv.op import Problem
from qconv.problem.convolution import Conv2d
from qconv.tune_db.database import Database
from qconv.tuner.search import compile_ahead
from qconv.tuner.search.tune import Search
from qconv.tuner.workload import Place, Workload
from qconv.tuner.workloads import fleet
from qconv.tuner.workloads.allocation import Budget
from qconv.tuner.workloads.fleet import Crew, Fleet
from qconv.tuner.workloads.result import Station, results
from qconv.tuner.workloads.schedule import Step, Visit, tune_workload
from tests.tuner.workloads.test_schedule import FAST, Scaled

pytestmark = pytest.mark.thirds

CPU = open_device("cpu")
NET = Workload.of("net", [Place(f"c{c}", Conv2d(1, 5, 5, c, 8, 3, 3, pad=1)) for c in range(8, 16)])


def test_a_worker_goes_on_with_what_another_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An errand and its answer are plain values: a problem's hash differs between processes."""
    monkeypatch.setattr(fleet, "Child", Scaled)
    monkeypatch.setattr(compile_ahead, "build", lambda *_: None)
    fleet._device.cache_clear()
    told: dict[str, Any] = {"spec": "cpu", "where": str(tmp_path / "t.sqlite"), "how": {"trials": 0, "seed": 3}}
    first = pickle.loads(pickle.dumps(fleet._run(fleet._Errand(str(FAST), 5, None, None), **told)))
    again = fleet._outcome(fleet._run(pickle.loads(pickle.dumps(fleet._Errand(str(FAST), 7, None, None))), **told))
    fleet._device.cache_clear()
    assert (first["known"], first["measured"], first["problem"]) == (0, 5, str(FAST))
    assert (again.known, again.measured, again.problem, again.space) == (5, 2, FAST, first["space"])
    with Database.open(tmp_path / "t.sqlite") as rows:
        assert len(rows.measurements(problem=FAST)) == 7
        assert again.best == rows.best(FAST, CPU.name, "cpu")


class Booted:
    """A stand-in for a client whose scheduler's host was started long ago."""

    @staticmethod
    def now() -> float:
        return time.monotonic() + 1e6

    def run_on_scheduler(self, asked: Callable[[], float]) -> float:
        assert asked is time.monotonic
        return self.now()


def test_a_deadline_is_the_same_instant_on_every_host(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, client = Fleet(Crew(scheduler="tcp://a:1"), "cpu", "t.sqlite", Search(0)), Booted()
    engine._client = client
    monkeypatch.setattr(fleet, "_dask", lambda: SimpleNamespace(get_client=Booted))
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    errand = engine._errand(Visit(FAST, 5, None, 57.0))
    assert errand.deadline == 57.0 + 1e6
    assert fleet._deadline_here(errand.deadline) == 57.0
    assert engine._errand(Visit(FAST, 5)).deadline is None


def test_an_errand_whose_time_is_over_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "Child", Scaled)
    monkeypatch.setattr(compile_ahead, "build", lambda *_: None)
    fleet._device.cache_clear()
    told: dict[str, Any] = {"spec": "cpu", "where": str(tmp_path / "t.sqlite"), "how": {"trials": 0}}
    monkeypatch.setattr(fleet, "_dask", lambda: SimpleNamespace(get_client=Booted))
    outcome = fleet._outcome(fleet._run(fleet._Errand(str(FAST), 5, None, Booted.now() - 9), **told))
    fleet._device.cache_clear()
    assert (outcome.measured, outcome.best) == (0, None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "a fleet is either --workers N"),
        ({"workers": 2, "scheduler": "tcp://here:1"}, "a fleet is either --workers N"),
        ({"workers": 0}, "workers=0 must be at least 1"),
    ],
)
def test_a_crew_is_one_or_the_other(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Crew(**given)


@pytest.mark.parametrize("where", ["sqlite://", "sqlite:///:memory:"])
def test_what_is_in_one_process_is_no_database_of_many(where: str) -> None:
    with pytest.raises(ValueError, match="is in the memory of one process"):
        Fleet(Crew(workers=2), "cpu", where, Search(0))


def test_workers_elsewhere_are_told_the_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each would open its own database in its folder, and the named one would stay empty."""
    monkeypatch.chdir(tmp_path)
    told = {where: Fleet(Crew(1), "cpu", where, Search(0))._where for where in ("a.sqlite", "sqlite:///a.sqlite")}
    assert told == {"a.sqlite": f"{tmp_path}/a.sqlite", "sqlite:///a.sqlite": f"sqlite:///{tmp_path}/a.sqlite"}
    for whole in ("sqlite:////data/a.sqlite", "postgresql+psycopg://me@host/tune"):
        assert Fleet(Crew(1), "cpu", whole, Search(0))._where == whole


def test_each_worker_sees_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one of the GPUs that this process sees, which need not be all."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [fleet._sees("cuda", i) for i in (0, 1)] == [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    assert fleet._sees("cuda", 1) == {"CUDA_VISIBLE_DEVICES": "6"}
    assert fleet._sees("cpu", 1) == {}
    assert Fleet(Crew(workers=2), "cuda:0", "t.sqlite", Search(0))._worker_spec == "cuda:0"
    assert Fleet(Crew(scheduler="tcp://a:1"), "cuda:3", "t.sqlite", Search(0))._worker_spec == "cuda:3"


class Told:
    """A stand-in for a connected client, with prescribed workers."""

    def __init__(self, threads: int = 1, host: str = "", toolchain: str = "g++ 12") -> None:
        self.workers = {"tcp://a:1": {"nthreads": 1}, "tcp://b:2": {"nthreads": threads}}
        here = {"name": CPU.name, "target": "cpu", "toolchain": "g++ 12", "host": fleet.socket.gethostname()}
        self.said = {"tcp://a:1": here, "tcp://b:2": here | {"toolchain": toolchain, "host": host or here["host"]}}

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": self.workers}

    def run(self, *_: object) -> dict[str, Any]:
        return self.said


@pytest.mark.parametrize(
    ("client", "error", "says"),
    [
        (Told(threads=4), ValueError, "the worker tcp://b:2 has 4 threads"),
        (Told(toolchain="g++ 13"), ValueError, "the workers measure different things: .*g[+][+] 12.*; .*g[+][+] 13"),
        (Told(host="elsewhere"), ValueError, "t.sqlite is a file of this host, and there are workers on elsewhere"),
    ],
)
def test_workers_that_cannot_work_together(client: Any, error: type[Exception], says: str) -> None:
    engine = Fleet(Crew(scheduler="tcp://a:1"), None, "t.sqlite", Search(0))
    engine._client = client
    with pytest.raises(error, match=says):
        engine._check()


def test_workers_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Fleet(Crew(scheduler="tcp://a:1"), None, "postgresql+psycopg://db/tune", Search(0))
    client: Any = Told(host="elsewhere")
    engine._client = client
    engine._check()
    assert (engine.width, engine.station) == (2, Station(CPU.name, "cpu", "g++ 12"))
    client.workers = {}
    with pytest.raises(DeviceError, match="the scheduler has no workers"):
        engine._check()


@dataclass(eq=False)
class Answer:
    result: Callable[[], Any]


class Killing:
    """A stand-in for a client: one problem kills every worker that begins it."""

    loop = None

    def __init__(self, deadly: Problem) -> None:
        self.deadly, self.begun = str(deadly), list[str]()

    def submit(self, run: Any, errand: Any, **_: object) -> Any:
        self.begun.append(errand.problem)
        counts = {"space": 9, "measured": errand.trials, "known": 0, "failures": {}, "best": None}
        said = counts | {"problem": errand.problem, "device": "d", "target": "cpu", "strategy": "s"}
        return Answer(lambda: self._end() if errand.problem == self.deadly else said)

    def _end(self) -> None:
        raise MemoryError


def test_a_problem_that_ends_its_workers_is_given_up_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is reported once, and not begun again when more trials are distributed."""
    first, deadly, last = (entry.problem for entry in NET.entries[:3])
    gone = SimpleNamespace(FutureCancelledError=OSError)
    dask = SimpleNamespace(KilledWorker=MemoryError, client=gone, as_completed=lambda futures, loop: futures)
    monkeypatch.setattr(fleet, "_dask", lambda: dask)
    engine, client = Fleet(Crew(scheduler="tcp://a:1"), "cpu", "t.sqlite", Search(0)), Killing(deadly)
    engine._client = client
    for trials in (8, 24):
        paid = engine.pay([Visit(one, trials) for one in (first, deadly, last)], lambda *_: None)
        assert [(outcome.problem, outcome.measured) for outcome in paid] == [(first, trials), (last, trials)]
    assert client.begun == [str(one) for one in (first, deadly, last, first, last)]
    assert [record.getMessage().split()[0] for record in caplog.records] == [str(deadly)]


def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'qconv-tune[fleet]'")
    monkeypatch.setattr(fleet, "CONNECT_S", 0.3)
    with pytest.raises(DeviceError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        Fleet(Crew(scheduler="tcp://127.0.0.1:1"), None, "t.sqlite", Search(0)).__enter__()


@pytest.mark.parametrize(
    ("address", "says"), [("host", "missing port number"), ("http://host:8786", "unknown address scheme 'http'")]
)
def test_what_is_no_address_is_refused_at_once(address: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No client is created for it, which would take a minute to close."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'qconv-tune[fleet]'")
    made: list[object] = []
    monkeypatch.setattr(distributed, "Client", lambda *given, **named: made.append(given))
    with pytest.raises(DeviceError, match=f"no Dask scheduler answers at {address}: {says}"):
        Fleet(Crew(scheduler=address), None, "t.sqlite", Search(0)).__enter__()
    assert made == []


class Killer(threading.Thread):
    """Kills a busy worker as soon as the database has this many rows."""

    def __init__(self, engine: Fleet, where: str, after: int) -> None:
        super().__init__(daemon=True)
        self._engine, self._where, self._after = engine, where, after
        self.killed: str | None = None
        self.rows: list[Any] = []

    def run(self) -> None:
        client = self._engine._client
        pids = client.run(os.getpid)
        with Database.open(self._where) as rows:
            while len(self.rows) < self._after:
                time.sleep(0.05)
                self.rows = rows.measurements()
        busy = [worker for worker, tasks in client.processing().items() if tasks]
        self.killed = busy[0]
        os.kill(pids[self.killed], signal.SIGKILL)


@pytest.mark.slow
def test_four_workers_with_postgresql_of_which_one_is_killed() -> None:
    """Its problem goes to another worker, it is replaced, and each config of each problem is one row."""
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'qconv-tune[fleet]'")
    trials = 9
    with server() as where, Database.open(where) as rows:
        steps: list[Step] = []
        with Fleet(Crew(workers=4), "cpu", where, Search(0)) as engine:
            assert engine.width == 4
            killer = Killer(engine, where, after=6)
            killer.start()
            tune_workload(NET, engine, rows, Budget(trials=trials), steps.append)
            killer.join(timeout=300)
            deadline = time.monotonic() + 300
            while len(engine._client.scheduler_info(n_workers=-1)["workers"]) < 4 and time.monotonic() < deadline:
                time.sleep(0.2)
            there = engine._client.scheduler_info(n_workers=-1)["workers"]
            found = results(NET, engine.station, rows)
        assert killer.killed is not None
        assert len(there) == 4
        stored = rows.measurements()
    assert killer.killed not in there
    assert sum(one.trials for one in found) == trials * len(NET.entries) == len(stored)
    assert all(one.is_raced for one in found)
    assert set(Counter(row.key for row in stored).values()) == {1}
    assert {row.key for row in killer.rows} <= {row.key for row in stored}
    assert {row.outcome for row in stored} == {"correct"}
    assert steps[-1].done == trials * len(NET.entries)


@pytest.mark.slow
def test_a_scheduler_that_is_killed_is_said_and_what_was_measured_stays(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A scheduler that runs independently, with two workers of its own."""
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'qconv-tune[fleet]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    where, dask = str(tmp_path / "t.sqlite"), [sys.executable, "-m"]
    options = ["--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--no-dashboard"]
    commands = [[*dask, "distributed.cli.dask_scheduler", *options]]
    commands += 2 * [[*dask, "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]]
    processes = [subprocess.Popen(c, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in commands]
    try:
        with Database.open(where) as rows, _with_workers(address, where, 2) as engine:

            def kill() -> None:
                while len(rows.measurements()) < 10:
                    time.sleep(0.05)
                processes[0].kill()

            threading.Thread(target=kill, daemon=True).start()
            with pytest.raises(DeviceError, match="the scheduler is gone; start it, and the same command goes on"):
                tune_workload(NET, engine, rows, Budget(trials=9))
            assert len(rows.measurements()) >= 10
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert "Traceback" not in capfd.readouterr().err


def _with_workers(address: str, where: str, count: int) -> Fleet:
    """Connect and wait for the workers, which takes seconds."""
    from distributed import Client

    with Client(address, timeout=60, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=120)
    return Fleet(Crew(scheduler=address), "cpu", where, Search(0))
