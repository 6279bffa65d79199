"""The Python face of export: `qconv.export(problems, folder)` writes winners to ship."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal, TypeVar

from qconv.instances.library import export as sources
from qconv.instances.library import write as library
from qconv.instances.load.winners import Origin, Wanted, find
from qconv.op import Problem, check_choice, quoted

Form = Literal["sources", "library"]
Text = TypeVar("Text", bound=str)
FORMS: tuple[Form, ...] = ("sources", "library")


@dataclass(frozen=True)
class Export:
    """What was written. `files` are names below the folder; `problems` are those that the kernels serve."""

    folder: Path
    form: Form
    files: tuple[str, ...]
    problems: tuple[Problem, ...]


def export(
    problems: Problem | str | Iterable[Problem | str],
    folder: str | PathLike[str],
    *,
    form: Form = "sources",
    targets: str | Iterable[str] = (),
    origins: Origin | Iterable[Origin] = ("user",),
    device: str | None = None,
    database: str | None = None,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> Export:
    """Write the winners of problems, of keys, or of all problems whose key has a text in it; of all, if none is given.

    As `sources`: one self-contained file a kernel, a C header and a manifest with the command that compiles each. As a
    `library`: with a launcher, a C interface, a self-test and a build by CMake. `targets` are all, or those named;
    `origins` say whose winners, the first that has one giving it: of the user's database, of this package (`shipped`),
    or the cost model's `default`, for which targets must be named. `watch` hears how many kernels are compiled."""
    check_choice("form", form, FORMS)
    given = tuple(map(str, _listed(problems)))
    wanted = Wanted(_several(origins), _several(targets), given, device)
    winners = find(wanted, database)
    where = Path(folder)
    if form == "library":
        written = library.write(winners, where, watch)
        return Export(where, form, written.files, _each(entry.problem for entry in written.entries))
    kernels = sources.export(winners, where)
    return Export(where, form, tuple(sources.files_of(kernels)), _each(winner.problem for winner in winners))


def _listed(problems: Problem | str | Iterable[Problem | str]) -> list[Problem | str]:
    given = [problems] if isinstance(problems, (Problem, str)) else problems
    listed = list(given) if isinstance(given, Iterable) else [given]
    for one in listed:
        if not isinstance(one, (Problem, str)):
            raise ValueError(f"{quoted(one)} is no problem and no key of one; give [] to export the winners of all")
    return listed


def _several(given: Text | Iterable[Text]) -> tuple[Text, ...]:
    """One text is not several letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def _each(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(dict.fromkeys(problems))
