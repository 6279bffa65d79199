"""Measurement of a candidate in this process: load, verify, time."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from qconv.device.compile import compiler_for
from qconv.errors import CompileError, LaunchError
from qconv.instances.load.pair import Runnable, load
from qconv.tune_db.measurement import Measurement
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.protocol import HOPELESS, NEAR, SCREENING_REPEATS, TimingProtocol
from qconv.tuner.measure.verification import InputSets


@dataclass(frozen=True)
class Ready:
    """A verified candidate, and the function that times its launches once."""

    candidate: Candidate
    runnable: Runnable
    replay: Callable[[], float]

    def row(self, times: Sequence[float], protocol: TimingProtocol, at: datetime | None = None) -> Measurement:
        plan, binary, device = self.candidate.plan, self.runnable.binary, self.runnable.device
        needs = binary.resources.get(plan.main.kernel)
        return Measurement(
            problem=plan.problem,
            config=plan.config,
            device=device.name,
            target=device.target.name,
            toolchain=binary.toolchain,
            digest=self.candidate.digest,
            outcome="correct",
            times_us=tuple(times),
            median_us=statistics.median(times),
            registers=needs.registers if needs else None,
            spill_bytes=needs.spill_bytes if needs else None,
            smem_bytes=plan.main.smem_bytes,
            compile_ms=binary.compile_ms,
            protocol=protocol.as_dict(),
            created_at=at or datetime.now(UTC),
        )


def evaluate(
    candidate: Candidate, input_sets: InputSets, protocol: TimingProtocol, best_us: float | None = None
) -> Measurement:
    """Measure a candidate. Every failure is a row with its reason, except for the death of this process (see `Child`).
    A candidate that is far slower than `best_us` is not timed in full."""
    ready = _prepare(candidate, input_sets)
    if isinstance(ready, Measurement):
        return ready
    replay = ready.replay
    # The first repeat includes one-time costs. It counts only where the candidate is hopeless anyway.
    times = [replay()]
    if best_us is not None:
        if times[0] > HOPELESS * best_us:
            return ready.row(times, protocol.screening(1))
        times = [replay() for _ in range(SCREENING_REPEATS)]
        if statistics.median(times) > NEAR * best_us:
            return ready.row(times, protocol.screening(SCREENING_REPEATS))
    return ready.row([replay() for _ in range(protocol.repeats)], protocol)


def race(candidates: Sequence[Candidate], input_sets: InputSets, protocol: TimingProtocol) -> list[Measurement]:
    """Time one repeat of each candidate in turn, so that a temporary slow-down of the device affects all of them. The
    rows share one time of creation, which identifies the race."""
    prepared = [_prepare(candidate, input_sets) for candidate in candidates]
    entrants = [ready for ready in prepared if isinstance(ready, Ready)]
    for ready in entrants:
        ready.replay()
    rounds = [[ready.replay() for ready in entrants] for _ in range(protocol.repeats)]
    at, times = datetime.now(UTC), zip(*rounds, strict=True)
    rows = [ready.row(own, protocol.race, at) for ready, own in zip(entrants, times, strict=True)]
    return rows + [failed for failed in prepared if isinstance(failed, Measurement)]


def _prepare(candidate: Candidate, input_sets: InputSets) -> Ready | Measurement:
    device = input_sets.device
    toolchain = compiler_for(device.target).toolchain
    try:
        runnable = load(candidate.plan, device, toolchain, candidate.sources)
    except CompileError as refused:
        return candidate.failed(device, toolchain, "compile", str(refused))
    try:
        wrong = input_sets.mismatch(runnable)
        if wrong is not None:
            return candidate.failed(device, toolchain, "correctness", wrong)
        return Ready(candidate, runnable, input_sets.replay(runnable))
    except LaunchError as broken:
        return candidate.failed(device, toolchain, "runtime", str(broken))
