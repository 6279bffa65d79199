"""A plan: the programs of a network for one target, one for each tuple of input shapes. They share constants, and what
is made of constants when the network is opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from qconv.device.cache import Binary
from qconv.device.traced import Launched, Step
from qconv.network.ship.program import Place, Program
from qconv.targets.target import Target

# A step with everything that its effect depends on: its own numbers, and the keys of the places that it refers to.
Key = tuple[object, ...]


@dataclass(frozen=True)
class Constant:
    """`is_resident` where runs read it; the others are read when the network is opened, and then freed."""

    content: bytes
    is_resident: bool


@dataclass(frozen=True)
class Setup:
    """A step that is launched when the network is opened, and the places of what it refers to."""

    step: Step
    places: Mapping[int, Place]


@dataclass(frozen=True, eq=False)
class Plan:
    target: Target
    binaries: tuple[Binary, ...]
    constants: tuple[Constant, ...]
    state_bytes: tuple[int, ...]
    setup: tuple[Setup, ...]
    programs: tuple[Program, ...]

    @cached_property
    def _numbers(self) -> dict[Path, int]:
        return {binary.path: number for number, binary in enumerate(self.binaries)}

    def number_of(self, binary: Binary) -> int:
        return self._numbers[binary.path]


def plan_of(target: Target, programs: Sequence[Program]) -> Plan:
    """Merge programs: equal constants become one, and so does what equal launches make of them."""
    merged = _Merged()
    found = tuple(merged.added(program) for program in programs)
    steps = (*(one.step for one in merged.setup), *(step for program in found for step in program.steps))
    binaries = {step.binary.path: step.binary for step in steps if isinstance(step, Launched)}
    constants = tuple(Constant(content, number in merged.resident) for content, number in merged.constants.items())
    return Plan(target, tuple(binaries.values()), constants, tuple(merged.state_bytes), tuple(merged.setup), found)


@dataclass
class _Merged:
    """The constants, states and steps of all programs that were added so far."""

    constants: dict[bytes, int] = field(default_factory=dict)
    resident: set[int] = field(default_factory=set)
    state_bytes: list[int] = field(default_factory=list)
    setup: list[Setup] = field(default_factory=list)
    made: dict[Key, tuple[int, ...]] = field(default_factory=dict)  # by the key of its steps: the numbers of states

    def added(self, program: Program) -> Program:
        """Return the program with the numbers of constants and states that all programs share."""
        constants = [self.constants.setdefault(content, len(self.constants)) for content in program.constants]
        self.resident |= {constants[number] for number in program.resident}
        states: dict[int, int] = {}

        def renamed(place: Place) -> Place:
            if place.space == "constant":
                return replace(place, number=constants[place.number])
            return replace(place, number=states[place.number]) if place.space == "state" else place

        for group in _groups(program):
            own = list(dict.fromkeys(number for step in group for number in _states(program, step.written)))
            key = tuple(_key(program, step, own, constants, states) for step in group)
            is_new = key not in self.made
            if is_new:
                self.made[key] = tuple(range(len(self.state_bytes), len(self.state_bytes) + len(own)))
                self.state_bytes += [program.state_bytes[number] for number in own]
            states |= zip(own, self.made[key], strict=True)
            if is_new:
                self.setup += [
                    Setup(step, {number: renamed(program.places[number]) for number in step.read}) for step in group
                ]
        # A state that nothing writes before the first run: the scratch memory of one shape.
        for number, size in enumerate(program.state_bytes):
            if number not in states:
                states[number] = len(self.state_bytes)
                self.state_bytes.append(size)
        return replace(program, places={number: renamed(place) for number, place in program.places.items()})


def _states(program: Program, allocations: Iterable[int]) -> list[int]:
    places = (program.places[number] for number in sorted(allocations))
    return [place.number for place in places if place.space == "state"]


def _groups(program: Program) -> list[list[Step]]:
    """Return the steps of the setup in groups that write no state in common, in order."""
    groups: list[tuple[set[int], list[Step]]] = []
    for step in program.setup:
        written = set(_states(program, step.written))
        meeting = [group for group in groups if not written.isdisjoint(group[0])]
        for group in meeting:
            groups.remove(group)
        steps = [one for group in meeting for one in group[1]]
        groups.append((written.union(*(group[0] for group in meeting)), [*steps, step]))
    return [steps for _, steps in groups]


def _key(program: Program, step: Step, own: Sequence[int], constants: Sequence[int], states: Mapping[int, int]) -> Key:
    def of(number: int) -> Key:
        place = program.places[number]
        if place.space == "state":
            size = program.state_bytes[place.number]
            return ("own", own.index(place.number), size) if place.number in own else ("state", states[place.number])
        return (place.space, constants[place.number] if place.space == "constant" else place.number)

    if not isinstance(step, Launched):
        return (_bare(step), *(of(number) for number in sorted(step.read)))
    pointers = tuple((offset, of(spot.allocation), spot.offset) for offset, spot in step.pointers)
    maps = tuple((offset, made, of(spot.allocation), spot.offset) for offset, made, spot in step.maps)
    return (step.binary.data, step.launch, step.arguments, pointers, maps)


def _bare(step: Step) -> Key:
    """Return a step that is no launch as its numbers alone."""
    numbers = (getattr(step, name, None) for name in ("bytes", "byte", "item_bytes", "shape", "strides"))
    spots = (getattr(step, name).offset for name in ("to", "source") if hasattr(step, name))
    return (type(step).__name__, *numbers, *spots)
