"""The tuner's end of the worker process: starts it, sends requests, and kills and restarts it after a timeout."""

from __future__ import annotations

import json
import logging
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO, Any

from qconv.device import Device
from qconv.errors import DeviceError
from qconv.tune_db.measurement import Measurement
from qconv.tune_db.text import from_dict
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.protocol import TimingProtocol

log = logging.getLogger("qconv")

# Time to import the GPU's libraries and create a context on a busy machine.
START_S = 120.0
WORKER = (sys.executable, "-m", "qconv.tuner.measure.worker")
# Attempts per request, with a new worker each, where workers are killed from outside.
ATTEMPTS = 3
# Signals that a program causes itself. Any other signal came from outside, for example SIGKILL from the kernel when
# memory is short.
FAULTS = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS}


class Died(Exception):
    """The worker ended before it answered. The message says how."""


class Killed(Died):
    """The worker was killed by a signal from outside, which says nothing about the config that was being measured."""


class TimedOut(Exception):
    """The worker did not answer in time and was killed."""


class _Allowance:
    """A time limit for a whole conversation, which starts now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return max(0.0, self._end - time.monotonic())


class Child:
    """A worker process on one device. Leaving the context ends the worker."""

    def __init__(
        self, device: Device, protocol: TimingProtocol, timeout_s: float, command: Sequence[str] = WORKER
    ) -> None:
        self._device = device
        self._protocol = protocol
        self._timeout_s = timeout_s
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._toolchain: str | None = None
        self._buffer = b""

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def measure(self, candidate: Candidate, best_us: float | None = None) -> Measurement:
        """Measure a candidate. A config that crashes the worker gets a row too. Raises Killed where every worker asked
        was killed from outside."""
        toolchain = self._ready()
        try:
            return self._asked_again([candidate], best_us=best_us, race=False)[0]
        except TimedOut:
            reason = f"no answer within {self._timeout_s:g} s, the time allowed for one config"
            return candidate.failed(self._device, toolchain, "timeout", reason)
        except Killed:
            raise
        except Died as how:
            return candidate.failed(self._device, toolchain, "runtime", str(how))

    def race(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        """Time candidates of one problem again, taking turns. Returns no rows where that ends the worker."""
        try:
            return self._asked_again(candidates, best_us=None, race=True)
        except (TimedOut, Died) as how:
            log.warning("%s: the fastest were not raced: %s", candidates[0].problem, how)
            return []

    def start(self) -> None:
        """Start the worker, which imports its libraries while the caller goes on. Its first message is read when
        needed."""
        if self._process is None:
            self._spawn()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            # Kill the process group, which `_spawn` created, so that a compiler started by the worker ends too.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        self._errors.close()

    def _asked_again(self, candidates: Sequence[Candidate], **how: Any) -> list[Measurement]:
        """Send a request, and send it to a new worker where one is killed from outside."""
        for _ in range(ATTEMPTS - 1):
            self._ready()
            try:
                return self._rows(candidates, **how)
            except Killed as death:
                log.warning("%s: %s, by a signal from outside: asked again", candidates[0].problem, death)
        self._ready()
        return self._rows(candidates, **how)

    def _rows(self, candidates: Sequence[Candidate], **how: Any) -> list[Measurement]:
        request = {
            "problem": str(candidates[0].problem),
            "candidates": [candidate.as_dict() for candidate in candidates],
            "protocol": self._protocol.as_dict(),
            "seed": secrets.randbits(63),
            **how,
        }
        reply = self._ask(request, self._timeout_s * len(candidates))
        rows = [from_dict(row, "the answer of the worker") for row in reply["measurements"]]
        if any(row.outcome == "runtime" for row in rows):
            self.stop()
        return rows

    def _spawn(self) -> None:
        self._toolchain = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        self._buffer = b""
        self._process = subprocess.Popen(
            [*self._command, self._device.spec],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        # Sources exceed the capacity of a pipe. A worker that does not read must not block the tuner.
        os.set_blocking(self._process.stdin.fileno(), False)

    def _ready(self) -> str:
        """Wait for the worker's first message and return the toolchain in it."""
        self.start()
        if self._toolchain is not None:
            return self._toolchain
        try:
            hello = self._read(_Allowance(START_S))
        except (TimedOut, Died) as how:
            raise DeviceError(f"the worker for {self._device.spec} did not start: {how}") from None
        if "error" in hello:
            self.stop()
            raise DeviceError(hello["error"])
        self._toolchain = str(hello["toolchain"])
        return self._toolchain

    def _ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        allowance, left = _Allowance(timeout_s), memoryview(json.dumps(request).encode() + b"\n")
        while left:
            self._wait(self._process.stdin, selectors.EVENT_WRITE, allowance)
            try:
                left = left[os.write(self._process.stdin.fileno(), left) :]
            except BrokenPipeError:
                raise self._death() from None
        return self._read(allowance)

    def _read(self, allowance: _Allowance) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        while b"\n" not in self._buffer:
            self._wait(self._process.stdout, selectors.EVENT_READ, allowance)
            received = self._process.stdout.read1(65536)  # type: ignore[attr-defined]
            if not received:
                raise self._death()
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _wait(self, pipe: IO[bytes], event: int, allowance: _Allowance) -> None:
        """Wait until the worker can be written to or read from. Kill it where that takes too long."""
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, event)
            if not allowance.left_s or not selector.select(allowance.left_s):
                self.stop()
                raise TimedOut(f"no answer within {allowance.seconds:g} s")

    def _death(self) -> Died:
        """Return how the worker died, with the last line that it printed."""
        assert self._process is not None
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        self.stop()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        kind = Killed if code < 0 and -code not in FAULTS else Died
        return kind(f"the worker died ({how})" + (f": {lines[-1][:300]}" if lines else ""))
