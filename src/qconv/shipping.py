"""The Python interface of export: `qconv.export(problems, folder)` writes winners as sources or as a library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal, TypeVar, get_args

from qconv.device.disassembly import Form as Code
from qconv.instances.library import export as sources
from qconv.instances.library import write as library
from qconv.instances.load.winners import Origin, Wanted, find
from qconv.op import Problem, check_choice, quoted

Form = Literal["sources", "library"] | Code
Text = TypeVar("Text", bound=str)
FORMS: tuple[Form, ...] = ("sources", "library", *get_args(Code))


@dataclass(frozen=True)
class Export:
    """The result of an export: `files` are names relative to the folder, `problems` are those that the kernels
    serve."""

    folder: Path
    form: Form
    files: tuple[str, ...]
    problems: tuple[Problem, ...]

    def __repr__(self) -> str:
        return f"<Export: {len(self.files)} files as {self.form} in {self.folder}, of {len(self.problems)} problems>"


def export(
    problems: Problem | str | Iterable[Problem | str],
    folder: str | PathLike[str],
    *,
    form: Form = "sources",
    targets: str | Iterable[str] = (),
    origins: Origin | Iterable[Origin] = ("user",),
    device: str | None = None,
    db: str | None = None,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> Export:
    """Write the winners of problems, of keys, or of all problems whose key contains a text; of all problems, if none is
    given.

    The form `sources` writes one self-contained file per kernel, a C header, and a manifest with the compile command of
    each. The forms `ptx`, `sass` (of NVIDIA) and `isa` (of AMD and the CPU) add the text of each compiled kernel. The
    form `library` adds a launcher, a C interface, a self-test and a CMake build. `targets` limits the export to these,
    named as architectures or as GPUs ("sm_87", "orin"). `origins` lists where winners come from, in order of
    preference: the user's database, this package (`shipped`), or the cost model's `default`, which requires named
    targets. `watch` is called with the numbers of compiled and of all kernels."""
    check_choice("form", form, FORMS)
    given = tuple(map(str, _listed(problems)))
    wanted = Wanted(_several(origins), _several(targets), given, device)
    winners = find(wanted, db)
    where = Path(folder)
    if form == "library":
        written = library.write(winners, where, watch)
        return Export(where, form, written.files, _each(entry.problem for entry in written.entries))
    code = None if form == "sources" else form
    made = sources.export(winners, where, code, watch)
    return Export(where, form, made.files, _each(winner.problem for winner in winners))


def _listed(problems: Problem | str | Iterable[Problem | str]) -> list[Problem | str]:
    given = [problems] if isinstance(problems, (Problem, str)) else problems
    listed = list(given) if isinstance(given, Iterable) else [given]
    for one in listed:
        if not isinstance(one, (Problem, str)):
            raise ValueError(f"{quoted(one)} is no problem and no key of one; give [] to export the winners of all")
    return listed


def _several(given: Text | Iterable[Text]) -> tuple[Text, ...]:
    """Treat one text as one item, not as its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def _each(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(dict.fromkeys(problems))
