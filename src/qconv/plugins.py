"""Families, ops and search strategies of other packages, which name them as entry points.

The groups are `qconv.families`, `qconv.ops` and `qconv.strategies`. Nothing is looked for before a problem is planned,
a key is unknown here, or a strategy is named that is not one of this package. The module that an entry point names says
for which version of the interface it was written: `INTERFACE = 1`. `qconv.interface` has that interface.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from qconv.errors import PluginError, first_line

VERSION = 1
FAMILIES, OPS, STRATEGIES = "qconv.families", "qconv.ops", "qconv.strategies"
_WORDS = {FAMILIES: "family", OPS: "op", STRATEGIES: "search strategy"}


@lru_cache(maxsize=3)
def _entries(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by their names. Raise PluginError where two packages have the same name."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        other = found.setdefault(entry.name, entry)
        if (other.value, _package(other)) != (entry.value, _package(entry)):
            raise PluginError(
                f"the {_WORDS[group]} {entry.name!r} is in {_package(other)} and in {_package(entry)}: uninstall one"
            )
    return found


def names(group: str) -> tuple[str, ...]:
    """Return the names that other packages have, without importing these."""
    return tuple(sorted(_entries(group)))


@lru_cache(maxsize=64)
def load(group: str, name: str) -> Any:
    """Import what an entry point names. Raise PluginError, with its package, where that fails."""
    entry = _entries(group)[name]
    told = f"the {_WORDS[group]} {name!r} of {_package(entry)}"
    try:
        module = import_module(entry.module)
        made = entry.load()
    except Exception as error:
        why = f"{type(error).__name__}: {first_line(error)}"
        raise PluginError(f"{told} cannot be loaded from {entry.value} ({why}): mend or uninstall it") from error
    version = getattr(module, "INTERFACE", None)
    if version != VERSION:
        says = "does not say for which version it was written" if version is None else f"was written for {version!r}"
        raise PluginError(
            f"{told} {says}, and this is version {VERSION} of the interface: set INTERFACE = {VERSION} in "
            f"{entry.module} once it is right, or uninstall it"
        )
    return made


def loaded(group: str, kind: type[Any], own: Collection[str]) -> Mapping[str, Any]:
    """Return all objects of a group by their names, each of this type and with a name that is not one of `own`."""
    made = {}
    for name in names(group):
        told = f"the {_WORDS[group]} {name!r} of {_package(_entries(group)[name])}"
        if name in own:
            raise PluginError(f"{told} has the name of one of qconv's own: give it another, or uninstall it")
        one = made[name] = load(group, name)
        if not isinstance(one, kind) or one.name != name:
            is_one = f"is the {_WORDS[group]} {one.name!r}" if isinstance(one, kind) else f"is a {type(one).__name__}"
            raise PluginError(f"{told} {is_one}: its entry point must name a {kind.__name__} that is called {name!r}")
    return made


def roots() -> Iterator[Path]:
    """Return the folders of the packages that have a family or an op, whose sources decide what a lookup chooses."""
    entries = (entry for group in (FAMILIES, OPS) for entry in _entries(group).values())
    for package in dict.fromkeys(entry.module.partition(".")[0] for entry in entries):
        spec = find_spec(package)
        yield from map(Path, (spec.submodule_search_locations if spec is not None else None) or ())


def _package(entry: EntryPoint) -> str:
    return "a package" if entry.dist is None else f"the package {entry.dist.name} {entry.dist.version}"
