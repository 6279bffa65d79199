"""A problem of the report: its rows, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from qconv.op import Problem
from qconv.targets.target import target
from qconv.tune_db.measurement import Measurement, best_of
from qconv.tuner.report.code import Code, code_of
from qconv.tuner.report.label import label_of
from qconv.tuner.search.tune import are_of_one_race


@dataclass(frozen=True)
class Layer:
    """A problem with its rows in the order in which they were first stored, and a peer's time if known. A race stores
    its rows again, so times of creation do not give the order of the search."""

    problem: Problem
    rows: tuple[Measurement, ...]
    best: Measurement
    best_us: float
    floor_us: float | None = None
    peer: tuple[str, float] | None = None
    default: Measurement | None = None
    with_machine_code: bool = False

    @property
    def label(self) -> str:
        return label_of(self.problem)

    @property
    def family(self) -> str:
        return self.best.config.family

    @property
    def fields(self) -> str:
        """Return the winner's fields as words; of several kernels, those of each."""
        return _words(self.best.config.as_dict(), ("family",))

    @property
    def trials(self) -> int | None:
        """Return how many configs were measured. None of a winner alone, as databases of winners have."""
        return len(self.rows) if len(self.rows) > 1 else None

    @property
    def default_us(self) -> float | None:
        return None if self.default is None else self.default.median_us

    @property
    def gain(self) -> float | None:
        """Return the untuned default's time over the winner's. None unless both were timed in the same race."""
        if self.default is None or self.default_us is None or not are_of_one_race([self.best, self.default]):
            return None
        return self.default_us / self.best_us

    @property
    def tops(self) -> float | None:
        """Return the rate. None on the CPU device, whose times say nothing of a GPU."""
        return None if self.is_on_cpu else self.problem.operations / self.best_us / 1e6

    @property
    def of_floor(self) -> float | None:
        return None if self.floor_us is None else self.floor_us / self.best_us

    @property
    def peer_us(self) -> float | None:
        return None if self.peer is None else self.peer[1]

    @property
    def over_peer(self) -> float | None:
        return None if self.peer is None else self.peer[1] / self.best_us

    @property
    def is_on_cpu(self) -> bool:
        return target(self.best.target).vendor == "cpu"

    @property
    def code(self) -> Code:
        return code_of(self.best, self.with_machine_code)

    @property
    def other_families(self) -> dict[str, float]:
        """Return the best time of each other family."""
        names = {row.config.family for row in self.rows} - {self.family}
        leaders = {name: best_of(row for row in self.rows if row.config.family == name) for name in sorted(names)}
        return {name: row.median_us for name, row in leaders.items() if row is not None and row.median_us is not None}

    @property
    def facts(self) -> dict[str, str]:
        """Return what else is known of the winner, by name: its needs on a GPU, its rivals, how it was measured."""
        row = self.best
        found: dict[str, str] = {}
        if not self.is_on_cpu:
            found |= self._needs()
        if self.other_families:
            found["other families"] = ", ".join(f"{name} {us:.2f} us" for name, us in self.other_families.items())
        if self.peer is not None:
            found["peer"] = f"{self.peer[0]}, {self.peer[1]:.2f} us"
        found["repeats"] = f"{len(row.times_us)}, {min(row.times_us):.2f} to {max(row.times_us):.2f} us"
        found["measured"] = f"{row.created_at:%Y-%m-%d %H:%M} UTC, {row.toolchain}"
        return found

    def _needs(self) -> dict[str, str]:
        row, launch = self.best, self.code.launch
        found: dict[str, str] = {}
        if row.registers is not None:
            spilled = f", {row.spill_bytes:,} bytes spilled" if row.spill_bytes else ""
            found["registers"] = f"{row.registers} per thread{spilled}"
        if row.smem_bytes is not None:
            found["shared memory"] = f"{row.smem_bytes:,} bytes per block"
        if launch is not None:
            found["launch"] = f"{math.prod(launch.grid):,} blocks of {launch.threads} threads"
        if launch is not None and row.registers and row.smem_bytes is not None:
            on = target(row.target)
            blocks = on.blocks_per_sm(launch.threads, row.smem_bytes, row.registers)
            part = 100 * blocks * launch.threads / on.threads_per_sm
            noun = "block" if blocks == 1 else "blocks"
            found["occupancy"] = f"{blocks} {noun} per SM, {part:.0f} % of its threads"
        return found

    def convergence(self) -> list[float]:
        """Return the winner's time over the best time so far, after each row."""
        best, found = math.inf, []
        for row in self.rows:
            best = min(best, row.median_us or math.inf)
            found.append(self.best_us / best)
        return found


def _words(fields: Mapping[str, object], without: tuple[str, ...] = ()) -> str:
    said = []
    for name, value in fields.items():
        if name not in without:
            said.append(f"{name}: {_words(value)}." if isinstance(value, Mapping) else f"{name}={value}")
    return " ".join(said)
