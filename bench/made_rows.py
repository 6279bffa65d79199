"""Invented measurements, in any number and always the same: layers of real networks at many batches, configs that serve
them, and realistic times. The cost of a database depends on the form of its rows, not on their truth."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from workload import distinct, read

from qconv import Conv2d, generator
from qconv.generator import Config
from qconv.targets.target import target
from qconv.tune_db.measurement import Measurement

DEVICE = ("NVIDIA H200", "sm_90a")
TOOLCHAIN = "nvrtc 13.0"
LAYERS = Path(__file__).parent / "workloads" / "layers.csv"
BATCHES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 256)
ACTIVATIONS = ("none", "relu", "relu6", "silu", "hardswish")
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
PROTOCOL = {"name": "cold cache, one graph of back-to-back launches, events", "rotated_bytes": 200_000_000}
# Failed, fully timed, and raced rows in every twenty; the tuner only screens the others.
FAILED, ALONE, RACED = 1, 6, 1
# Repeats by phase, as the tuner's protocol has them.
REPEATS = {"screened": 3, "alone": 9, "raced": 9}
BATCH = 5_000  # rows in memory at a time


def problems(count: int) -> list[Conv2d]:
    """Return `count` different layers, always the same ones."""
    every = list(itertools.product(distinct(read(LAYERS)), BATCHES, ACTIVATIONS))
    random.Random(0).shuffle(every)
    found: dict[Conv2d, None] = {}
    for layer, batch, activation in every:
        if len(found) == count:
            break
        quantization = replace(layer.quantization, per_channel=True, bias="int32", activation=activation)
        try:
            found[replace(layer, n=batch, quantization=quantization)] = None
        except ValueError:  # too many elements for a kernel
            continue
    if len(found) < count:
        raise ValueError(f"{count} problems: there are {len(found)} different ones; ask for fewer")
    return list(found)


@dataclass
class MadeRows:
    """`per_problem` rows of each problem, numbered from `first`; `later` rows are newer, and timed anew."""

    problems: list[Conv2d]
    per_problem: int
    first: int = 0
    later: bool = False
    _configs: dict[tuple[object, ...], list[Config]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Measurement]:
        for at, problem in enumerate(self.problems):
            for number in range(self.first, self.first + self.per_problem):
                yield self._row(at, problem, number)

    def _row(self, at: int, problem: Conv2d, number: int) -> Measurement:
        configs = self._of_its_kind(problem)
        digest = hashlib.md5(f"{problem} {number}".encode(), usedforsecurity=False).hexdigest()
        chance = random.Random(f"{digest} {self.later}")
        facts: dict[str, Any] = {
            "problem": problem,
            "config": configs[number % len(configs)],
            "device": DEVICE[0],
            "target": DEVICE[1],
            "toolchain": TOOLCHAIN,
            "digest": digest,
            "compile_ms": chance.uniform(150.0, 2500.0),
            "created_at": BEGAN + timedelta(seconds=(at * 1000 + number) * 0.271828 + 1e8 * self.later),
        }
        turn = number % 20
        if turn < FAILED:
            return Measurement(**facts, outcome="timeout", reason="it ran for more than 10 s and was stopped")
        phase = "raced" if turn < FAILED + RACED else "alone" if turn < FAILED + RACED + ALONE else "screened"
        # The pool is ordered by the cost model, which is right to within a factor.
        best = 2.0 + problem.operations / 4e8
        slower = best * (1.0 + number / 30) * chance.lognormvariate(0.0, 0.3) * (1.5 if phase == "screened" else 1.0)
        times = sorted(slower * chance.uniform(0.995, 1.02) for _ in range(REPEATS[phase]))
        return Measurement(
            **facts,
            outcome="correct",
            times_us=tuple(times),
            median_us=times[len(times) // 2],
            registers=chance.randrange(32, 256),
            spill_bytes=0,
            smem_bytes=chance.randrange(0, 227 * 1024, 256),
            protocol=PROTOCOL | {"repeats": REPEATS[phase], "phase": phase},
        )

    def _of_its_kind(self, problem: Conv2d) -> list[Config]:
        """Return configs that serve a problem of this kind; most of them serve all problems of the kind."""
        kind = problem.shape_class
        if kind not in self._configs:
            plans, _ = generator.space(problem, target(DEVICE[1]), likely=True)
            plans = plans or generator.space(problem, target(DEVICE[1]))[0]
            self._configs[kind] = [plan.config for plan in plans[:400]]
        return self._configs[kind]


def winner(problem: Conv2d) -> Measurement:
    """Return a row as if the cost model's choice had been tuned today and were the fastest: its source is today's."""
    plan = generator.default(problem, target(DEVICE[1]))
    return Measurement(
        problem=problem,
        config=plan.config,
        device=DEVICE[0],
        target=DEVICE[1],
        toolchain=TOOLCHAIN,
        digest=generator.render_kernels(plan).digest,
        outcome="correct",
        times_us=(0.5,),
        median_us=0.5,
        protocol=PROTOCOL | {"repeats": 1, "phase": "raced"},
        created_at=BEGAN,
    )


def batches(rows: MadeRows, count: int) -> Iterator[list[Measurement]]:
    """Yield the first `count` rows in batches."""
    every = itertools.islice(iter(rows), count)
    while batch := list(itertools.islice(every, BATCH)):
        yield batch
