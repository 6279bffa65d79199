"""Tuning on many devices: Dask distributes the problems of a workload to workers that have one device each.

A worker receives a problem and the number of trials, and writes each row to the database as soon as it is known. If a
worker dies, one trial is lost: Dask gives the problem to another worker, which finds the finished rows and continues.
Only this module imports `distributed`, and only when a fleet is requested.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from qconv.device import Device, gpu_specs, open_device
from qconv.errors import DeviceError
from qconv.ops.registry import parse
from qconv.tune_db.database import Database
from qconv.tune_db.text import as_dict, from_dict
from qconv.tune_db.url import read, where_of
from qconv.tuner.measure.child import Child
from qconv.tuner.measure.protocol import protocol_for
from qconv.tuner.search.tune import Outcome, Progress, Search, tune_alone
from qconv.tuner.workloads.result import Station
from qconv.tuner.workloads.schedule import Told, Visit

log = logging.getLogger("qconv")

# Environment variable that limits a worker to one GPU.
VISIBLE = {"cuda": "CUDA_VISIBLE_DEVICES", "hip": "HIP_VISIBLE_DEVICES"}
CONNECT_S = 30
HERE = "127.0.0.1"
INSTALL = "pip install 'qconv-tune[fleet]'"


@dataclass(frozen=True)
class Crew:
    """The workers of a fleet. `scheduler` is the address of a running scheduler that has its own workers. Otherwise
    `workers` are started here, each on one GPU or on a CPU device."""

    workers: int | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if (self.workers is None) == (self.scheduler is None):
            raise ValueError("a fleet is either --workers N, which are started here, or --scheduler tls://HOST:PORT")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers={self.workers} must be at least 1")


class Fleet:
    """The engine that tunes on many workers. `where` is the database, which every worker opens itself."""

    def __init__(self, crew: Crew, device: str | None, where: str, how: Search) -> None:
        self._crew, self._how = crew, how
        self._where = _Place(_shareable(where))
        self._spec = device or (gpu_specs() or ["cpu"])[0] if crew.workers is not None else device
        self._opened = ExitStack()
        self._given_up: set[str] = set()

    def __enter__(self) -> Fleet:
        with ExitStack() as opened:
            self._client = opened.enter_context(_connect(self._crew, self._spec, opened))
            self._check()
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def pay(self, visits: Iterable[Visit], tell: Told) -> Iterator[Outcome]:
        """Submit all visits at once, in order. A free worker takes the next one."""
        dask, told = _dask(), {"spec": self._worker_spec, "where": self._where, "how": asdict(self._how)}
        given = [self._errand(visit) for visit in visits]
        left = [one for one in given if one.problem not in self._given_up]
        futures = [self._client.submit(_run, one, **told, pure=False, priority=-i) for i, one in enumerate(left)]
        errands = dict(zip(futures, left, strict=True))
        for future in dask.as_completed(futures, loop=self._client.loop):
            try:
                outcome = _outcome(future.result())
            except dask.KilledWorker:
                problem = errands[future].problem
                self._given_up.add(problem)
                log.warning("%s is given up: it ended every worker that began it; tune it alone to see why", problem)
                continue
            except dask.client.FutureCancelledError:
                raise DeviceError("the scheduler is gone; start it, and the same command goes on") from None
            if outcome.best is not None:
                done = outcome.known + outcome.measured
                tell(outcome.problem, Progress(done, done, outcome.best, outcome.best))
            yield outcome

    def _errand(self, visit: Visit) -> _Errand:
        deadline = visit.deadline
        if deadline is not None:
            deadline += self._scheduler_ahead_s
        return _Errand(str(visit.problem), visit.trials, visit.seconds, deadline)

    @cached_property
    def _scheduler_ahead_s(self) -> float:
        """Difference of the scheduler's monotonic clock from this host's. Neither is ever adjusted, so it is measured
        once."""
        return float(self._client.run_on_scheduler(time.monotonic)) - time.monotonic()

    def _check(self) -> None:
        """Check that all workers have the same kind of device, run one problem at a time and can reach the database."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        if not workers:
            raise DeviceError("the scheduler has no workers: start some with `dask worker ADDRESS --nthreads 1`")
        if many := {name: one["nthreads"] for name, one in workers.items() if one["nthreads"] != 1}:
            name, threads = next(iter(many.items()))
            raise ValueError(
                f"the worker {name} has {threads} threads: two problems at a time on one device would disturb each "
                "other; start it with --nthreads 1"
            )
        found: dict[str, dict[str, str]] = self._client.run(_about, self._worker_spec)
        stations = {Station(one["name"], one["target"], one["toolchain"]) for one in found.values()}
        if len(stations) > 1:
            listed = "; ".join(sorted(f"{one.name} ({one.target_name}, {one.toolchain})" for one in stations))
            raise ValueError(f"the workers measure different things: {listed}; give each kind a scheduler of its own")
        hosts = {one["host"] for one in found.values()}
        is_file = "://" not in self._where or self._where.startswith("sqlite")
        if is_file and (others := sorted(hosts - {socket.gethostname()})):
            raise ValueError(
                f"the database {where_of(read(self._where))} is a file of this host, and there are workers on "
                f"{', '.join(others)}: give --db postgresql+psycopg://..."
            )
        (self.station,) = stations
        self.width = len(workers)

    @property
    def _worker_spec(self) -> str | None:
        """The worker's name of its device: the first, where the worker sees only one GPU."""
        kind = (self._spec or "").partition(":")[0]
        return f"{kind}:0" if self._crew.workers is not None and kind in VISIBLE else self._spec


