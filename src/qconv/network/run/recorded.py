"""Recordings: a segment of served layers, for inputs of certain shapes, as one graph of launches; and the record of a
network's last run, with the kernels and shapes of its layers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qconv.device import Device
from qconv.device.memory import Allocation, Placement
from qconv.network.graph.graph import Layer, Tensor
from qconv.network.graph.served import Prepared
from qconv.network.graph.value import Form, Value
from qconv.network.run.arrange import Arrangement, Key
from qconv.network.run.memory import Memory, place


@dataclass(frozen=True)
class Refused:
    """A layer that no kernel serves for inputs of certain shapes, so that it runs elsewhere."""

    why: str


@dataclass(frozen=True)
class LastRun:
    """The last run: `chosen` by the keys of layers, `seen` by the names of tensors, `arranged` by the names of
    regions."""

    chosen: dict[Key, Prepared | Refused] = field(default_factory=dict)
    seen: dict[str, Tensor] = field(default_factory=dict)
    arranged: dict[str, Arrangement] = field(default_factory=dict)

    def of(self, layers: Iterable[Layer], steps: Iterable[Layer]) -> LastRun:
        """Return the part about these layers, and about the steps in which they ran."""
        steps = list(steps)
        names = {name for layer in steps for name in (*layer.reads, *layer.outputs)}
        return LastRun(
            {layer.key: self.chosen[layer.key] for layer in steps},
            {name: self.seen[name] for name in names if name in self.seen},
            {layer.name: self.arranged[layer.name] for layer in layers if layer.name in self.arranged},
        )

    def again(self, part: LastRun) -> None:
        """Merge the record of layers that have run as they did then."""
        self.chosen.update(part.chosen)
        self.seen.update(part.seen)
        self.arranged.update(part.arranged)


Values = Mapping[str, Value]


def forms_of(values: Values) -> tuple[Form, ...]:
    """Return the signature of a recording."""
    return tuple(value.form for value in values.values())


def places_of(values: Values) -> dict[str, int]:
    """Return the addresses of the values on the device."""
    return {name: address for name, value in values.items() if (address := value.address) is not None}


class Anew(Mapping[str, Value]):
    """A mapping that returns fresh values, so that conversions cached in one live only until its last reader."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Value:
        value = self._values[name]
        return value.with_array(value.array)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Recorded:
    """A recording. Every run reads and writes the same arrays: inputs are copied into them, and outputs stay there
    until the next run. Inputs named in `where_it_lies` are read in place, so that other addresses need another
    recording. `ran` describes the layers and keeps alive what their launches read, such as packed weights."""

    ran: LastRun

    def __init__(
        self,
        device: Device,
        given: Values,
        run: Callable[[Values], Values],
        where_it_lies: Collection[str] = (),
    ) -> None:
        self._device = device
        self._given = {name: value if name in where_it_lies else value.copied() for name, value in given.items()}
        self._places = {name: address for name, address in places_of(given).items() if name in where_it_lies}
        self.memory = Memory()
        # The work must not hold this object, which holds the work: its memory would wait for the garbage collector.
        given, made = self._given, dict[str, Value]()

        def work() -> list[object]:
            made.update(run(Anew(given)))
            return [value.array for value in made.values()]

        arrays, self._replay = device.record(work, self._place)
        self._made = {name: value.with_array(array) for (name, value), array in zip(made.items(), arrays, strict=True)}

    def takes(self, name: str, array: Any) -> bool:
        """True where a run may be repeated with this array as it is, of the recorded shape and type."""
        if type(array) is np.ndarray:
            return name not in self._places and bool(array.flags.c_contiguous)
        address = self._device.address_here(array)
        return address is not None and self._places.get(name, address) == address

    def repeat(self, arrays: Mapping[str, Any]) -> dict[str, Value]:
        """Run with other arrays that it takes, and without their values' other forms."""
        for name, value in self._given.items():
            if name not in self._places:
                array = arrays[name]
                (self._device.write if type(array) is np.ndarray else self._device.copy)(array, value.array)
        return self._replayed()

    def _replayed(self) -> dict[str, Value]:
        """Replay, and return the outputs as fresh values."""
        self._replay()
        return {name: value.with_array(value.array) for name, value in self._made.items()}

    def reads(self, given: Values) -> bool:
        """True where the inputs that are read in place have their recorded addresses."""
        return all(given[name].address == address for name, address in self._places.items())

    def _place(self, allocations: Sequence[Allocation]) -> Placement:
        placement = place(allocations)
        self.memory = Memory.of(placement)
        return placement

    def __call__(self, given: Values) -> dict[str, Value]:
        for name, value in given.items():
            if name not in self._places:
                value.copy_into(self._given[name].array)
        return self._replayed()
