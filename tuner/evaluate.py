"""config -> measurement, in this process: plan, compile, load, verify, time."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime

from qconv import generator, sample
from qconv.device import Device
from qconv.device.compile import compiler_for
from qconv.errors import CompileError, Infeasible, LaunchError
from qconv.generator import Config
from qconv.instances.lookup import load
from qconv.op import Problem
from qconv.tune_db.measurement import Measurement
from qconv.tuner.protocol import TimingProtocol, time_us
from qconv.tuner.verify import mismatch


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


def evaluate(problem: Problem, config: Config, device: Device, protocol: TimingProtocol, seed: int) -> Measurement:
    """Every way to fail is a row with its reason, except for the death of this process: see `Child`."""
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
        drawn = sample.draw(problem, seed)
        wrong = mismatch(instance, drawn)
        if wrong is not None:
            return failed("correctness", wrong)
        times = time_us(instance, drawn, protocol)
    except LaunchError as broken:
        return failed("runtime", broken)
    binary = instance.binary
    needs = binary.resources.get(plan.main.kernel)
    return Measurement(
        problem=problem,
        config=config,
        device=device.name,
        target=device.target.name,
        toolchain=binary.toolchain,
        digest=generator.render(plan).digest,
        outcome="correct",
        times_us=times,
        median_us=statistics.median(times),
        registers=needs.registers if needs else None,
        spill_bytes=needs.spill_bytes if needs else None,
        smem_bytes=plan.main.smem_bytes,
        compile_ms=binary.compile_ms,
        protocol=protocol.as_dict(),
        created_at=datetime.now(UTC),
    )