class _Place(str):
    """A path or URL whose repr hides the password, because Dask logs the arguments of a task that fails."""

    def __repr__(self) -> str:
        return repr(where_of(read(self)))


def _shareable(where: str) -> str:
    """Return a form of the path or URL that is valid in the workers, whose working folders differ."""
    if "://" not in where:
        return str(Path(where).absolute())
    dialect, _, file = where.partition(":///")
    if not where.startswith("sqlite"):
        return where
    if not file or ":memory:" in where:
        raise ValueError(
            f"the database {where_of(read(where))} is in the memory of one process: a fleet needs a file, or PostgreSQL"
        )
    return where if file.startswith("file:") else f"{dialect}:///{Path(file).absolute()}"


def _dask() -> Any:
    """Import Dask, silencing its logs: it logs tracebacks for what our own errors report."""
    try:
        import distributed
    except ImportError as missing:
        raise DeviceError(f"a fleet needs Dask's `distributed`, which is not here ({missing}): {INSTALL}") from None
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)
    return distributed


def _connect(crew: Crew, spec: str | None, opened: ExitStack) -> Any:
    dask = _dask()
    if crew.scheduler is None:
        cluster = opened.enter_context(_local(crew.workers or 1, spec or "cpu"))
        address, security = cluster.scheduler_address, cluster.security
    else:
        address = crew.scheduler
        security = _credentials(address)
    try:
        # Check the address first. A client with an invalid address takes a minute to close and then prints a traceback.
        dask.comm.resolve_address(address)
        return dask.Client(address, timeout=CONNECT_S, set_as_default=False, security=security)
    except (OSError, TimeoutError, ValueError) as error:
        raise DeviceError(f"no Dask scheduler answers at {address}: {error}; start one with `dask scheduler`") from None


def _credentials(address: str) -> Any:
    """Read the certificates from Dask's configuration. This comes before the client, which would need seconds to close
    without them."""
    security = _dask().Security()
    remedy = "docs/tasks/tune.md says how to make certificates and to name them in Dask's configuration"
    try:
        context = security.get_connection_args("client")["ssl_context"]
    except OSError as error:
        raise DeviceError(f"the certificates of Dask's configuration cannot be read: {error}; {remedy}") from None
    if address.startswith("tls://") and context is None:
        raise DeviceError(f"the scheduler {address} asks for a certificate, and none is configured: {remedy}")
    return security


