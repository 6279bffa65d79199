"""The choices of `lookup` if the measurements of some layers were unknown: how it serves an untuned network. It needs
no GPU, so the choices of an older checkout can be recorded there and timed by a newer one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from document import write_document
from workload import Layer

from qconv import Conv2d, Quantization
from qconv.generator import Config, config_from_json
from qconv.instances.choose import shipped
from qconv.instances.choose.lookup import choose
from qconv.instances.load.building import Place
from qconv.op import Problem
from qconv.tune_db.layered import Layered, Source
from qconv.tune_db.measurement import Measurement

HIDE = ("network", "own", "nothing")


@dataclass(frozen=True)
class Choice:
    config: Config
    origin: str
    reason: str

    def as_dict(self) -> dict[str, Any]:
        return {"config": self.config.as_dict(), "origin": self.origin, "reason": self.reason}


class Without:
    """A store of measurements that hides those of some problems."""

    def __init__(self, source: Source, hidden: Callable[[Problem], bool]) -> None:
        self._source = source
        self._hidden = hidden

    def measurements(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        rows = self._source.measurements(problem=problem, device=device, target=target)
        return [row for row in rows if not self._hidden(row.problem)]

    def in_sequence(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        rows = self._source.in_sequence(problem=problem, device=device, target=target)
        return [row for row in rows if not self._hidden(row.problem)]

    def best(self, problem: Problem, device: str, target: str) -> Measurement | None:
        return None if self._hidden(problem) else self._source.best(problem, device, target)

    def ranked(self, problem: Problem, device: str, target: str) -> Iterator[Measurement]:
        return iter(()) if self._hidden(problem) else self._source.ranked(problem, device, target)

    def near(self, problem: Problem, device: str, target: str, within: float) -> Iterator[tuple[float, Problem]]:
        every = self._source.near(problem, device, target, within)
        return ((far, other) for far, other in every if not self._hidden(other))

    def problems(self, device: str, target: str) -> list[Problem]:
        return [problem for problem in self._source.problems(device, target) if not self._hidden(problem)]


def geometry(problem: Conv2d) -> str:
    """Return a layer's key without its batch and its quantization."""
    return str(replace(problem, n=1, quantization=Quantization()))


def hidden_with(layers: Iterable[Layer], hide: str) -> dict[Conv2d, frozenset[str]]:
    """Return, per problem, the geometries to hide: its own, or those of all networks that include it."""
    of_network: dict[str | None, set[str]] = {}
    networks: dict[Conv2d, set[str | None]] = {}
    for layer in layers:
        of_network.setdefault(layer.model, set()).add(geometry(layer.problem))
        networks.setdefault(layer.problem, set()).add(layer.model)
    if hide == "nothing":
        return dict.fromkeys(networks, frozenset())
    if hide == "own":
        return {problem: frozenset({geometry(problem)}) for problem in networks}
    return {problem: frozenset().union(*(of_network[name] for name in names)) for problem, names in networks.items()}


def choice_without(problem: Conv2d, place: Place, hidden: frozenset[str]) -> Choice:
    """Choose by the measurements in the package."""

    def is_hidden(other: Problem) -> bool:
        return isinstance(other, Conv2d) and geometry(other) in hidden

    layers = Layered([Without(shipped.layer(place.name), is_hidden)])
    choice = choose(problem, place, layers)
    return Choice(choice.plan.config, choice.origin, choice.reason)


def write_choices(path: Path, choices: dict[str, Choice], **facts: Any) -> None:
    rows = {key: choice.as_dict() for key, choice in choices.items()}
    write_document(path, facts | {"choices": rows})


def read_choices(path: Path) -> dict[str, Choice]:
    rows = json.loads(path.read_text())["choices"]
    return {
        key: Choice(config_from_json(json.dumps(row["config"])), row["origin"], row["reason"])
        for key, row in rows.items()
    }
