"""Compiling ahead: while one candidate is measured, the next ones are compiled into the cache, each on a core."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue

from qconv.device.compile import build
from qconv.errors import CompileError, CompileTimeout
from qconv.generator import Plan
from qconv.tuner.measure.candidate import Candidate

# A compiler that is a program is ended at the limit; only what goes on behind it is left to its thread. Whoever is
# interrupted waits as long for compilers to end by themselves.
GRACE_S = 1.0


@dataclass(eq=False)
class _Job:
    candidate: Candidate
    result: Future[None] = field(default_factory=Future)
    begun: float | None = None
    given_up: bool = False


class Ahead:
    """A context manager: leaving it drops what was not begun. Threads are enough: compilers release Python's lock.

    A compiler that does not end within `limit_s` is one more way to fail. Nothing can end one that is a library: its
    thread is left behind and another takes its place. They are daemons, so that none keeps this process."""

    def __init__(self, toolchain: str, limit_s: float | None = None) -> None:
        self._toolchain = toolchain
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._begin: SimpleQueue[_Job | None] = SimpleQueue()
        self._waiting: list[_Job] = []
        # One core is the worker's, which launches and compares.
        self._workers = max(1, len(os.sched_getaffinity(0)) - 1)
        # As many as compile at a time and one that is ready: a search that is further ahead knows less.
        self._most = self._workers + 1
        for _ in range(self._workers):
            self._start()

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(Empty):
            while (dropped := self._begin.get_nowait()) is not None:
                self._waiting.remove(dropped)
        if kind is not None:  # nobody waits for a compiler that hangs: it ends with this process
            wait([job.result for job in self._waiting], GRACE_S)
            self._waiting.clear()
        while self._waiting:  # what is being compiled is half in the cache
            self._ended()
        for _worker in range(self._workers):
            self._begin.put(None)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return len(self._waiting) >= self._most

    def submit(self, candidate: Candidate) -> None:
        job = _Job(candidate)
        self._waiting.append(job)
        self._begin.put(job)

    def next(self) -> tuple[Candidate, CompileError | None]:
        """The first that is ready, in the order of their submission, and why it has no binary if it has none."""
        job = self._ended()
        try:
            job.result.result()
        except CompileError as refused:
            return job.candidate, refused
        return job.candidate, None

    def _ended(self) -> _Job:
        while True:
            for job in self._waiting:
                if job.result.done():
                    self._waiting.remove(job)
                    return job
            left = {job: self._left_s(job) for job in self._waiting}
            late = [job for job, left_s in left.items() if left_s == 0]
            for job in late:
                self._give_up(job)
            if not late:
                soonest = min((left_s for left_s in left.values() if left_s is not None), default=None)
                wait([job.result for job in left], soonest, FIRST_COMPLETED)

    def _left_s(self, job: _Job) -> float | None:
        if self._limit_s is None:
            return None
        allowed = self._limit_s + GRACE_S
        return allowed if job.begun is None else max(0.0, job.begun + allowed - time.monotonic())

    def _give_up(self, job: _Job) -> None:
        with self._lock:
            if job.result.done():
                return
            job.given_up = True
            job.result.set_exception(CompileTimeout(f"the compiler did not end within {self._limit_s:g} s"))
        self._start()

    def _start(self) -> None:
        threading.Thread(target=self._compile, name="compile", daemon=True).start()

    def _compile(self) -> None:
        while (job := self._begin.get()) is not None:
            job.begun = time.monotonic()
            try:
                _build(job.candidate, self._toolchain, self._limit_s)
                settle = partial(job.result.set_result, None)
            except BaseException as error:  # for whoever asks for the result
                settle = partial(job.result.set_exception, error)
            with self._lock:
                if job.given_up:
                    return
                settle()


def compile_in_background(plan: Plan, toolchain: str, limit_s: float) -> threading.Thread:
    """For whoever needs the plan's binaries later. Why there are none, it is told then."""

    def compile_plan() -> None:
        with suppress(CompileError):
            _build(Candidate.of(plan), toolchain, limit_s)

    thread = threading.Thread(target=compile_plan, name="compile", daemon=True)
    thread.start()
    return thread


def _build(candidate: Candidate, toolchain: str, limit_s: float | None) -> None:
    """Into the cache."""
    for source, kernel in zip(candidate.sources, candidate.plan.kernels, strict=True):
        build(source, kernel, toolchain, limit_s)
