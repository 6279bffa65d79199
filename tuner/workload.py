"""A workload: the problems of a network, each with its count and its places, which are tuned as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from qconv.op import Problem

if TYPE_CHECKING:
    from qconv.tuner.sequence import Raceable

# Why a problem is tuned. layer: the network computes it. fusion: it can replace consecutive problems of the network.
# part: it is a part of a chain and is raced against the fused kernel.
Role = Literal["layer", "fusion", "part"]
_WEIGHTIEST_FIRST: tuple[Role, ...] = ("layer", "fusion", "part")


@dataclass(frozen=True)
class Entry:
    """A problem of a workload. `places` are the names of its layers in the file."""

    problem: Problem
    count: int
    places: tuple[str, ...]
    role: Role = "layer"

    def __str__(self) -> str:
        more = f" and {len(self.places) - 1} more" if len(self.places) > 1 else ""
        return f"{self.places[0]}{more}"


@dataclass(frozen=True)
class Place:
    """A layer of a file, with its problem."""

    name: str
    problem: Problem
    role: Role = "layer"


@dataclass(frozen=True)
class Refused:
    """A layer that no problem describes, with the reason."""

    place: str
    reason: str


@dataclass(frozen=True)
class Workload:
    """The distinct problems of a network, with the parts of a chain before the chain."""

    name: str
    entries: tuple[Entry, ...]
    refused: tuple[Refused, ...] = ()

    @classmethod
    def of(cls, name: str, places: Iterable[Place], refused: Iterable[Refused] = ()) -> Workload:
        """Collect the problems of a network. Equal problems form one entry. Parts of chains are entries even if no
        layer computes them alone."""
        found: dict[Problem, Entry] = {}
        for place in places:
            for part in parts_of(place.problem):
                _add(found, part, place.name, "part")
            _add(found, place.problem, place.name, place.role)
        refused = tuple(refused)
        if not found:
            why = ": give it at least one"
            if refused:
                why = f"; the first of {len(refused)} that are none, {refused[0].place}: {refused[0].reason}"
            raise ValueError(f"{name} has no convolution to tune{why}")
        return cls(name, tuple(found.values()), refused)

    @property
    def layers(self) -> tuple[Entry, ...]:
        """The problems that the network computes, in order."""
        return tuple(entry for entry in self.entries if entry.role == "layer")


class NetworkProblems(tuple[Problem, ...]):
    """The problems of a network that can be raced as a whole."""

    network: Raceable

    def __new__(cls, problems: Iterable[Problem], network: Raceable) -> NetworkProblems:
        made = super().__new__(cls, problems)
        made.network = network
        return made


def parts_of(problem: Problem) -> list[Problem]:
    """Return the parts of a problem and their parts, each before the problem that contains it."""
    return [one for part in problem.parts for one in (*parts_of(part), part)]


def _add(found: dict[Problem, Entry], problem: Problem, place: str, role: Role) -> None:
    """Add a problem. The count of a layer is that of its occurrences in the network, without those as part of a
    chain."""
    known = found.get(problem)
    if known is None:
        found[problem] = Entry(problem, 1, (place,), role)
    elif known.role == role:
        found[problem] = replace(known, count=known.count + 1, places=(*known.places, place))
    elif _WEIGHTIEST_FIRST.index(role) < _WEIGHTIEST_FIRST.index(known.role):
        found[problem] = Entry(problem, 1, (place,), role)
