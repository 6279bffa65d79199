"""Selection of winners to export: from the user's database, the shipped winners and the cost model's defaults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from qconv import generator
from qconv.errors import Infeasible
from qconv.generator import Config
from qconv.instances.choose import shipped
from qconv.instances.load.serving import default_database, has_database
from qconv.op import Problem, check_choice
from qconv.ops.registry import is_key, parse
from qconv.targets.target import target

if TYPE_CHECKING:
    from qconv.tune_db.measurement import Measurement

Origin = Literal["user", "shipped", "default"]
ORIGINS: tuple[Origin, ...] = ("user", "shipped", "default")


@dataclass(frozen=True)
class Winner:
    """A config for a problem and a target. A default has no device and no measurement."""

    problem: Problem
    config: Config
    target: str
    origin: Origin
    device: str = ""
    toolchain: str | None = None
    digest: str | None = None
    median_us: float | None = None

    @classmethod
    def of(cls, row: Measurement, origin: Origin = "user") -> Self:
        return cls(row.problem, row.config, row.target, origin, row.device, row.toolchain, row.digest, row.median_us)

    def __str__(self) -> str:
        if self.median_us is None:
            return f"the untuned default for {self.target}"
        return f"{self.median_us:.2f} us on {self.device} ({self.target})"


@dataclass(frozen=True)
class Wanted:
    """A filter for winners. `origins` are searched in order, and the first that knows a problem provides it. `targets`,
    if given, limit the targets. `words` are keys or parts of keys of problems. `device` is a part of a device's
    name."""

    origins: tuple[Origin, ...] = ("user",)
    targets: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    device: str | None = None

    def __post_init__(self) -> None:
        for origin in self.origins:
            check_choice("origin", origin, ORIGINS)
        object.__setattr__(self, "targets", tuple(dict.fromkeys(target(name).name for name in self.targets)))
        if "default" in self.origins and not self.targets:
            raise ValueError("origin default needs a target that defaults are chosen for: give --target")

    @property
    def keys(self) -> tuple[Problem, ...]:
        return tuple(parse(word) for word in self.words if is_key(word))

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(word for word in self.words if not is_key(word))

    def takes(self, problem: Problem) -> bool:
        if not self.words:
            return True
        return problem in self.keys or any(part in str(problem) for part in self.parts)

    def takes_row(self, row: Measurement) -> bool:
        named = self.device is None or self.device.lower() in row.device.lower()
        return named and self.takes(row.problem) and (not self.targets or row.target in self.targets)


def find(wanted: Wanted, db: str | None = None) -> list[Winner]:
    """Find the wanted winners. Raises ValueError where a given key or part has none, or where there is none at all."""
    found: dict[tuple[Problem, str, str], Winner] = {}
    for origin in wanted.origins:
        if origin == "default":
            for winner in _defaults(wanted, list(found.values()), db):
                found[winner.problem, winner.target, winner.device] = winner
            continue
        for row in _rows(origin, db):
            if wanted.takes_row(row):
                found.setdefault((row.problem, row.target, row.device), Winner.of(row, origin))
    for problem in wanted.keys:
        if all(winner.problem != problem for winner in found.values()):
            raise ValueError(f"{problem} has no winner {_among(wanted)}: tune it, or add default to --origin")
    if not found:
        raise ValueError(_nothing(wanted, db))
    for part in wanted.parts:
        if not any(part in str(winner.problem) for winner in found.values()):
            raise ValueError(f"no winner {_among(wanted)} has {part!r} in its key: correct it, or leave it out")
    return list(found.values())


def _rows(origin: Origin, db: str | None) -> list[Measurement]:
    from qconv.tune_db.measurement import best_of_each

    if origin == "shipped":
        return best_of_each([row for layer in shipped.layers() for row in layer.measurements() if row.correct])
    from qconv.tune_db.database import Database

    if db is None and not has_database():
        return []
    with Database.open(db or default_database(), create=False) as rows:
        return rows.best_per_problem()


def _defaults(wanted: Wanted, found: Sequence[Winner], db: str | None) -> Iterable[Winner]:
    """Generate defaults for the problems named by key, or else for all problems that are known."""
    problems: list[Problem] = list(wanted.keys)
    if not wanted.keys or wanted.parts:
        known = [row.problem for origin in ("user", "shipped") for row in _rows(origin, db)]
        problems += [problem for problem in known if wanted.takes(problem)]
    served = {(winner.problem, winner.target) for winner in found}
    for problem in dict.fromkeys(problems):
        for name in wanted.targets:
            if (problem, name) in served:
                continue
            try:
                plan = generator.default(problem, target(name))
            except Infeasible:
                if problem in wanted.keys:
                    raise
                continue
            yield Winner(problem, plan.config, name, "default")


def _among(wanted: Wanted) -> str:
    targets = f" for {', '.join(wanted.targets)}" if wanted.targets else ""
    return f"of origin {', '.join(wanted.origins)}{targets}"


def _nothing(wanted: Wanted, db: str | None) -> str:
    """Explain an empty result. The remedy depends on whether a wider filter would find anything."""
    devices = sorted({row.device for origin in wanted.origins if origin != "default" for row in _rows(origin, db)})
    if wanted.device is not None:
        there = f"it has rows of {', '.join(devices)}: give one of those" if devices else "it has no rows: tune first"
        return f"--device {wanted.device!r}, a part of a device name, matches nothing in the database; {there}"
    if devices:
        words = f" whose key has {' or '.join(map(repr, wanted.words))}" if wanted.words else ""
        return (
            f"no winner {_among(wanted)}{words}, but there are some of {', '.join(devices)}: give another filter, or "
            "add default to --origin"
        )
    others = ", ".join(origin for origin in ORIGINS if origin not in wanted.origins)
    return f"the database has no winner to export: run qconv-tune tune first, or widen --origin ({others})"
