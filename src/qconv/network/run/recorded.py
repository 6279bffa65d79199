"""The last run of a network: the kernels and the shapes that its layers had.

A segment of layers that run here, for inputs of certain shapes, as one graph of launches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from qconv.device import Device
from qconv.device.memory import Allocation, Placement
from qconv.network.graph.graph import Layer, Tensor
from qconv.network.graph.served import Prepared
from qconv.network.graph.value import Value
from qconv.network.run.arrange import Arrangement, Key
from qconv.network.run.memory import Memory, place


@dataclass(frozen=True)
class Refused:
    """A layer for inputs of certain shapes that no kernel serves: it runs elsewhere."""

    why: str


@dataclass(frozen=True)
class LastRun:
    """`chosen` is by the keys of layers, `seen` by the names of tensors, `arranged` by the names of regions."""

    chosen: dict[Key, Prepared | Refused] = field(default_factory=dict)
    seen: dict[str, Tensor] = field(default_factory=dict)
    arranged: dict[str, Arrangement] = field(default_factory=dict)

    def of(self, layers: Iterable[Layer], steps: Iterable[Layer]) -> LastRun:
        """The part of it that tells of these layers, and of the steps that they were run in."""
        steps = list(steps)
        names = {name for layer in steps for name in (*layer.reads, *layer.outputs)}
        return LastRun(
            {layer.key: self.chosen[layer.key] for layer in steps},
            {name: self.seen[name] for name in names if name in self.seen},
            {layer.name: self.arranged[layer.name] for layer in layers if layer.name in self.arranged},
        )

    def again(self, part: LastRun) -> None:
        """These layers have run as they did then."""
        self.chosen.update(part.chosen)
        self.seen.update(part.seen)
        self.arranged.update(part.arranged)


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
