"""The shipped winners: one text file for review per device. A device without a file of its own uses those of its
generation as neighbours, with times scaled to its speed."""

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


class SameGeneration:
    """A `Source` over the files of other devices of a device's generation. Their winners count as neighbours', never as
    tuned for the problem itself."""

    def __init__(self, layers: Callable[[], Sequence[TextLayer]]) -> None:
        self._layers = layers

    def measurements(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        layers = self._of_generation(target)
        return [row for layer, place in layers for row in layer.measurements(problem=problem, device=place[0])]

    def in_sequence(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        return []

    def best(self, problem: Problem, device: str, target: str) -> Measurement | None:
        return None

    def ranked(self, problem: Problem, device: str, target: str) -> Iterator[Measurement]:
        return iter(ranked(self.measurements(problem=problem, target=target)))

    def near(self, problem: Problem, device: str, target: str, within: float) -> Iterator[tuple[float, Problem]]:
        layers = self._of_generation(target)
        found = {other: far for layer, place in layers for far, other in layer.near(problem, *place, within)}
        return iter(sorted(((far, other) for other, far in found.items()), key=lambda one: (one[0], one[1].key)))

    def problems(self, device: str, target: str) -> list[Problem]:
        return []

    def _of_generation(self, target: str | None) -> list[tuple[TextLayer, tuple[str, str]]]:
        """Return the layers, with device name and target, whose rows are useful for this target."""
        # avoid reading the files for a CPU target
        if target not in TARGETS or TARGETS[target].vendor == "cpu":
            return []
        own = TARGETS[target].generation
        devices = [(layer, place) for layer in self._layers() for place in sorted(layer.devices)]
        return [
            (layer, place) for layer, place in devices if place[1] in TARGETS and TARGETS[place[1]].generation == own
        ]


@dataclass(frozen=True)
class Speed:
    """Boost clock and bandwidth of device memory, from the data sheet."""

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
# Least spread (of the logarithm) of a time scaled by such numbers, and of one for a GPU without numbers.
SCALED, UNSCALED = 0.25, 0.5


def scaled(expected: Expected, plan: Plan, device: str) -> Expected:
    """Scale an expected time from the GPU that the models are fitted to. The part bound by memory scales with the
    bandwidth, the rest with the clock."""
    if device == FITTED_TO:
        return expected
    own, fitted = SPEEDS.get(device), SPEEDS[FITTED_TO]
    if own is None:
        return Expected(expected.us, max(expected.spread, UNSCALED))
    of_bytes = min(1.0, plan.problem.io_bytes / plan.target.processors / MEMORY / CLOCK_MHZ / expected.us)
    by_bytes, by_clock = fitted.tb_per_s / own.tb_per_s, fitted.clock_mhz / own.clock_mhz
    us = expected.us * (of_bytes * by_bytes + (1 - of_bytes) * by_clock)
    return Expected(us, max(expected.spread, SCALED))


def file_name(device: str) -> str:
    """Return the file name of a device: 'NVIDIA H200' -> 'nvidia-h200.json'."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + ".json"


@lru_cache(maxsize=16)
def layer(device: str) -> TextLayer | SameGeneration:
    """Return the shipped rows of the device, or without any those of other devices of its generation."""
    path = _folder() / file_name(device)
    return TextLayer(path.read_text(), str(path)) if path.is_file() else SameGeneration(layers)


@lru_cache(maxsize=1)
def layers() -> tuple[TextLayer, ...]:
    """Return the shipped rows of all devices."""
    files = sorted((path for path in _folder().iterdir() if path.name.endswith(".json")), key=lambda path: path.name)
    return tuple(TextLayer(path.read_text(), str(path)) for path in files)


def _folder() -> Traversable:
    return resources.files("qconv.instances") / "shipped"
