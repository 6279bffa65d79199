"""A segment of layers that run here, for inputs of certain shapes, as one graph of launches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from qconv.device import Device
from qconv.device.memory import Allocation, Placement
from qconv.network.last_run import LastRun
from qconv.network.memory import Memory, place
from qconv.network.value import Value

Values = Mapping[str, Value]
# A tensor's shape and type, and whether its channels are last: what a recording is bound to.
Form = tuple[tuple[int, ...], str, bool]


def forms_of(values: Values) -> tuple[Form, ...]:
    return tuple((value.shape, value.dtype, value.is_channels_last) for value in values.values())


def places_of(values: Values) -> dict[str, int]:
    """The addresses of those that lie on the device."""
    return {name: address for name, value in values.items() if (address := value.address) is not None}


class Anew(Mapping[str, Value]):
    """Values of their own for whoever asks: one that has been turned keeps what came of it, until its last reader."""

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
    """Every run reads and writes the same arrays: what is given is copied into them, and what it gives lies in them
    until the next run. What is named in `where_it_lies` is read there: who gives it elsewhere needs a recording of
    his own. `ran` tells of the layers, and keeps what the launches read of them, packed weights for one, which whoever
    prepared them may forget."""

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
        made: dict[str, Value] = {}

        def work() -> list[object]:
            made.update(run(Anew(self._given)))
            return [value.array for value in made.values()]

        arrays, self._replay = device.record(work, self._place)
        self._made = {name: value.with_array(array) for (name, value), array in zip(made.items(), arrays, strict=True)}

    def reads(self, given: Values) -> bool:
        """Whether what it reads where it lies is given there."""
        return all(given[name].address == address for name, address in self._places.items())

    def _place(self, allocations: Sequence[Allocation]) -> Placement:
        placement = place(allocations)
        self.memory = Memory.of(placement)
        return placement

    def __call__(self, given: Values) -> dict[str, Value]:
        for name, value in given.items():
            if name not in self._places:
                value.copy_into(self._given[name].array)
        self._replay()
        return {name: value.with_array(value.array) for name, value in self._made.items()}
