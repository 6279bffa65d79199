"""What other GPUs of a device's generation took, where nothing of the device itself travels in the package: their
winners are neighbours' winners here, and never exactly what was tuned.

The winners that travel in the package: one reviewable text file a device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable

from qconv.generator import Expected, Plan
from qconv.generator.cost_units import CLOCK_MHZ, MEMORY
from qconv.op import Problem
from qconv.targets.target import TARGETS
from qconv.tune_db.measurement import Measurement, ranked
from qconv.tune_db.text import TextLayer


class Elsewhere:
    """A `Source` over the files of other devices. What is asked of a device is answered by those of its generation."""

    def __init__(self, layers: Callable[[], Sequence[TextLayer]]) -> None:
        self._layers = layers

    def measurements(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        asked = self._asked(target)
        return [row for layer, there in asked for row in layer.measurements(problem=problem, device=there[0])]

    def in_sequence(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        return []

    def best(self, problem: Problem, device: str, target: str) -> Measurement | None:
        return None

    def ranked(self, problem: Problem, device: str, target: str) -> Iterator[Measurement]:
        return iter(ranked(self.measurements(problem=problem, target=target)))

    def near(self, problem: Problem, device: str, target: str, within: float) -> Iterator[tuple[float, Problem]]:
        asked = self._asked(target)
        found = {other: far for layer, there in asked for far, other in layer.near(problem, *there, within)}
        return iter(sorted(((far, other) for other, far in found.items()), key=lambda one: (one[0], one[1].key)))

    def problems(self, device: str, target: str) -> list[Problem]:
        return []

    def _asked(self, target: str | None) -> list[tuple[TextLayer, tuple[str, str]]]:
        """The layers with the devices, by name and target, whose rows are worth something for this target."""
        if target not in TARGETS or TARGETS[target].vendor == "cpu":  # whose files need not be read
            return []
        own = TARGETS[target].generation
        devices = [(layer, there) for layer in self._layers() for there in sorted(layer.devices)]
        return [
            (layer, there) for layer, there in devices if there[1] in TARGETS and TARGETS[there[1]].generation == own
        ]


@dataclass(frozen=True)
class Speed:
    """By the data sheet: the clock under boost, and bytes of device memory."""

    clock_mhz: float
    tb_per_s: float


FITTED_TO = "NVIDIA H200"
SPEEDS = {
    FITTED_TO: Speed(1980, 4.8),
    "NVIDIA H100 80GB HBM3": Speed(1980, 3.35),
    "NVIDIA H100 NVL": Speed(1785, 3.94),
    "NVIDIA H100 PCIe": Speed(1755, 2.04),
    "NVIDIA GH200 480GB": Speed(1980, 4.0),
}
# How far, as a factor's logarithm, a time may be off at least where only such numbers tell.
SCALED, UNSCALED = 0.25, 0.5


def scaled(expected: Expected, plan: Plan, device: str) -> Expected:
    """What is expected of the GPU that the models are fitted to, for another one: by the bandwidth what its bytes take,
    by the clock the rest."""
    if device == FITTED_TO:
        return expected
    here, there = SPEEDS.get(device), SPEEDS[FITTED_TO]
    if here is None:
        return Expected(expected.us, max(expected.spread, UNSCALED))
    of_bytes = min(1.0, plan.problem.io_bytes / plan.target.processors / MEMORY / CLOCK_MHZ / expected.us)
    by_bytes, by_clock = there.tb_per_s / here.tb_per_s, there.clock_mhz / here.clock_mhz
    us = expected.us * (of_bytes * by_bytes + (1 - of_bytes) * by_clock)
    return Expected(us, max(expected.spread, SCALED))


def file_name(device: str) -> str:
    """'NVIDIA H200' -> 'nvidia-h200.json'."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + ".json"


@lru_cache(maxsize=16)
def layer(device: str) -> TextLayer | Elsewhere:
    """The device's own; without one, what others of its generation took."""
    path = _folder() / file_name(device)
    return TextLayer(path.read_text(), str(path)) if path.is_file() else Elsewhere(layers)


@lru_cache(maxsize=1)
def layers() -> tuple[TextLayer, ...]:
    """Those of all devices."""
    files = sorted((path for path in _folder().iterdir() if path.name.endswith(".json")), key=lambda path: path.name)
    return tuple(TextLayer(path.read_text(), str(path)) for path in files)


def _folder() -> Traversable:
    return resources.files("qconv.instances") / "shipped"
