"""Runs a network: its own layers on a device, the rest by whoever the face names."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Protocol, TypeVar

from qconv.device import Device
from qconv.instances.load.expected import Expectations
from qconv.instances.load.serving import in_sequence
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.served import Prepared, Served
from qconv.network.graph.value import Value
from qconv.network.run.arrange import Arrangement, Arranger, Arranging, Key
from qconv.network.run.memory import Memory
from qconv.network.run.partition import Segment, partition
from qconv.network.run.recorded import Form, LastRun, Recorded, Refused, forms_of, places_of
from qconv.network.run.region import Region
from qconv.network.run.report import ELSEWHERE, HERE, Explanation, LayerTime, Profile, explained
from qconv.op import Problem

log = logging.getLogger("qconv")

# Arrays of the host by name, in and out.
Subgraph = Callable[[Mapping[str, Any]], Mapping[str, Any]]
Shapes = tuple[tuple[int, ...], ...]
Kept = TypeVar("Kept")
# For which a layer is kept ready; beyond, the oldest is forgotten, and prepared anew should it come back.
MOST_SHAPES = 16
# For all segments together. Each holds the memory of its intermediate tensors; the one unused for longest is dropped.
MOST_RECORDINGS = 16
# Runs of a layer in one recording, so that starting it is a small part of the time; and how often that is repeated.
PROFILED, REPEATS = 16, 3
# A segment by what it makes, and the forms of what it is given.
Recording = tuple[tuple[str, ...], tuple[Form, ...]]
# Makes the outputs of a segment.
Run = Callable[[Segment, Mapping[str, Value]], dict[str, Value]]


class Elsewhere(Protocol):
    """Whoever runs what no kernel here computes."""

    def prepare(self, layers: Sequence[Layer], inputs: Sequence[str], outputs: Sequence[str]) -> Subgraph:
        """The layers as one subgraph, ready to be run."""
        ...


class Runner:
    """Kernels are looked up, and weights packed, once for each layer and shape of its input; which kernels a region
    has is decided by its `arranger`, for each shape as well. Where inputs of the same forms come again, the launches of
    a segment are recorded, and replayed from then on."""

    def __init__(
        self,
        network: Network,
        served: Mapping[str, Served | Region],
        device: Device,
        elsewhere: Elsewhere,
        arranger: Arranging | None = None,
    ) -> None:
        self.network = network
        self._served = {name: one for name, one in served.items() if not isinstance(one, Region)}
        self._regions = {name: one for name, one in served.items() if isinstance(one, Region)}
        self._device = device
        self._elsewhere = elsewhere
        self._arranger = arranger or Arranger(Expectations(device, in_sequence=True))
        self._arranged: dict[str, dict[Shapes, Arrangement]] = {name: {} for name in self._regions}
        elements = (one for region in self._regions.values() for one in region.elements)
        self._steps: dict[Key, Served] = {one.layer.key: one for one in (*self._served.values(), *elements)}
        self._prepared: dict[Key, dict[Shapes, Prepared | Refused]] = {}
        self._last_run = LastRun()
        self._subgraphs: dict[tuple[tuple[str, ...], tuple[str, ...]], Subgraph] = {}  # by layers and outputs
        # For what has run once: where its inputs lay.
        self._recordings: dict[Recording, Recorded | dict[str, int]] = {}
        self._alone = Lock()  # a recording has one set of arrays
        self.segments = partition(network, served)
        self._last_use = {name: at for at, segment in enumerate(self.segments) for name in segment.inputs}
        for segment in self.segments:
            if not segment.served:
                self._subgraph(segment)
        for layer in self._served.values():
            self._prepare_known(layer)
        for region in self._regions.values():
            self._arrange_known(region)

    def run(self, feeds: Mapping[str, Value], wanted: Sequence[str]) -> dict[str, Value]:
        """The tensors that are wanted: any that a layer here makes, or that lie between two segments."""
        made = {one.y for one in self._served.values()} | {one.y for one in self._regions.values()}
        with self._alone:
            values = self._run(feeds, wanted, self._replayed, self._elsewhere_run)
            # What a recording makes, its next run writes over.
            return {name: value.copied() if name in made else value for name, value in values.items()}

    def profile(self, feeds: Mapping[str, Value]) -> Profile:
        """Each layer here and each subgraph elsewhere by itself. A layer here is recorded: the host's checks would take
        longer than many a kernel."""
        rows: list[LayerTime] = []

        def timed(segment: Segment, values: Mapping[str, Value], run: Run) -> dict[str, Value]:
            begin = time.perf_counter()
            made = run(segment, values)
            self._device.synchronize()
            time_us = (time.perf_counter() - begin) * 1e6
            names = [layer.name for layer in segment.layers]
            if segment.served and all(self._ran(layer) is not None for layer in segment.layers):
                time_us = self._recorded_us(segment, values, run)
            op = segment.layers[0].op if len(names) == 1 else f"{len(names)} layers"
            name = names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]}"
            rows.append(LayerTime(name, op, HERE if segment.served else ELSEWHERE, time_us))
            return made

        def layer(segment: Segment, values: Mapping[str, Value]) -> dict[str, Value]:
            return timed(segment, values, self._layer)

        self._run(
            feeds,
            self.network.outputs,
            lambda segment, values: self._in_turn(segment, values, layer),
            lambda segment, values: timed(segment, values, self._elsewhere_run),
        )
        return Profile(tuple(rows))

    def _recorded_us(self, segment: Segment, values: Mapping[str, Value], run: Run) -> float:
        """The time of one run of the segment among several."""
        given = {name: values[name] for name in segment.inputs if name in values}

        def work() -> list[Any]:
            # Values of their own: one that has been turned would not be turned again.
            made = run(segment, {name: value.with_array(value.array) for name, value in given.items()})
            return [value.array for value in made.values()]

        runs = 1 if self._device.target.vendor == "cpu" else PROFILED
        _, again = self._device.record(lambda: [array for _ in range(runs) for array in work()])
        times = []
        for _ in range(REPEATS):
            self._device.synchronize()
            begin = time.perf_counter()
            again()
            self._device.synchronize()
            times.append((time.perf_counter() - begin) * 1e6 / runs)
        return statistics.median(times)

    @property
    def unprepared(self) -> list[str]:
        """Layers whose shapes are known only with the inputs."""
        return [
            layer.name for layer in self._in_order() if layer.key in self._steps and not self._prepared.get(layer.key)
        ]

    @property
    def arrangements(self) -> Mapping[str, Mapping[Shapes, Arrangement]]:
        """For each region by its name, and each shape that was known or has run."""
        return self._arranged

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What the kernels compute: one for each layer here and each shape that it was prepared for. Behind them, once
        each, what else the choice of the kernels of a region asks the time of."""
        ready = (one for layer in self._in_order() for one in self._prepared.get(layer.key, {}).values())
        found = [problem for one in ready if not isinstance(one, Refused) for problem in one.problems]
        arranged = (one for every in self._arranged.values() for one in every.values())
        others = dict.fromkeys(problem for one in arranged for problem in one.alternatives)
        for problem in found:
            others.pop(problem, None)
        return (*found, *others)

    @property
    def memory(self) -> Memory:
        """What all that is recorded now needs."""
        # A copy: another thread may record meanwhile.
        every = list(self._recordings.values())
        return sum((one.memory for one in every if isinstance(one, Recorded)), Memory())

    def explain(self, why_not: Mapping[str, str]) -> Explanation:
        """`why_not`: for each layer that runs elsewhere, by its name."""
        reasons = {name: (ELSEWHERE, why) for name, why in why_not.items()}
        last = self._last_run
        decided = {key: why for one in last.arranged.values() for key, why in one.whys.items()}
        order = self._in_order()
        for layer in order:
            if layer.key in self._steps:
                ops = ", ".join(part.op for part in layer.unfolded)
                folded = f"{ops} folded, which changes no bit; " if len(layer.parts) > 1 else ""
                chosen = last.chosen.get(layer.key)
                why = "the kernel is chosen for the shape of the first input" if chosen is None else chosen.why
                where = ELSEWHERE if isinstance(chosen, Refused) else HERE
                reasons[layer.name] = where, folded + decided.get(layer.key, "") + why
        made = explained(replace(self.network, layers=tuple(order)), order, reasons, last.seen)
        return replace(made, memory=self.memory)

    def _in_order(self) -> list[Layer]:
        """As they run; of a region what was arranged last."""
        return [step for segment in self.segments for step in self._steps_run(segment)]

    def _steps_run(self, segment: Segment) -> list[Layer]:
        return [step for layer in segment.layers for step in self._of(layer)]

    def _of(self, layer: Layer) -> list[Layer]:
        if layer.name not in self._regions:
            return [layer]
        last = self._last_run.arranged.get(layer.name)
        return [step.layer for step in (self._regions[layer.name].elements if last is None else last.steps)]

    def _run(self, feeds: Mapping[str, Value], wanted: Sequence[str], here: Run, elsewhere: Run) -> dict[str, Value]:
        values = dict(feeds)
        for name in wanted:
            if name in self.network.constants:
                values[name] = Value(self._device, host=self.network.constants[name])
        for at, segment in enumerate(self.segments):
            values |= here(_with(segment, wanted), values) if segment.served else elsewhere(segment, values)
            for name in segment.inputs:
                if self._last_use[name] == at and name not in wanted:
                    values.pop(name, None)
        return {name: values[name] for name in wanted}

    def _replayed(self, segment: Segment, values: Mapping[str, Value]) -> dict[str, Value]:
        """Layer after layer the first time; recorded the second, if all of it ran here."""
        given = {name: values[name] for name in segment.inputs if name in values}
        key = segment.outputs, forms_of(given)
        if key not in self._recordings:
            made = self._in_turn(segment, given, self._layer)
            if all(self._ran(step) is not None for step in self._steps_run(segment)):
                self._recordings[key] = places_of(given)
            return made
        recorded = self._recordings.pop(key)
        if not isinstance(recorded, Recorded) or not recorded.reads(given):
            # What is given twice in the same place will be given there again; if not, all is copied from then on.
            before = {} if isinstance(recorded, Recorded) else recorded
            again = [name for name, address in places_of(given).items() if before.get(name) == address]
            recorded = Recorded(self._device, given, lambda values: self._in_turn(segment, values, self._layer), again)
            recorded.ran = self._last_run.of(segment.layers, self._steps_run(segment))
        self._last_run.again(recorded.ran)
        self._recordings[key] = recorded  # behind all others, of which the first goes
        if len(self._recordings) > MOST_RECORDINGS:
            del self._recordings[next(iter(self._recordings))]
        return recorded(given)

    def _in_turn(self, segment: Segment, values: Mapping[str, Value], run: Run) -> dict[str, Value]:
        """Layer after layer; a tensor goes with its last reader."""
        held = {name: values[name] for name in segment.inputs if name in values}
        last_use = {name: at for at, layer in enumerate(segment.layers) for name in layer.reads}
        for at, layer in enumerate(segment.layers):
            for step in self._steps_of(layer, held):
                held |= run(_alone(step), held)
                for name in set(step.inputs) - set(layer.reads):  # between two steps, of which one alone reads it
                    held.pop(name)
            for name in layer.reads:
                if last_use[name] == at and name not in segment.outputs:
                    held.pop(name, None)
        return {name: held[name] for name in segment.outputs}

    def _steps_of(self, layer: Layer, held: Mapping[str, Value]) -> Sequence[Served]:
        region = self._regions.get(layer.name)
        if region is None:
            return (self._served[layer.name],)
        return self._arrange(region, tuple(held[name].shape for name in region.inputs)).steps

    def _layer(self, alone: Segment, values: Mapping[str, Value]) -> dict[str, Value]:
        """One that runs here, unless no kernel serves these shapes."""
        served = self._steps[alone.layers[0].key]
        inputs = [values[name] for name in served.inputs]
        for name, value in zip(served.inputs, inputs, strict=True):
            self._saw(name, value)
        prepared = self._prepare(served, tuple(value.shape for value in inputs))
        made = self._elsewhere_run(alone, values) if prepared is None else {served.y: prepared(*inputs)}
        self._saw(served.y, made[served.y])
        return made

    def _saw(self, name: str, value: Value) -> None:
        self._last_run.seen[name] = replace(self.network.tensor(name), shape=value.shape)

    def _ran(self, layer: Layer) -> Prepared | None:
        """What the layer was prepared as for the shapes that it saw last; None where it ran elsewhere."""
        chosen = self._last_run.chosen.get(layer.key)
        return None if isinstance(chosen, Refused) else chosen

    def _prepare_known(self, served: Served) -> None:
        """Where the shapes are known before the first run, what it needs is made now."""
        shapes = self._known(served)
        if shapes is not None:
            self._prepare(served, shapes)

    def _arrange_known(self, region: Region) -> None:
        shapes = self._known(region)
        if shapes is not None:
            for step in self._arrange(region, shapes).steps:
                self._prepare_known(step)

    def _known(self, layer: Served | Region) -> Shapes | None:
        shapes = [self.network.tensor(name).extents for name in layer.inputs]
        known = tuple(shape for shape in shapes if shape is not None)
        return known if len(known) == len(shapes) else None

    def _arrange(self, region: Region, shapes: Shapes) -> Arrangement:
        """The same for the same shapes, as long as they are remembered."""
        made = _remembered(self._arranged[region.layer.name], shapes, lambda: self._arranger.arranged(region, shapes))
        self._steps |= {step.layer.key: step for step in made.steps}
        self._last_run.arranged[region.layer.name] = made
        return made

    def _prepare(self, served: Served, shapes: Shapes) -> Prepared | None:
        """None where no kernel serves these shapes: then the layer runs elsewhere, once more as it was read."""

        def prepare() -> Prepared | Refused:
            try:
                with in_sequence():
                    return served.prepare(shapes, self._device)
            except ValueError as error:
                shown = ", ".join(map(str, shapes))
                log.info("%s runs elsewhere for inputs of shape %s: %s", served.layer.name, shown, error)
                return Refused(f"for inputs of shape {shown}: {error}")

        made = _remembered(self._prepared.setdefault(served.layer.key, {}), shapes, prepare)
        self._last_run.chosen[served.layer.key] = made
        return None if isinstance(made, Refused) else made

    def _elsewhere_run(self, segment: Segment, values: Mapping[str, Value]) -> dict[str, Value]:
        given = {name: values[name].on_host for name in segment.inputs if name in values}
        results = self._subgraph(segment)(given)
        return {name: Value(self._device, host=array) for name, array in results.items()}

    def _subgraph(self, segment: Segment) -> Subgraph:
        layers = [part for layer in segment.layers for part in layer.unfolded]
        # Each output of a Split that runs elsewhere by itself is another subgraph.
        key = tuple(layer.name for layer in layers), segment.outputs
        if key not in self._subgraphs:
            self._subgraphs[key] = self._elsewhere.prepare(layers, segment.inputs, segment.outputs)
        return self._subgraphs[key]


def _remembered(known: dict[Shapes, Kept], shapes: Shapes, make: Callable[[], Kept]) -> Kept:
    if shapes not in known:
        if len(known) >= MOST_SHAPES:
            known.pop(next(iter(known)))
        known[shapes] = make()
    return known[shapes]


def _with(segment: Segment, wanted: Sequence[str]) -> Segment:
    """What it makes includes what is wanted of its layers' outputs."""
    made = {name for layer in segment.layers for name in layer.outputs}
    asked = (name for name in wanted if name in made)
    return replace(segment, outputs=tuple(dict.fromkeys((*segment.outputs, *asked))))


def _alone(served: Served) -> Segment:
    """A layer that runs here as a segment of its own."""
    return Segment((served.layer,), True, served.inputs, (served.y,))
