"""Compilation in advance: while one candidate is measured, the next ones are compiled into the cache, one per core."""

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

# Extra time after the limit. A compiler that is a program is killed at the limit; a compiler that is a library is
# abandoned with its thread after this time. An interrupted tuner waits as long for compilers to finish.
GRACE_S = 1.0


@dataclass(eq=False)
class _Job:
    candidate: Candidate
    result: Future[None] = field(default_factory=Future)
    begun: float | None = None
    given_up: bool = False


class Ahead:
    """A queue of compilations on threads, which suffice because compilers release Python's lock. Leaving the context
    drops the ones that have not started.

    A compiler that exceeds `limit_s` is a failure of its config. A compiler that is a library cannot be stopped: its
    thread is abandoned, and another takes its place. The threads are daemons, so that none keeps this process alive.
    """

    def __init__(self, toolchain: str, limit_s: float | None = None) -> None:
        self._toolchain = toolchain
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._begin: SimpleQueue[_Job | None] = SimpleQueue()
        self._waiting: list[_Job] = []
        # One core is left to the worker, which launches and compares.
        self._workers = max(1, len(os.sched_getaffinity(0)) - 1)
        # One candidate is ready while the others compile. A search that asks further in advance knows less.
        self._most = self._workers + 1
        for _ in range(self._workers):
            self._start()

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(Empty):
            while (dropped := self._begin.get_nowait()) is not None:
                self._waiting.remove(dropped)
        # A compiler that hangs ends with this process.
        if kind is not None:
            wait([job.result for job in self._waiting], GRACE_S)
            self._waiting.clear()
        # Do not leave half-written entries in the cache.
        while self._waiting:
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
        """Return the earliest submitted candidate that is ready, and the error if its compilation failed."""
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
            except BaseException as error:  # raised again by `next`
                settle = partial(job.result.set_exception, error)
            with self._lock:
                if job.given_up:
                    return
                settle()


def compile_in_background(plan: Plan, toolchain: str, limit_s: float) -> threading.Thread:
    """Compile a plan's binaries for later use. An error is ignored: the later use reports it."""

    def compile_plan() -> None:
        with suppress(CompileError):
            _build(Candidate.of(plan), toolchain, limit_s)

    thread = threading.Thread(target=compile_plan, name="compile", daemon=True)
    thread.start()
    return thread


def _build(candidate: Candidate, toolchain: str, limit_s: float | None) -> None:
    """Compile a candidate into the cache."""
    for source, kernel in zip(candidate.sources, candidate.plan.kernels, strict=True):
        build(source, kernel, toolchain, limit_s)
