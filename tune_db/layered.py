"""Layers of measurement sources: the user's own rows before the shipped winners."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, Self, runtime_checkable

from qconv.op import Problem
from qconv.tune_db.measurement import Measurement, kept_of, ranked


class Source(Protocol):
    """The queries that lookup makes of a store of measurements. `Database`, `TextLayer` and `Layered` implement
    them."""

    def measurements(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]: ...

    def in_sequence(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        """Return the rows measured among the launches of networks. No other query returns these."""
        ...

    def best(self, problem: Problem, device: str, target: str) -> Measurement | None: ...

    def ranked(self, problem: Problem, device: str, target: str) -> Iterator[Measurement]:
        """Generate the correct rows in the order of `measurement.ranked`. Most callers read only the first."""
        ...

    def near(self, problem: Problem, device: str, target: str, within: float) -> Iterator[tuple[float, Problem]]:
        """Generate the problems with a correct row at most `within` away, ordered by distance and then by key."""
        ...

    def problems(self, device: str, target: str) -> list[Problem]: ...


@runtime_checkable
class Closable(Protocol):
    def close(self) -> None: ...


class Layered:
    """An ordered union of sources. The first layer that has an answer gives it, even where a later one has a faster
    row.

    Measurements from this machine take precedence over those from another one.
    """

    def __init__(self, layers: Sequence[Source]) -> None:
        self.layers = tuple(layers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the layers that can be closed."""
        for layer in self.layers:
            if isinstance(layer, Closable):
                layer.close()

    def measurements(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        """Return the rows of all layers. Of rows with the same key, the first layer's is returned."""
        return _each_once(layer.measurements(problem=problem, device=device, target=target) for layer in self.layers)

    def in_sequence(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        return _each_once(layer.in_sequence(problem=problem, device=device, target=target) for layer in self.layers)

    def kept(self, problem: Problem, device: str, target: str) -> Measurement | None:
        """Return the row that the last race of a network with this problem kept, or None."""
        of_layers = (layer.in_sequence(problem=problem, device=device, target=target) for layer in self.layers)
        return next((kept for rows in of_layers if (kept := kept_of(rows)) is not None), None)

    def best(self, problem: Problem, device: str, target: str) -> Measurement | None:
        answers = (layer.best(problem, device, target) for layer in self.layers)
        return next((answer for answer in answers if answer is not None), None)

    def ranked(self, problem: Problem, device: str, target: str) -> Iterator[Measurement]:
        """Generate the ranked rows of all layers. Of rows with the same key, the first layer's is used."""
        rest = (layer.measurements(problem=problem, device=device, target=target) for layer in self.layers[1:])
        if self.layers and not any(rest):
            return self.layers[0].ranked(problem, device, target)
        return iter(ranked(self.measurements(problem=problem, device=device, target=target)))

    def near(self, problem: Problem, device: str, target: str, within: float) -> Iterator[tuple[float, Problem]]:
        layers = [layer.near(problem, device, target, within) for layer in self.layers]
        last = None
        for far, other in heapq.merge(*layers, key=lambda found: (found[0], found[1].key)):
            if other != last:
                yield far, other
            last = other

    def problems(self, device: str, target: str) -> list[Problem]:
        return sorted({problem for layer in self.layers for problem in layer.problems(device, target)}, key=str)


def _each_once(of_layers: Iterable[Iterable[Measurement]]) -> list[Measurement]:
    found: dict[tuple[str, ...], Measurement] = {}
    for rows in of_layers:
        for m in rows:
            found.setdefault(m.key, m)
    return list(found.values())
