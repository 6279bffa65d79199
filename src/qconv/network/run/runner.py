"""The runner of a network: served layers on a device, the others by the front end's runtime."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, Protocol, TypeVar
from weakref import ref

from qconv.device import Device
from qconv.errors import Unshippable
from qconv.instances.load.ahead import compile_ahead, looked_up
from qconv.instances.load.choosers import LEAST_PROCESSES, choose_ahead, most_processes
from qconv.instances.load.expected import Expectations
from qconv.instances.load.needs import Needs, needs_of
from qconv.instances.load.neighbours import Neighbours
from qconv.instances.load.serving import in_sequence
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.served import OfSeveralOutputs, Prepared, Reason, Served
from qconv.network.graph.value import Form, Value
from qconv.network.run.arrange import Arrangement, Arranger, Arranging, Key
from qconv.network.run.batches import prepared_for
from qconv.network.run.buffers import NONE, Buffer, settled
from qconv.network.run.memory import Memory
from qconv.network.run.partition import Segment, partition
from qconv.network.run.recorded import LastRun, Recorded, Refused, forms_of, places_of
from qconv.network.run.region import Region
from qconv.network.run.report import ELSEWHERE, HERE, Explanation, LayerTime, Placed, Profile, explained
from qconv.op import Problem

log = logging.getLogger("qconv")

# Maps host arrays by name to host arrays by name.
Subgraph = Callable[[Mapping[str, Any]], Mapping[str, Any]]
Shapes = tuple[tuple[int, ...], ...]
Kept = TypeVar("Kept")
# Shapes for which a layer is kept prepared. Beyond that, the oldest is dropped and prepared again if it recurs.
MOST_SHAPES = 16
# For all segments together. Each holds the memory of its intermediate tensors; the least recently used is dropped.
MOST_RECORDINGS = 16
# Repetitions of a layer in one recording, to hide the launch overhead; and timings.
PROFILED, REPEATS = 16, 3
# The outputs of a segment, and the forms of its inputs.
Recording = tuple[tuple[str, ...], tuple[Form, ...]]
# Computes the outputs of a segment.
Run = Callable[[Segment, Mapping[str, Value]], dict[str, Value]]
# Computes the outputs of layers that run elsewhere, from the constants that they read and the other tensors.
Call = Callable[[Sequence[Layer], Mapping[str, Any], Sequence[str], Mapping[str, Value]], dict[str, Value]]


class Elsewhere(Protocol):
    """The interface of a runtime for the layers that no kernel computes."""

    def prepare(self, layers: Sequence[Layer], inputs: Sequence[str], outputs: Sequence[str]) -> Subgraph:
        """Prepare layers as one subgraph."""
        ...


class Runner:
    """A runner. It looks up kernels and packs weights once per layer and input shape; its `arranger` chooses the
    kernels of a region, once per shape as well. When inputs with the same forms recur, it records the launches of a
    segment, and replays them from then on."""

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
        # For a segment that has run once: the addresses of its inputs.
        self._recordings: dict[Recording, Recorded | dict[str, int]] = {}
        self._made_here = frozenset(name for one in served.values() for name in one.layer.outputs)
        self._alone = Lock()  # a recording has a single set of arrays
        self.segments = partition(network, served)
        self._outputs = [{name for layer in each.layers for name in layer.outputs} for each in self.segments]
        self._last_use = {name: at for at, segment in enumerate(self.segments) for name in segment.inputs}
        for segment in self.segments:
            if not segment.served:
                self._subgraph(segment)
        self._choose_known()
        steps = (step for region in self._regions.values() for step in self._arranged_known(region))
        known = [*self._served.values(), *steps]
        self._compile_known(known)
        for layer in known:
            self._prepare_known(layer)

    def run(
        self, feeds: Mapping[str, Value], wanted: Sequence[str], buffers: Mapping[str, Buffer] = NONE
    ) -> dict[str, Value]:
        """Return the wanted tensors: outputs of served layers, or tensors between two segments. Those with a buffer are
        copied there, which is their only copy."""
        with self._alone:
            values = self._run(feeds, wanted, self._replayed, self._elsewhere_run)
            values |= {name: settled(self._device, values[name]) for name in buffers}
            for name, buffer in buffers.items():
                buffer.check(values[name].shape, values[name].dtype)
            return {name: self._kept(name, value, buffers.get(name)) for name, value in values.items()}

    def recording_of(self, given: Mapping[str, Value], wanted: Sequence[str]) -> Recorded | None:
        """Return the recording of a whole run with inputs of these forms, or None."""
        if len(self.segments) != 1 or not set(wanted) <= set(self.segments[0].outputs):
            return None
        (segment,) = self.segments
        if not segment.served:  # its inputs may be sequences of tensors
            return None
        forms = forms_of({name: given[name] for name in segment.inputs if name in given})
        found = self._recordings.get((segment.outputs, forms))
        return found if isinstance(found, Recorded) else None

    def repeat(self, recorded: Recorded, arrays: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Value]:
        """Repeat a run with other arrays."""
        with self._alone:
            made = recorded.repeat(arrays)
            return {name: made[name].copied_in_order() for name in wanted}

    def _kept(self, name: str, value: Value, buffer: Buffer | None) -> Value:
        """Return an output where the next run of a recording does not overwrite it."""
        if buffer is None:
            return value.copied_in_order() if name in self._made_here else value
        buffer.write(value)
        return buffer.there

    def traced(
        self,
        feeds: Mapping[str, Value],
        wanted: Sequence[str],
        seen: Callable[[str, Value], None],
        naming: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext(),
        call: Call | None = None,
    ) -> dict[str, Value]:
        """Run once without recording, each layer within the context that `naming` gives for its name, and show each
        tensor that a kernel makes to `seen`. `call` runs layers elsewhere; without it, raise Unshippable for them."""

        def layer(segment: Segment, values: Mapping[str, Value]) -> dict[str, Value]:
            (one,) = segment.layers
            served = self._steps[one.key]
            with naming(one.name):
                if self._prepare(served, tuple(values[name].shape for name in served.inputs)) is None:
                    return elsewhere(segment, values, f": {self._last_run.chosen[one.key].why}")
                made = self._layer(segment, values)
            for name, value in made.items():
                seen(name, value)
            return made

        def elsewhere(segment: Segment, values: Mapping[str, Value], why: str = "") -> dict[str, Value]:
            named = ", ".join(f"{one.op} ({one.name})" for one in segment.layers)
            if call is None:
                raise Unshippable(f"no kernel computes {named}{why}")
            layers = [part for layer in segment.layers for part in layer.unfolded]
            with naming(named):
                return call(layers, self._constants_of(segment), segment.outputs, values)

        with self._alone:
            return self._run(feeds, wanted, lambda segment, values: self._in_turn(segment, values, layer), elsewhere)

    def profile(self, feeds: Mapping[str, Value]) -> Profile:
        """Time each served layer and each subgraph elsewhere by itself. Served layers are recorded, because the host's
        checks would take longer than many kernels."""
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
            rows.append(LayerTime(name, op, HERE if segment.served else ELSEWHERE, time_us, tuple(names)))
            return made

        def layer(segment: Segment, values: Mapping[str, Value]) -> dict[str, Value]:
            return timed(segment, values, self._layer)

        with self._alone:
            self._run(
                feeds,
                self.network.outputs,
                lambda segment, values: self._in_turn(segment, values, layer),
                lambda segment, values: timed(segment, values, self._elsewhere_run),
            )
        return Profile(tuple(rows))

    def _recorded_us(self, segment: Segment, values: Mapping[str, Value], run: Run) -> float:
        """Return the average time of a run of the segment."""
        given = {name: values[name] for name in segment.inputs if name in values}

        def work() -> list[Any]:
            # Fresh values, because conversions are cached in them.
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
    def arrangements(self) -> Mapping[str, Mapping[Shapes, Arrangement]]:
        """Return the arrangement of each region, by its name, for each shape that was known or has run."""
        return self._arranged

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of the kernels, one per served layer and shape that it was prepared for. After them come,
        once each, the problems whose times would improve the choice of a region's kernels."""
        with self._alone:  # a run adds to both
            ready = [one for layer in self._in_order() for one in self._prepared.get(layer.key, {}).values()]
            arranged = [one for every in self._arranged.values() for one in every.values()]
        found = [problem for one in ready if not isinstance(one, Refused) for problem in one.problems]
        others = dict.fromkeys(problem for one in arranged for problem in one.alternatives)
        for problem in found:
            others.pop(problem, None)
        return (*found, *others)

    @property
    def memory(self) -> Memory:
        """Return the memory of all current recordings."""
        # Copied, because another thread may record meanwhile.
        every = list(self._recordings.values())
        return sum((one.memory for one in every if isinstance(one, Recorded)), Memory())

    def explain(self, why_not: Mapping[str, Reason], with_needs: bool = True) -> Explanation:
        """Return the report. `why_not` has the reason for each layer that runs elsewhere, by its name. The needs of
        kernels take a lookup and a prediction of each."""
        with self._alone:
            return self._explained(why_not, with_needs)

    def _explained(self, why_not: Mapping[str, Reason], with_needs: bool) -> Explanation:
        places = {name: Placed(ELSEWHERE, why) for name, why in why_not.items()}
        last = self._last_run
        decided = {key: why for one in last.arranged.values() for key, why in one.whys.items()}
        order = self._in_order()
        for layer in order:
            if layer.key in self._steps:
                places[layer.name] = self._placed(layer, decided.get(layer.key, ""), with_needs)
        made = explained(replace(self.network, layers=tuple(order)), order, places, last.seen)
        refused = sum(isinstance(last.chosen.get(layer.key), Refused) for layer in order)
        islands = sum(not segment.served for segment in self.segments) + refused
        return replace(made, islands=islands, memory=self.memory)

    def _placed(self, layer: Layer, decided: str, with_needs: bool) -> Placed:
        """Return the place of a served layer in its last run. `decided` says why it is, or is not, part of another."""
        chosen = self._last_run.chosen.get(layer.key)
        why = "the kernel is chosen for the shape of the first input" if chosen is None else chosen.why
        reason = Reason(_parts_of(layer) + _notes_of(layer) + decided + why)
        if chosen is None:
            return Placed(HERE, reason)
        if isinstance(chosen, Refused):
            return Placed(ELSEWHERE, reason)
        operations = sum(problem.operations for problem in chosen.problems)
        floats = next((problem.floats for problem in chosen.problems if problem.floats), "")
        needs = needs_of(chosen.problems, self._device.spec) if with_needs else Needs()
        return Placed(HERE, reason, operations, floats, needs)

    def _in_order(self) -> list[Layer]:
        """Return the layers in the order in which they run, with the last arrangement of each region."""
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
        more = set(wanted) - set(self.network.outputs)
        for at, segment in enumerate(self.segments):
            asked = segment if more.isdisjoint(self._outputs[at]) else _with(segment, wanted)
            values |= here(asked, values) if segment.served else elsewhere(segment, values)
            for name in segment.inputs:
                if self._last_use[name] == at and name not in wanted:
                    values.pop(name, None)
        return {name: values[name] for name in wanted}

    def _replayed(self, segment: Segment, values: Mapping[str, Value]) -> dict[str, Value]:
        """Run a segment: layer by layer the first time, recorded the second if all of it ran on kernels."""
        given = {name: values[name] for name in segment.inputs if name in values}
        key = segment.outputs, forms_of(given)
        if key not in self._recordings:
            made = self._in_turn(segment, given, self._layer)
            if all(self._ran(step) is not None for step in self._steps_run(segment)):
                self._recordings[key] = places_of(given)
            return made
        recorded = self._recordings.pop(key)
        if not isinstance(recorded, Recorded) or not recorded.reads(given):
            # Inputs at the same address twice are read in place from now on; all others are copied.
            before = {} if isinstance(recorded, Recorded) else recorded
            again = [name for name, address in places_of(given).items() if before.get(name) == address]
            recorded = Recorded(self._device, given, self._again(segment), again)
            recorded.ran = self._last_run.of(segment.layers, self._steps_run(segment))
        self._last_run.again(recorded.ran)
        self._recordings[key] = recorded  # most recently used; the first entry is dropped next
        if len(self._recordings) > MOST_RECORDINGS:
            del self._recordings[next(iter(self._recordings))]
        return recorded(given)

    def _again(self, segment: Segment) -> Callable[[Mapping[str, Value]], dict[str, Value]]:
        """Return the run of a segment. It does not hold the runner, whose recordings hold it: their memory would wait
        for the garbage collector."""
        runner = ref(self)

        def run(values: Mapping[str, Value]) -> dict[str, Value]:
            here = runner()
            assert here is not None, "a recording runs within a run"
            return here._in_turn(segment, values, here._layer)

        return run

    def _in_turn(self, segment: Segment, values: Mapping[str, Value], run: Run) -> dict[str, Value]:
        """Run layer by layer. A tensor is released after its last reader."""
        held = {name: values[name] for name in segment.inputs if name in values}
        last_use = {name: at for at, layer in enumerate(segment.layers) for name in layer.reads}
        for at, layer in enumerate(segment.layers):
            for step in self._steps_of(layer, held):
                held |= run(_alone(step), held)
                for name in set(step.inputs) - set(layer.reads):  # intermediate tensors of a region
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
        """Run a served layer, elsewhere if no kernel serves these shapes."""
        served = self._steps[alone.layers[0].key]
        inputs = [values[name] for name in served.inputs]
        for name, value in zip(served.inputs, inputs, strict=True):
            self._saw(name, value)
        prepared = self._prepare(served, tuple(value.shape for value in inputs))
        made = self._elsewhere_run(alone, values) if prepared is None else _outputs(served, prepared, inputs)
        for name, value in made.items():
            self._saw(name, value)
        return made

    def _saw(self, name: str, value: Value) -> None:
        self._last_run.seen[name] = replace(self.network.tensor(name), shape=value.shape)

    def _ran(self, layer: Layer) -> Prepared | None:
        """Return the prepared layer for the shapes of its last run, or None where it ran elsewhere."""
        chosen = self._last_run.chosen.get(layer.key)
        return None if isinstance(chosen, Refused) else chosen

    def _prepare_known(self, served: Served) -> None:
        """Prepare a layer now if its shapes are known before the first run."""
        shapes = self._known(served)
        if shapes is not None:
            self._prepare(served, shapes)

    def _arranged_known(self, region: Region) -> Sequence[Served]:
        shapes = self._known(region)
        return () if shapes is None else self._arrange(region, shapes).steps

    def _choose_known(self) -> None:
        """Choose the kernels of layers whose shapes are known, in several processes if that pays."""
        if most_processes() < LEAST_PROCESSES:
            return
        shaped = [(one, shapes) for one in self._served.values() if (shapes := self._known(one)) is not None]
        with in_sequence():
            alone = looked_up(partial(layer.prepare, shapes, self._device) for layer, shapes in shaped)
            asked = [Neighbours((problem,)) for problem in alone]
            for region in self._regions.values():
                if (shapes := self._known(region)) is not None:
                    asked += self._arranger.neighbours(region, shapes)
            choose_ahead(asked, self._device)

    def _compile_known(self, layers: Sequence[Served]) -> None:
        """Compile the kernels of layers whose shapes are known, in parallel."""
        shaped = [(layer, shapes) for layer in layers if (shapes := self._known(layer)) is not None]
        with in_sequence():
            prepare = (partial(layer.prepare, shapes, self._device) for layer, shapes in shaped)
            compile_ahead(looked_up(prepare), self._device)

    def _known(self, layer: Served | Region) -> Shapes | None:
        shapes = [self.network.tensor(name).extents for name in layer.inputs]
        known = tuple(shape for shape in shapes if shape is not None)
        return known if len(known) == len(shapes) else None

    def _arrange(self, region: Region, shapes: Shapes) -> Arrangement:
        """Return the arrangement for these shapes, which is the same as long as they are remembered."""
        made = _remembered(self._arranged[region.layer.name], shapes, lambda: self._arranger.arranged(region, shapes))
        self._steps |= {step.layer.key: step for step in made.steps}
        self._last_run.arranged[region.layer.name] = made
        return made

    def _prepare(self, served: Served, shapes: Shapes) -> Prepared | None:
        """Return the prepared layer, or None where no kernel serves these shapes: then it runs elsewhere, unfolded."""

        def prepare() -> Prepared | Refused:
            try:
                with in_sequence():
                    return prepared_for(served, shapes, self._device)
            except ValueError as error:
                shown = ", ".join(map(str, shapes))
                log.info("%s runs elsewhere for inputs of shape %s: %s", served.layer.name, shown, error)
                return Refused(f"for inputs of shape {shown}: {error}")

        made = _remembered(self._prepared.setdefault(served.layer.key, {}), shapes, prepare)
        self._last_run.chosen[served.layer.key] = made
        return None if isinstance(made, Refused) else made

    def _elsewhere_run(self, segment: Segment, values: Mapping[str, Value]) -> dict[str, Value]:
        given = {name: values[name].on_host for name in segment.inputs if name in values}
        results = self._subgraph(segment)(self._constants_of(segment) | given)
        return {name: Value(self._device, host=array) for name, array in results.items()}

    def _constants_of(self, segment: Segment) -> dict[str, Any]:
        """Return the constants that the layers of a segment read. The other runtime may compute some of them."""
        read = (name for layer in segment.layers for part in layer.unfolded for name in part.reads)
        return {name: self.network.constants[name] for name in read if name in self.network.constants}

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
    """Return the segment with the wanted tensors among its outputs."""
    made = {name for layer in segment.layers for name in layer.outputs}
    asked = (name for name in wanted if name in made)
    return replace(segment, outputs=tuple(dict.fromkeys((*segment.outputs, *asked))))


def _parts_of(layer: Layer) -> str:
    """Return what an explanation says of the layers that are one."""
    if len(layer.parts) < 2:
        return ""
    ops = ", ".join({part.name: part.op for part in layer.unfolded}.values())
    if layer.is_expression:
        return f"{ops} in one expression; "
    if layer.note:
        return f"{ops} folded; "
    effect = "which changes no bit" if layer.is_exact else "which may change an output by one step"
    return f"{ops} folded, {effect}; "


def _notes_of(layer: Layer) -> str:
    """Return what an explanation says of the floats of the layers that are one."""
    notes = dict.fromkeys(each.note for each in (layer, *layer.unfolded) if each.note)
    return "".join(f"{note}; " for note in notes)


def _alone(served: Served) -> Segment:
    """Return a served layer as a segment of its own."""
    return Segment((served.layer,), True, served.inputs, tuple(filter(None, served.layer.outputs)))


def _outputs(served: Served, prepared: Prepared, inputs: Sequence[Value]) -> dict[str, Value]:
    """Run a prepared layer, and return its outputs by their names."""
    return dict(prepared.outputs(*inputs)) if isinstance(prepared, OfSeveralOutputs) else {served.y: prepared(*inputs)}
