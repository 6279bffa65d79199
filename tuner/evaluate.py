"""config -> measurement, in this process: plan, compile, load, verify, time."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from qconv import generator
from qconv.device import Device
from qconv.device.compile import compiler_for
from qconv.errors import CompileError, Infeasible, LaunchError
from qconv.generator import Config
from qconv.instances.lookup import load
from qconv.instances.pair import Chosen
from qconv.op import Problem
from qconv.tune_db.measurement import Measurement
from qconv.tuner.protocol import HOPELESS, NEAR, SCREENING_REPEATS, TimingProtocol
from qconv.tuner.workload import Workload


def failure(problem: Problem, config: Config, device: Device, toolchain: str, outcome: str, reason: str) -> Measurement:
    """A row that says why a config has no time. A failed config keeps its digest, so that it is not tried again."""
    try:
        digest = generator.render(generator.plan(problem, config, device.target)).digest
    except Infeasible:
        digest = "no source"
    return Measurement(
        problem=problem,
        config=config,
        device=device.name,
        target=device.target.name,
        toolchain=toolchain,
        digest=digest,
        outcome=outcome,
        reason=reason,
        created_at=datetime.now(UTC),
    )


@dataclass(frozen=True)
class Ready:
    """A candidate that computes right, and its launches."""

    instance: Chosen
    replay: Callable[[], float]

    def row(self, times: Sequence[float], protocol: TimingProtocol) -> Measurement:
        plan, binary, device = self.instance.plan, self.instance.binary, self.instance.device
        needs = binary.resources.get(plan.main.kernel)
        return Measurement(
            problem=plan.problem,
            config=plan.config,
            device=device.name,
            target=device.target.name,
            toolchain=binary.toolchain,
            digest=generator.render(plan).digest,
            outcome="correct",
            times_us=tuple(times),
            median_us=statistics.median(times),
            registers=needs.registers if needs else None,
            spill_bytes=needs.spill_bytes if needs else None,
            smem_bytes=plan.main.smem_bytes,
            compile_ms=binary.compile_ms,
            protocol=protocol.as_dict(),
            created_at=datetime.now(UTC),
        )


def evaluate(config: Config, workload: Workload, protocol: TimingProtocol, best_us: float | None = None) -> Measurement:
    """Every way to fail is a row with its reason, except for the death of this process: see `Child`. `best_us` is what
    to be compared with: what is far slower is not timed in full."""
    ready = _prepare(config, workload)
    if isinstance(ready, Measurement):
        return ready
    again = ready.replay
    times = [again()]  # what it waits for the first time does not count, unless it is hopeless anyway
    if best_us is not None:
        if times[0] > HOPELESS * best_us:
            return ready.row(times, protocol.screening(1))
        times = [again() for _ in range(SCREENING_REPEATS)]
        if statistics.median(times) > NEAR * best_us:
            return ready.row(times, protocol.screening(SCREENING_REPEATS))
    return ready.row([again() for _ in range(protocol.repeats)], protocol)


def race(configs: Sequence[Config], workload: Workload, protocol: TimingProtocol) -> list[Measurement]:
    """One repeat of each in turn: what slows the device down for a while slows all of them."""
    prepared = [_prepare(config, workload) for config in configs]
    entrants = [ready for ready in prepared if isinstance(ready, Ready)]
    for ready in entrants:
        ready.replay()
    rounds = [[ready.replay() for ready in entrants] for _ in range(protocol.repeats)]
    rows = [ready.row(times, protocol.race) for ready, times in zip(entrants, zip(*rounds, strict=True), strict=True)]
    return rows + [failed for failed in prepared if isinstance(failed, Measurement)]


def _prepare(config: Config, workload: Workload) -> Ready | Measurement:
    problem, device = workload.problem, workload.device
    toolchain = compiler_for(device.target).toolchain

    def failed(outcome: str, reason: object) -> Measurement:
        return failure(problem, config, device, toolchain, outcome, str(reason))

    try:
        plan = generator.plan(problem, config, device.target)
    except Infeasible as refused:
        return failed("constraints", refused)
    try:
        instance = load(plan, device, "exact", "being measured", toolchain)
    except CompileError as refused:
        return failed("compile", refused)
    try:
        wrong = workload.mismatch(instance)
        if wrong is not None:
            return failed("correctness", wrong)
        return Ready(instance, workload.replay(instance))
    except LaunchError as broken:
        return failed("runtime", broken)
