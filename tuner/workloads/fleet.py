"""Many devices at once: the problems of a workload spread over the workers of Dask, each of which has one device.

A worker is told a problem and how far to tune it; its rows go straight to the database, each when it is known. So a
worker that dies loses one trial: Dask gives its problem to another, which finds the finished rows there and goes on.
This module alone imports `distributed`, and only when a fleet is asked for.
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

# The variable that shows a worker one GPU alone.
VISIBLE = {"cuda": "CUDA_VISIBLE_DEVICES", "hip": "HIP_VISIBLE_DEVICES"}
CONNECT_S = 30
HERE = "127.0.0.1"
INSTALL = "pip install 'qconv-tune[fleet]'"


@dataclass(frozen=True)
class Crew:
    """Who works: `scheduler` is the address of one that runs, with workers of its own; else so many `workers` are
    started here, each on one GPU, or each a CPU device."""

    workers: int | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if (self.workers is None) == (self.scheduler is None):
            raise ValueError("a fleet is either --workers N, which are started here, or --scheduler tls://HOST:PORT")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers={self.workers} must be at least 1")


class Fleet:
    """The engine of many workers. A context manager; `where` is the database, which every worker opens by itself."""

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
        """All are handed out at once, in their order; a worker that is free takes the next."""
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
        """What the scheduler's clock shows more than this host's: asked once, for neither is ever set."""
        return float(self._client.run_on_scheduler(time.monotonic)) - time.monotonic()

    def _check(self) -> None:
        """That all workers measure the same kind of device, one problem at a time, and can reach the database."""
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
            said = "; ".join(sorted(f"{one.name} ({one.target_name}, {one.toolchain})" for one in stations))
            raise ValueError(f"the workers measure different things: {said}; give each kind a scheduler of its own")
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
        """What a worker calls its device: where it sees one GPU alone, that is the first."""
        kind = (self._spec or "").partition(":")[0]
        return f"{kind}:0" if self._crew.workers is not None and kind in VISIBLE else self._spec


class _Place(str):
    """A path or URL. Dask logs the arguments of a task that fails: no password is among them."""

    def __repr__(self) -> str:
        return repr(where_of(read(self)))


def _shareable(where: str) -> str:
    """As the workers, whose folders are others, are told it."""
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
    """The package, which has no types of its own. What it would log is said by our errors: it logs tracebacks."""
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
        # A client that is made for what is no address closes itself for a minute, and then shows a traceback.
        dask.comm.resolve_address(address)
        return dask.Client(address, timeout=CONNECT_S, set_as_default=False, security=security)
    except (OSError, TimeoutError, ValueError) as error:
        raise DeviceError(f"no Dask scheduler answers at {address}: {error}; start one with `dask scheduler`") from None


def _credentials(address: str) -> Any:
    """From Dask's configuration. Read before there is a client, which would close itself for seconds without them."""
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
    """Workers that a nanny starts again when they die. Each sees one GPU; on the CPU, all see the same cores.

    Whoever reaches a listener of Dask runs code as this user, and every user of the machine reaches the loopback: each
    listener asks for the certificate of this run, whose key other users cannot read."""
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
    # Without its dashboard, a scheduler still has a server of pages, as each worker has: here they have no page.
    pages: dict[str, list[str]] = {f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker")}
    with config.set(pages), _interrupts_blocked():
        return dask.SpecCluster(workers=every, scheduler=scheduler, security=security, silence_logs=logging.CRITICAL)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Threads and processes that are started here leave Ctrl-C to the thread that calls: it ends them all."""
    # It would be started with the first process, and unblock them.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _sees(kind: str, number: int) -> dict[str, str]:
    """One of the GPUs that this process may see itself."""
    if kind not in VISIBLE:
        return {}
    seen = os.environ.get(VISIBLE[kind])
    return {VISIBLE[kind]: seen.split(",")[number] if seen else str(number)}


@dataclass(frozen=True)
class _Errand:
    """A visit as it travels: a problem goes by its key, for the hash that it keeps is another in every process, and the
    deadline by the scheduler's time.monotonic(), the one clock that all workers can read and nobody sets."""

    problem: str
    trials: int
    seconds: float | None
    deadline: float | None


# What follows runs in the workers.


def _about(spec: str | None) -> dict[str, str]:
    station = Station.of(open_device(spec))
    named = {"name": station.name, "target": station.target_name, "toolchain": station.toolchain}
    return named | {"host": socket.gethostname()}


@lru_cache(maxsize=1)
def _device(spec: str | None, timeout_s: float) -> tuple[Device, Child]:
    """The child stays for the next problem: starting it takes seconds. It ends when its worker does."""
    device = open_device(spec)
    return device, Child(device, protocol_for(device), timeout_s)


def _deadline_here(deadline: float) -> float:
    """By this host's time.monotonic()."""
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


def _outcome(said: dict[str, Any]) -> Outcome:
    """What a schedule goes on with; the rows themselves are in the database."""
    best = None if said["best"] is None else from_dict(said["best"], "the answer of a worker")
    named = {name: said[name] for name in ("device", "target", "space", "measured", "known", "failures", "strategy")}
    return Outcome(problem=parse(said["problem"]), default=None, best=best, of_families={}, **named)