def _local(workers: int, spec: str) -> Any:
    """Start workers under nannies, which restart them when they die. Each sees one GPU; on the CPU, all share the
    cores.

    Whoever reaches a listener of Dask can run code as this user, and every user of the machine reaches the loopback
    interface. Each listener therefore requires the certificate of this run, whose key other users cannot read.
    """
    dask, kind = _dask(), spec.partition(":")[0]
    from dask import config

    if kind in VISIBLE and workers > len(gpu_specs()):
        raise ValueError(f"workers={workers}, but there are {len(gpu_specs())} GPUs: one worker has one of them")
    try:
        security = dask.Security.temporary()
    except ImportError as missing:
        raise DeviceError(f"--workers encrypts what its processes say: {missing}; {INSTALL}") from None
    shared = {"host": HERE, "protocol": "tls://", "security": security}
    alike = shared | {"nthreads": 1, "memory_limit": 0, "silence_logs": logging.CRITICAL}
    every = {i: {"cls": dask.Nanny, "options": alike | {"env": _sees(kind, i)}} for i in range(workers)}
    scheduler = {"cls": dask.Scheduler, "options": shared | {"dashboard": False, "dashboard_address": f"{HERE}:0"}}
    # Even without a dashboard, schedulers and workers serve HTTP. Remove all routes.
    pages: dict[str, list[str]] = {f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker")}
    with config.set(pages), _interrupts_blocked():
        return dask.SpecCluster(workers=every, scheduler=scheduler, security=security, silence_logs=logging.CRITICAL)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT in the threads and processes started here, so that Ctrl-C reaches only the calling thread, which
    ends them all."""
    # Otherwise the first process would start it, and it would unblock SIGINT.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _sees(kind: str, number: int) -> dict[str, str]:
    """Return the environment that shows a worker one of the GPUs visible to this process."""
    if kind not in VISIBLE:
        return {}
    seen = os.environ.get(VISIBLE[kind])
    return {VISIBLE[kind]: seen.split(",")[number] if seen else str(number)}


@dataclass(frozen=True)
class _Errand:
    """A visit in serializable form. The problem is its key, because a cached hash differs in every process. The
    deadline is by the scheduler's time.monotonic(), which all workers can query and which is never adjusted."""

    problem: str
    trials: int
    seconds: float | None
    deadline: float | None


# The functions below run in the workers.


def _about(spec: str | None) -> dict[str, str]:
    station = Station.of(open_device(spec))
    named = {"name": station.name, "target": station.target_name, "toolchain": station.toolchain}
    return named | {"host": socket.gethostname()}


@lru_cache(maxsize=1)
def _device(spec: str | None, timeout_s: float) -> tuple[Device, Child]:
    """Open the device and its child process. The child is kept for the next problem, because starting it takes seconds,
    and ends with its worker."""
    device = open_device(spec)
    return device, Child(device, protocol_for(device), timeout_s)


def _deadline_here(deadline: float) -> float:
    """Convert a deadline to this host's time.monotonic()."""
    return time.monotonic() + deadline - float(_dask().get_client().run_on_scheduler(time.monotonic))


def _run(errand: _Errand, spec: str | None, where: str, how: dict[str, Any]) -> dict[str, Any]:
    deadline = None if errand.deadline is None else _deadline_here(errand.deadline)
    visit = Visit(parse(errand.problem), errand.trials, errand.seconds, deadline)
    search = visit.search(Search(**how))
    device, child = _device(spec, search.timeout_s)
    with Database.open(where) as rows:
        outcome = tune_alone(visit.problem, device, rows, child, search)
    counts = {"space": outcome.space, "measured": outcome.measured, "known": outcome.known}
    places = {"problem": errand.problem, "device": outcome.device, "target": outcome.target}
    best = None if outcome.best is None else as_dict(outcome.best)
    return counts | places | {"failures": outcome.failures, "strategy": outcome.strategy, "best": best}


def _outcome(answer: dict[str, Any]) -> Outcome:
    """Build the outcome that the schedule needs. The rows themselves are in the database."""
    best = None if answer["best"] is None else from_dict(answer["best"], "the answer of a worker")
    named = {name: answer[name] for name in ("device", "target", "space", "measured", "known", "failures", "strategy")}
    return Outcome(problem=parse(answer["problem"]), default=None, best=best, of_families={}, **named)
