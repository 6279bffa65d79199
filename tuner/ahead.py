"""Compiling ahead: while one candidate is measured, the next ones are compiled into the cache, each on a core."""

from __future__ import annotations

import os
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from qconv.device.cache import Binary
from qconv.device.compile import build
from qconv.errors import CompileError
from qconv.generator import Plan


class Ahead:
    """A context manager: leaving it drops what was not begun. Threads are enough: compilers release Python's lock."""

    def __init__(self, toolchain: str) -> None:
        self._toolchain = toolchain
        # One core is the worker's, which launches and compares.
        workers = max(1, len(os.sched_getaffinity(0)) - 1)
        self._pool = ThreadPoolExecutor(workers, "compile")
        self._waiting: dict[Future[Binary], Plan] = {}
        # As many as compile at a time and one that is ready: a search that is further ahead knows less.
        self._most = workers + 1

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return len(self._waiting) >= self._most

    def submit(self, plan: Plan) -> None:
        self._waiting[self._pool.submit(build, plan, self._toolchain)] = plan

    def next(self) -> tuple[Plan, CompileError | None]:
        """The first that is ready, in the order of their submission, and why it has no binary if it has none."""
        ready, _ = wait(self._waiting, return_when=FIRST_COMPLETED)
        done = next(future for future in self._waiting if future in ready)
        plan = self._waiting.pop(done)
        try:
            done.result()
        except CompileError as refused:
            return plan, refused
        return plan, None
