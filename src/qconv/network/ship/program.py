"""A program: the launches of a network for inputs of certain shapes, and the places of everything that they read and
write."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from qconv.device.memory import Allocation
from qconv.device.traced import Spot, Step, TracedDevice
from qconv.errors import Unshippable
from qconv.network.graph.value import Counted, Value
from qconv.network.run.memory import place
from qconv.network.run.runner import Call, Runner

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


@dataclass(frozen=True)
class Made:
    """A tensor of the model that a step of a run completes, by the number of the step."""

    name: str
    is_last: bool  # whether its channels are last in memory
    step: int
    spot: Spot
    bytes: int


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
    made: tuple[Made, ...] = ()

    def at(self, spot: Spot) -> Place:
        begin = self.places[spot.allocation]
        return Place(begin.space, begin.number, begin.offset + spot.offset)

    @cached_property
    def resident(self) -> frozenset[int]:
        """The numbers of the constants that runs read. The others are read by `setup` alone."""
        places = (self.places[number] for number in read_by(self.steps))
        return frozenset(place.number for place in places if place.space == "constant")


def traced(
    make_runner: Callable[[TracedDevice], Runner],
    device: TracedDevice,
    inputs: Sequence[Port],
    wanted: Sequence[str],
    call: Call | None = None,
) -> Program:
    """Return the program of a network, which is traced on this device. `call` notes layers that run elsewhere. Raise
    Unshippable where there are such layers without it, or where the host takes part in a run otherwise."""
    runner = make_runner(device)
    given = {port.name: device.empty(port.shape, port.dtype) for port in inputs}
    numbers = {name: _number(device, array) for name, array in given.items()}

    def run(tensors: _Tensors) -> dict[str, Value]:
        feeds = {name: Value(device, there=array) for name, array in given.items()}
        return runner.traced(feeds, wanted, tensors.seen, device.launching, call)

    run(_Tensors(device))  # what is made once, at the first run, belongs to the setup
    first_step, first = len(device.steps), len(device.sizes)
    tensors = _Tensors(device)
    made = run(tensors)
    arrays = {name: _array(device, made[name]) for name in wanted}
    outputs = written_whole(device, arrays, first)
    steps = tuple(device.steps[first_step:])
    setup = _needed(device.steps[:first_step], read_by(steps))
    made_ports = tuple(
        Port(name, made[name].dtype, made[name].shape, isinstance(made[name], Counted)) for name in wanted
    )
    places = {numbers[port.name]: Place("input", at, 0) for at, port in enumerate(inputs)}
    places |= {number: Place("output", at, 0) for at, number in enumerate(outputs)}
    program = _placed(device, tuple(inputs), made_ports, places, setup, steps, first)
    return replace(
        program, made=tuple(one for one in tensors.found if program.at(one.spot).space in ("arena", "output"))
    )


class _Tensors:
    """The tensors that the steps of a run complete. One that is no array of its own, or of which the number of rows is
    known on the device alone, is none."""

    def __init__(self, device: TracedDevice) -> None:
        self.found: list[Made] = []
        self._device, self._first = device, len(device.steps)
        self._known: set[tuple[Spot, int]] = set()  # a reshaped tensor is the same bytes

    def seen(self, name: str, value: Value) -> None:
        address = None if isinstance(value, Counted) else value.address
        if address is None or not value.array.size:
            return
        place = self._device.spot(address), int(value.array.nbytes)
        if place not in self._known:
            self._known.add(place)
            step = len(self._device.steps) - self._first - 1
            self.found.append(Made(name, value.is_channels_last, step, *place))


def _number(device: TracedDevice, array: object) -> int:
    return device.spot(device.adopt("input", array)[1]).allocation


def read_by(steps: Iterable[Step]) -> set[int]:
    return {number for step in steps for number in step.read}


def _array(device: TracedDevice, value: Value) -> Any:
    """Return an output in the model's order of axes, with all its rows where they are counted."""
    return value.array if isinstance(value, Counted) else device.contiguous(value.on_device)


def written_whole(device: TracedDevice, arrays: Mapping[str, Any], first: int) -> list[int]:
    """Return the allocations of the outputs. An output that is no whole allocation of its own in this run, which began
    with the allocation of number `first`, is copied to one."""
    found: list[int] = []
    for name, array in arrays.items():
        if not array.size:
            raise Unshippable(f"the output {name!r} has no elements for these inputs: {tuple(array.shape)}")
        spot = device.spot(device.adopt(name, array)[1])
        is_own = spot.offset == 0 and device.sizes[spot.allocation] == array.nbytes and spot.allocation >= first
        if not is_own or spot.allocation in found or device.content(spot.allocation) is not None:
            copy = device.empty(array.shape, str(array.dtype))
            device.copy(array, copy)
            spot = device.spot(device.adopt(name, copy)[1])
        found.append(spot.allocation)
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
    inputs: tuple[Port, ...],
    outputs: tuple[Port, ...],
    given: Mapping[int, Place],
    setup: tuple[Step, ...],
    steps: tuple[Step, ...],
    first: int,
) -> Program:
    """Place all allocations but those of the caller's arrays, which are in `given`."""
    places = dict(given)
    constants: list[bytes] = []
    state: list[int] = []
    written = {number for step in (*setup, *steps) for number in step.written}
    for number in sorted(read_by((*setup, *steps)) - places.keys()):
        content = None if number in written else device.content(number)
        if content is not None:
            places[number] = Place("constant", len(constants), 0)
            constants.append(content)
        elif number < first:
            places[number] = Place("state", len(state), 0)
            state.append(device.sizes[number])
    arena = [number for number in range(first, len(device.sizes)) if number not in places]
    placement = place(_allocations(device, arena))
    for number, offset in zip(arena, placement.offsets, strict=True):
        assert offset is not None, "every allocation of the arena has an end"
        places[number] = Place("arena", 0, offset)
    return Program(inputs, outputs, setup, steps, places, tuple(constants), tuple(state), placement.arena_bytes)


def _allocations(device: TracedDevice, arena: Sequence[int]) -> list[Allocation]:
    """Return the allocations of an arena, whose numbers are in order, as if there were no others."""
    order = {number: at for at, number in enumerate(arena)}
    return [
        Allocation(
            device.sizes[number],
            bisect_left(arena, device.ends.get(number, len(device.sizes))),
            tuple(order[other] for other in device.instead_of[number] if other in order),
        )
        for number in arena
    ]
