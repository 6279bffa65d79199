"""A network with a given set of kernels, ready to race against the same network with others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qconv.device import Device
from qconv.instances.load.instance import Instance
from qconv.instances.load.neighbours import Neighbours
from qconv.instances.load.serving import answered_by
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.served import Prepared, Served
from qconv.network.graph.value import Form, Shape, Value, last_of
from qconv.network.run.arrange import Arrangement, Arranging
from qconv.network.run.partition import Segment
from qconv.network.run.recorded import Anew
from qconv.network.run.region import Region
from qconv.network.run.runner import Elsewhere, Runner, Shapes
from qconv.op import Problem

# Runs until everything that can be recorded is: the first looks up, the second records.
WARM_RUNS = 3
# Extra launches of a kernel, runs per timing, and timings, of which the fastest counts.
ADDED, RUNS, REPEATS = 8, 10, 5
# A difference of two times may be below the clock's resolution.
LEAST_US = 0.001


@dataclass(frozen=True)
class Parts:
    """The constructor arguments of a runner, except the choice of kernels; and the forms of its inputs."""

    network: Network
    served: Mapping[str, Served | Region]
    device: Device
    elsewhere: Elsewhere
    forms: Mapping[str, Form]

    def drawn(self) -> dict[str, tuple[Any, bool]]:
        """Draw an array on the device for each input, with whether its channels are last. Wide integers may be indices,
        and are zeros."""
        rng = np.random.default_rng(0)
        return {name: (self.device.upload(_drawn(rng, form)), form[2]) for name, form in self.forms.items()}


def _drawn(rng: np.random.Generator, form: Form) -> Any:
    shape, name, channels_last = form
    shape, dtype = last_of(shape) if channels_last else shape, np.dtype(name)
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize == 1:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return np.zeros(shape, dtype)


class Contender:
    """A network with kernels. `answer` returns the kernel for a problem, `arranging` decides which layers share one."""

    def __init__(self, parts: Parts, arranging: Arranging, answer: Callable[[Problem], Instance]) -> None:
        self._parts = parts
        self._answer = answer
        self._answers: dict[Problem, Instance] = {}
        self._inputs = parts.drawn()
        with answered_by(self.answer):
            self._runner = _Timed(parts.network, parts.served, parts.device, parts.elsewhere, arranging)
            for _ in range(WARM_RUNS):
                self._run()

    def answer(self, problem: Problem) -> Instance:
        """Return the kernel for a problem, whether or not the network contains that."""
        if problem not in self._answers:
            self._answers[problem] = self._answer(problem)
        return self._answers[problem]

    @property
    def kernels(self) -> dict[Problem, Instance]:
        """Return the kernels of the last run, in the order of the network."""
        return {problem: self.answer(problem) for one in self._runner.ready for problem in one.problems}

    def with_kernels(self, others: Mapping[Problem, Instance]) -> Contender:
        """Return the same arrangement of layers, with these kernels for these problems."""
        arranged = _Arranged({name: dict(every) for name, every in self._runner.arrangements.items()})
        return Contender(self._parts, arranged, lambda problem: others.get(problem) or self.answer(problem))

    def run_ms(self, runs: int) -> float:
        """Return the average time of consecutive runs."""
        self._parts.device.synchronize()
        begin = time.perf_counter()
        with answered_by(self.answer):
            for _ in range(runs):
                self._run()
        self._parts.device.synchronize()
        return (time.perf_counter() - begin) * 1e3 / runs

    def launch_us(self) -> dict[Problem, float]:
        """Return how much longer the network takes with one more launch of each kernel, in its place among the
        others."""
        with answered_by(self.answer):
            return self._runner.launch_us(self._values())

    def _run(self) -> None:
        self._runner.run(self._values(), self._parts.network.outputs)

    def _values(self) -> dict[str, Value]:
        device = self._parts.device
        return {name: Value.ordered(device, array, last) for name, (array, last) in self._inputs.items()}


@dataclass(frozen=True)
class _Arranged:
    """An arranger that repeats earlier decisions."""

    arrangements: Mapping[str, Mapping[Shapes, Arrangement]]

    def arranged(self, region: Region, shapes: Sequence[Shape]) -> Arrangement:
        return self.arrangements[region.layer.name][tuple(shapes)]

    def neighbours(self, region: Region, shapes: Sequence[Shape]) -> Sequence[Neighbours]:
        return ()


class _Timed(Runner):
    """A runner that measures its launches in the context of the network."""

    @property
    def ready(self) -> list[Prepared]:
        """Return the prepared layers of the last run."""
        return [one for layer in self._in_order() if layer.key in self._steps and (one := self._ran(layer)) is not None]

    def launch_us(self, feeds: Mapping[str, Value]) -> dict[Problem, float]:
        found: dict[Problem, float] = {}

        def timed(segment: Segment, values: Mapping[str, Value]) -> dict[str, Value]:
            made = self._in_turn(segment, values, self._layer)
            steps = [step for layer in segment.layers for step in self._of(layer)]
            new: dict[Problem, Layer] = {}
            for step in steps:
                ready = self._ran(step)
                if ready is None:
                    return made  # a part runs elsewhere, so nothing is recorded
                new |= {problem: step for problem in ready.problems if problem not in found}
            if new:
                given = {name: values[name] for name in segment.inputs if name in values}
                found.update(self._added_us(segment, given, new))
            return made

        self._run(feeds, self.network.outputs, timed, self._elsewhere_run)
        return found

    def _added_us(
        self, segment: Segment, given: Mapping[str, Value], layers: Mapping[Problem, Layer]
    ) -> dict[Problem, float]:
        added, runs = (2, 1) if self._device.target.vendor == "cpu" else (ADDED, RUNS)
        before = self._recorded(segment, given, None, 0)
        found: dict[Problem, float] = {}
        for problem, layer in layers.items():
            after = self._recorded(segment, given, layer, added)
            pairs = [(self._us(before, runs), self._us(after, runs)) for _ in range(REPEATS)]
            short, long = map(min, zip(*pairs, strict=True))
            found[problem] = max(LEAST_US, (long - short) / added)
        return found

    def _recorded(
        self, segment: Segment, given: Mapping[str, Value], more_of: Layer | None, added: int
    ) -> Callable[[], None]:
        def run(alone: Segment, values: Mapping[str, Value]) -> dict[str, Value]:
            if more_of is not None and alone.layers[0].key == more_of.key:
                for _ in range(added):
                    self._layer(alone, values)
            return self._layer(alone, values)

        def work() -> list[Any]:
            return [value.array for value in self._in_turn(segment, Anew(given), run).values()]

        _, again = self._device.record(work)
        return again

    def _us(self, again: Callable[[], None], runs: int) -> float:
        self._device.synchronize()
        begin = time.perf_counter()
        for _ in range(runs):
            again()
        self._device.synchronize()
        return (time.perf_counter() - begin) * 1e6 / runs
