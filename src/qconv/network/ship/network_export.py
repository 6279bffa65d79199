"""Export of a network as a folder that C++ opens: for targets that need not be present, and inputs of known shapes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from qconv.device import Device, open_device
from qconv.device.traced import Called, TracedDevice
from qconv.errors import Unshippable
from qconv.instances.load.building import Place, check_new, places
from qconv.instances.load.expected import Expectations
from qconv.instances.load.instance import Instance
from qconv.instances.load.serving import answered_by, found
from qconv.network import Arranger, Layer, Network, Region, Runner, Served, Value
from qconv.network.run.runner import Subgraph
from qconv.network.ship.folder import write
from qconv.network.ship.parts import PartsOf, calls_on
from qconv.network.ship.plan import Plan, plan_of
from qconv.network.ship.prepared import prepared
from qconv.network.ship.program import Port, Program, traced
from qconv.network.ship.vectors import Recorded, drawn, vectors_text
from qconv.op import Problem
from qconv.targets.target import target


@dataclass(frozen=True)
class Shipped:
    """An exported network: its folder, and the names of its files there."""

    folder: Path
    files: tuple[str, ...]
    plans: tuple[Plan, ...]

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Return the layers that no kernel computes, those that are one part in one string."""
        steps = (step for plan in self.plans for program in plan.programs for step in program.steps)
        return tuple(dict.fromkeys(step.layer for step in steps if isinstance(step, Called)))


@dataclass(frozen=True, eq=False)
class Shippable:
    """A network of known shapes. `parts_of` makes parts of the layers that run elsewhere; None: there may be none."""

    network: Network
    served: Mapping[str, Served | Region]
    parts_of: PartsOf | None = None

    @property
    def ports(self) -> list[Port]:
        """Return the inputs that a caller gives."""
        ports = []
        for name in self.network.inputs:
            tensor = self.network.tensor(name)
            if name in self.network.constants:
                continue
            if tensor.extents is None or tensor.dtype is None:
                raise Unshippable(
                    f"the shape of the input {name!r} is not known: give the model inputs of fixed shapes"
                )
            ports.append(Port(name, str(tensor.dtype), tensor.extents))
        return ports


# Lowers a network for inputs of certain shapes.
Lower = Callable[[], Shippable]


@dataclass(frozen=True)
class Export:
    """A request for a folder: where, for which targets, and who chooses kernels. `device` is the name of the device to
    choose kernels for, by default the first that winners are shipped for."""

    folder: Path
    targets: str | Iterable[str]
    device: str | None = None
    db: str | None = None
    watch: Callable[[str], None] = lambda said: None

    def __post_init__(self) -> None:
        check_new(self.folder)

    @property
    def places(self) -> list[Place]:
        named = [target(name) for name in ((self.targets,) if isinstance(self.targets, str) else self.targets)]
        if not named:
            raise ValueError("targets are empty: name at least one, such as sm_90a, gfx942 or cpu")
        return [places(one, self.device)[0] for one in dict.fromkeys(named)]

    def write(self, networks: Sequence[Lower], unfused: Sequence[Lower]) -> Shipped:
        """Write the folder. The `unfused` networks, which make every tensor that the others may make, are run here, and
        what they make is stored for the self-test; nothing is stored if there are none. Raise Unshippable where a layer
        does not run on kernels."""
        places = self.places
        programs: list[list[Program]] = [[] for _ in places]
        for number, lower in enumerate(networks):
            lowered = lower()  # once for all targets, and only one at a time
            for place, made in zip(places, programs, strict=True):
                self.watch(f"{place.target.name}: program {number + 1} of {len(networks)}")
                program = program_of(lowered, place, self.db)
                made.append(prepared(program, place.target) if place.target.vendor == "cpu" else program)
        plans = [plan_of(place.target, made) for place, made in zip(places, programs, strict=True)]
        more = {}
        if unfused:
            self.watch("vectors of the self-test")
            device, every = open_device(), zip(*(plan.programs for plan in plans), strict=True)
            runs = [recorded(lower(), device, programs) for lower, programs in zip(unfused, every, strict=True)]
            more["vectors.txt"] = vectors_text(runs).encode()
        return Shipped(self.folder, tuple(write(plans, self.folder, more)), tuple(plans))


class _Nowhere:
    """The runtime of layers that no kernel computes: nothing runs while a network is traced."""

    def prepare(self, layers: Sequence[Layer], inputs: Sequence[str], outputs: Sequence[str]) -> Subgraph:
        def run(given: Mapping[str, Any]) -> NoReturn:
            named = ", ".join(f"{one.op} ({one.name})" for one in layers)
            raise Unshippable(f"no kernel computes {named}")

        return run


def program_of(lowered: Shippable, place: Place, db: str | None = None) -> Program:
    """Return the program of a network for a target."""
    device = TracedDevice(place.target, place.name)
    arranger = Arranger(Expectations(place, db, in_sequence=True))

    def runner(on: TracedDevice) -> Runner:
        return Runner(lowered.network, lowered.served, on, _Nowhere(), arranger)

    call = None if lowered.parts_of is None else calls_on(device, lowered.network, lowered.parts_of)
    with answered_by(_answers(device, db), looks_up=db is None):
        return traced(runner, device, lowered.ports, lowered.network.outputs, call)


def recorded(lowered: Shippable, device: Device, programs: Sequence[Program]) -> Recorded:
    """Run a network here with drawn inputs. Return its outputs, and the checksums of the tensors that steps of these
    programs complete."""
    wanted = {(one.name, one.is_last) for program in programs for one in program.made}
    tensors: dict[tuple[str, bool], int] = {}

    def seen(name: str, value: Value) -> None:
        key = name, value.is_channels_last
        if key in wanted:
            tensors[key] = zlib.crc32(device.download(device.contiguous(value.array)).tobytes())

    arranger = Arranger(Expectations(device, in_sequence=True))
    runner = Runner(lowered.network, lowered.served, device, _Nowhere(), arranger)
    feeds = {port.name: Value(device, host=drawn(port, at + 1)) for at, port in enumerate(lowered.ports)}
    made = runner.traced(feeds, lowered.network.outputs, seen)
    return Recorded([made[name].on_host for name in lowered.network.outputs], tensors)


def _answers(device: TracedDevice, db: str | None) -> Callable[[Problem], Instance]:
    """Return a lookup for this device, which loads each instance once."""
    known: dict[Problem, Instance] = {}

    def answer(problem: Problem) -> Instance:
        if problem not in known:
            known[problem] = found(problem, device, db, in_sequence=True)
        return known[problem]

    return answer
