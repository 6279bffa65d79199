"""The last step of tuning a network: a race of the network with its previous kernels against the network with the new
winners. The whole network is timed, because kernels whose launches overlap are not as fast as each by itself.

The kernels that win are stored as measured in sequence, and a network's lookup prefers those. The previous kernels are
stored so when tuning begins: if it is interrupted, no winner replaces them without having been raced in the network.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil
from typing import Protocol

from qconv import generator
from qconv.device import Device
from qconv.instances.load.instance import Instance
from qconv.op import Problem
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import KEPT, LOST, Measurement
from qconv.tuner.measure.protocol import TimingProtocol

# The new kernels lose if they take more than MOST_LOST times as long. While kernels are tried, a challenger has to be
# faster by LEAST_GAIN, which exceeds the noise of running the same network twice.
MOST_LOST, LEAST_GAIN = 1.01, 1.002
# Rounds per race, and the time that each contender runs per round.
ROUNDS, ROUND_MS = 15, 5.0
# Time limit for trying combinations of kernels.
TRYING_S = 15.0

IN_SEQUENCE = TimingProtocol("one more launch in its place, all of a network overlapping in one graph", 0, 1, KEPT)


class Contender(Protocol):
    """A network with a certain choice of kernels. `network.Contender` implements it."""

    @property
    def kernels(self) -> Mapping[Problem, Instance]: ...
    def answer(self, problem: Problem) -> Instance:
        """Return the kernel for a problem, even if the network does not contain the problem."""
        ...

    def with_kernels(self, others: Mapping[Problem, Instance]) -> Contender: ...
    def run_ms(self, runs: int) -> float: ...
    def launch_us(self) -> Mapping[Problem, float]: ...


class Raceable(Protocol):
    """A network whose kernels can be replaced. `onnx.Session` implements it."""

    @property
    def device(self) -> Device: ...
    def contender(self, rows: Database, in_sequence: bool) -> Contender:
        """Return the network with the kernels that lookup chooses from these rows. For `in_sequence` see
        `instances.lookup.choose`."""
        ...


@dataclass(frozen=True)
class Race:
    """Times of one run of the network in milliseconds, as interleaved medians: with the previous kernels, with all new
    winners, and with those that were installed. Of `offered` problems with a new winner, `installed` got another
    kernel."""

    before_ms: float
    winners_ms: float
    after_ms: float
    installed: int
    offered: int

    def __str__(self) -> str:
        text = f"{self.before_ms:.4f} ms before, {self.after_ms:.4f} ms after"
        if not self.offered:
            return f"{text}: no new winner"
        if self.installed < self.offered:
            text += f"; {self.winners_ms:.4f} ms with all {self.offered} new winners"
        return f"{text}: {self.installed} of {self.offered} new winners installed"


class NetworkRace:
    """The race of a network, created when tuning begins and ended when it is done."""

    def __init__(self, network: Raceable, rows: Database) -> None:
        self._network, self._rows = network, rows
        self._before = network.contender(rows, in_sequence=True)
        self._store(KEPT, self._before, list(self._before.kernels))

    def end(self) -> Race:
        """Race the networks, store the winner's kernels and return the times."""
        before, after = self._before, self._network.contender(self._rows, in_sequence=False)
        before_ms, winners_ms = race_ms(before, after)
        if are_same(before, after):
            return Race(before_ms, before_ms, before_ms, 0, 0)
        chosen, after_ms = best_of(before, after, before_ms, winners_ms), before_ms
        if are_same(before, chosen):
            chosen = before
        else:
            before_ms, after_ms = race_ms(before, chosen)
            if after_ms > MOST_LOST * before_ms:
                chosen, after_ms = before, before_ms
        for one in (before, after):
            self._store(LOST, one, changed(chosen, one))
        self._store(KEPT, chosen, list(chosen.kernels))
        return Race(before_ms, winners_ms, after_ms, len(changed(before, chosen)), len(changed(before, after)))

    def _store(self, phase: str, contender: Contender, problems: Sequence[Problem]) -> None:
        at, kernels = datetime.now(UTC), contender.kernels
        times_us = contender.launch_us() if problems else {}
        for problem in problems:
            if problem in times_us:
                self._rows.add(_row(kernels[problem], times_us[problem], phase, at))


def changed(before: Contender, after: Contender) -> list[Problem]:
    """Return the problems of `after` for which `before` launches another kernel, or none."""
    known = before.kernels
    return [
        problem
        for problem, instance in after.kernels.items()
        if problem not in known or known[problem].plan.config != instance.plan.config
    ]


def are_same(one: Contender, other: Contender) -> bool:
    return not changed(one, other) and not changed(other, one)


def best_of(before: Contender, after: Contender, before_ms: float, winners_ms: float) -> Contender:
    """Return the faster of both networks, improved by kernels of the other: all of them, halves, or single ones."""
    leader, other = (after, before) if winners_ms < before_ms else (before, after)
    differing = [
        problem
        for problem, instance in leader.kernels.items()
        if other.answer(problem).plan.config != instance.plan.config
    ]
    return _improved(leader, other, differing, time.monotonic() + TRYING_S)


def _improved(leader: Contender, other: Contender, problems: Sequence[Problem], until: float) -> Contender:
    if not problems or time.monotonic() > until:
        return leader
    tried = leader.with_kernels({problem: other.answer(problem) for problem in problems})
    leader_ms, tried_ms = race_ms(leader, tried)
    if tried_ms * LEAST_GAIN < leader_ms:
        return tried
    half = len(problems) // 2
    for part in (problems[:half], problems[half:]) if half else ():
        leader = _improved(leader, other, part, until)
    return leader


def race_ms(*contenders: Contender) -> list[float]:
    """Return the median time of each contender. In every round they run one after the other."""
    runs = [max(1, ceil(ROUND_MS / one.run_ms(1))) for one in contenders]
    rounds = [[one.run_ms(count) for one, count in zip(contenders, runs, strict=True)] for _ in range(ROUNDS)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def _row(instance: Instance, us: float, phase: str, at: datetime) -> Measurement:
    plan = instance.plan
    return Measurement(
        problem=plan.problem,
        config=plan.config,
        device=instance.device.name,
        target=instance.device.target.name,
        toolchain=instance.binary.toolchain,
        digest=generator.render_kernels(plan).digest,
        outcome="correct",
        times_us=(us,),
        median_us=us,
        protocol=replace(IN_SEQUENCE, phase=phase).as_dict(),
        created_at=at,
    )
