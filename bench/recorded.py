"""Spaces whose configs were all timed, or a random part of them: files in Kernel Tuner's cache format, gzipped.

Kernel Tuner has one list of parameters, but each family of kernels has its own fields. So `family` is a parameter, and
the fields of a family are parameters prefixed with its name, which are -1 in configs of other families. Configs without
an entry are outside the space: those that the generator refuses (Kernel Tuner calls that restrictions), and in a part
of a space those that were not drawn. A config that did not compile is a CompilationFailedConfig; one that did not run,
or differed from the oracle, is a RuntimeFailedConfig. Times are milliseconds, as in Kernel Tuner.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from document import write_document

from qconv import generator, parse
from qconv.generator import Config, Plan
from qconv.op import Problem
from qconv.targets.target import target as target_of
from qconv.tune_db.measurement import Measurement

SUFFIX = ".json.gz"
OTHER_FAMILY = -1  # value of a field that the config's family does not have
FAILURES = {"compile": "CompilationFailedConfig"}  # by outcome; every other one is
RAN_WRONG = "RuntimeFailedConfig"


@dataclass
class RecordedSpace:
    """A recorded space. `about` is the file's metadata: where and how it was measured, and the number of configs."""

    problem: Problem
    device: str
    target: str
    times_us: dict[Config, float | None] = field(default_factory=dict)  # None: it failed
    failures: dict[Config, str] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)

    def add(self, row: Measurement) -> None:
        self.times_us[row.config] = row.median_us
        if row.median_us is None:
            self.failures[row.config] = FAILURES.get(row.outcome, RAN_WRONG)

    @property
    def best_us(self) -> float:
        return min(time for time in self.times_us.values() if time is not None)

    def plans(self) -> list[Plan]:
        """Return the recorded plans, cheapest first, without configs that today's generator refuses."""
        plans, _ = generator.space(self.problem, target_of(self.target))
        return [plan for plan in plans if plan.config in self.times_us]


def parameters(space: RecordedSpace) -> dict[str, list[Any]]:
    """Return the parameters' names and choices in Kernel Tuner's form, for the families that have a feasible config."""
    used = {config.family for config in space.times_us}
    families = {name: one for name, one in generator.families(space.problem).items() if name in used}
    named: dict[str, list[Any]] = {"family": list(families)}
    for name, family in families.items():
        others = [OTHER_FAMILY] if len(families) > 1 else []
        named |= {f"{name}_{one}": [*others, *values] for one, values in family.choices.items()}
    return named


def values_of(config: Config, names: list[str]) -> dict[str, Any]:
    given = {name if name == "family" else f"{config.family}_{name}": value for name, value in config.as_dict().items()}
    return {name: given.get(name, OTHER_FAMILY) for name in names}


def config_of(values: dict[str, Any]) -> Config:
    """Return the config of a row. Fields of `halo_split` begin as those of `halo` do."""
    prefix = f"{values['family']}_"
    given = {name: value for name, value in values.items() if value != OTHER_FAMILY}
    own = {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}
    return generator.config_from_json(json.dumps({"family": values["family"]} | own))


def write(path: Path, space: RecordedSpace) -> None:
    """Write the space. The same space gives the same bytes: the file contains no time of writing."""
    named = parameters(space)
    names = list(named)
    cache = {}
    for config, time_us in space.times_us.items():
        values = values_of(config, names)
        if time_us is None:
            said = space.failures.get(config, RAN_WRONG)
            found: dict[str, Any] = {"time": said, "__error__": said}
        else:
            found = {"time": float(f"{time_us / 1e3:.4g}")}
        cache[",".join(str(value) for value in values.values())] = values | found
    document = {
        "device_name": space.device,
        "kernel_name": space.problem.op,
        "problem_size": list(space.problem.outputs[0].shape),
        "tune_params_keys": names,
        "tune_params": named,
        "objective": "time",
        "problem": str(space.problem),
        "target": space.target,
        "about": space.about,
        "cache": dict(sorted(cache.items())),
    }
    write_document(path, document)


def document_of(path: Path) -> dict[str, Any]:
    """Return the document as Kernel Tuner would read it, once unpacked."""
    document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return document


def read(path: Path) -> RecordedSpace:
    document = document_of(path)
    space = RecordedSpace(
        parse(document["problem"]), document["device_name"], document["target"], about=document["about"]
    )
    for values in document["cache"].values():
        config = config_of(values)
        failed = "__error__" in values
        space.times_us[config] = None if failed else values["time"] * 1e3
        if failed:
            space.failures[config] = values["__error__"]
    return space
