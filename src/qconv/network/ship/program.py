"""A program: the launches of a network for inputs of certain shapes, and the places of everything that they read and
write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from qconv.device.memory import Allocation
from qconv.device.traced import Spot, Step, TracedDevice
from qconv.errors import Unshippable
from qconv.network.graph.value import Counted, Value
from qconv.network.run.memory import place
from qconv.network.run.runner import Runner

# input, output   an array of the caller, by its number
# constant        an array that is uploaded when the network is opened, by its number
# state           an array that the launches of `setup` write when the network is opened, by its number
# arena           the memory of one run
Space = Literal["input", "output", "constant", "state", "arena"]


@dataclass(frozen=True)
class Place:
    """A place at an offset: in the arena, or in the array of this number."""

    space: Space
    number: int
    offset: int


@dataclass(frozen=True)
class Port:
    """An input or an output, in the model's order of axes. `is_counted`: rows of which the first begins with the number
    of those behind it that count."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_counted: bool = False


@dataclass(frozen=True, eq=False)
class Program:
    """A program. `places` says where an allocation lies, by its number."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    setup: tuple[Step, ...]
    steps: tuple[Step, ...]
    places: Mapping[int, Place]
    constants: tuple[bytes, ...]
    state_bytes: tuple[int, ...]
    arena_bytes: int

    def at(self, spot: Spot) -> Place:
        begin = self.places[spot.allocation]
        return Place(begin.space, begin.number, begin.offset + spot.offset)

    @cached_property
    def resident(self) -> frozenset[int]:
        """The numbers of the constants that runs read. The others are read by `setup` alone."""
        read = {number for step in self.steps for number in step.read}
        return frozenset(place.number for number in read if (place := self.places[number]).space == "constant")


def traced(
    make_runner: Callable[[TracedDevice], Runner], device: TracedDevice, inputs: Sequence[Port], wanted: Sequence[str]
) -> Program:
    """Return the program of a network, which is traced on this device. Raise Unshippable where a layer does not run on
    kernels, or where the host takes part in a run."""
    runner = make_runner(device)
    given = {port.name: device.empty(port.shape, port.dtype) for port in inputs}
    numbers = {name: _number(device, array) for name, array in given.items()}

    def run() -> dict[str, Value]:
        feeds = {name: Value(device, there=array) for name, array in given.items()}
        return runner.traced(feeds, wanted, device.launching)

    run()  # what is made once, at the first run, belongs to the setup
    first_step, first = len(device.steps), len(device.sizes)
    made = run()
    outputs = _written_whole(device, made, wanted, set(numbers.values()), first)
    steps = tuple(device.steps[first_step:])
    setup = _needed(device.steps[:first_step], {number for step in steps for number in step.read})
    return _placed(device, inputs, numbers, made, outputs, setup, steps, first)


def _number(device: TracedDevice, array: object) -> int:
    return device.spot(device.adopt("input", array)[1]).allocation


def _written_whole(
    device: TracedDevice, made: Mapping[str, Value], wanted: Sequence[str], inputs: set[int], first: int
) -> dict[str, int]:
    """Return the allocations of the outputs, in the model's order of axes. An output that is no whole allocation of its
    own in this run is copied to one."""
    found: dict[str, int] = {}
    for name in wanted:
        value = made[name]
        array = value.array if isinstance(value, Counted) else device.contiguous(value.on_device)
        if not array.size:
            raise Unshippable(f"the output {name!r} has no elements for these inputs: {tuple(array.shape)}")
        spot = device.spot(device.adopt(name, array)[1])
        is_own = spot.offset == 0 and device.sizes[spot.allocation] == array.nbytes and spot.allocation >= first
        if (
            not is_own
            or spot.allocation in inputs
            or spot.allocation in found.values()
            or device.content(spot.allocation)
        ):
            copy = device.empty(array.shape, str(array.dtype))
            device.copy(array, copy)
            spot = device.spot(device.adopt(name, copy)[1])
        found[name] = spot.allocation
    return found


def _needed(steps: Iterable[Step], read: set[int]) -> tuple[Step, ...]:
    """Return the steps whose results are read: by the allocations in `read`, or by other such steps."""
    found: list[Step] = []
    needed = set(read)
    for step in reversed(list(steps)):
        if not needed.isdisjoint(step.written):
            found.append(step)
            needed |= step.read
    return tuple(reversed(found))


def _placed(
    device: TracedDevice,
    inputs: Sequence[Port],
    numbers: Mapping[str, int],
    made: Mapping[str, Value],
    outputs: Mapping[str, int],
    setup: tuple[Step, ...],
    steps: tuple[Step, ...],
    first: int,
) -> Program:
    places = {numbers[port.name]: Place("input", at, 0) for at, port in enumerate(inputs)}
    places |= {number: Place("output", at, 0) for at, number in enumerate(outputs.values())}
    constants: list[bytes] = []
    state: list[int] = []
    written = {number for step in (*setup, *steps) for number in step.written}
    for number in sorted({number for step in (*setup, *steps) for number in step.read} - places.keys()):
        content = None if number in written else device.content(number)
        if content is not None:
            places[number] = Place("constant", len(constants), 0)
            constants.append(content)
        elif number < first:
            places[number] = Place("state", len(state), 0)
            state.append(device.sizes[number])
    arena = [number for number in range(first, len(device.sizes)) if number not in places]
    order = {number: at for at, number in enumerate(arena)}

    def until(number: int) -> int:
        """Return the end of an allocation in the numbers of those in the arena."""
        end = device.ends.get(number, len(device.sizes))
        return sum(1 for other in arena if other < end)

    placement = place(
        [
            Allocation(
                device.sizes[number],
                until(number),
                tuple(order[other] for other in device.instead_of[number] if other in order),
            )
            for number in arena
        ]
    )
    for number, offset in zip(arena, placement.offsets, strict=True):
        assert offset is not None, "every allocation of the arena has an end"
        places[number] = Place("arena", 0, offset)
    found = tuple(_port(device, name, made[name], outputs[name]) for name in outputs)
    return Program(tuple(inputs), found, setup, steps, places, tuple(constants), tuple(state), placement.arena_bytes)


def _port(device: TracedDevice, name: str, value: Value, number: int) -> Port:
    is_counted = isinstance(value, Counted)
    array = value.array if is_counted else value.on_device
    return Port(name, str(array.dtype), tuple(array.shape), is_counted)
