"""The command export: winners or a network to ship, as sources or as a library with a C interface."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconv.cli import interruption
from qconv.cli.options import (
    Computed,
    ProblemCommand,
    database_option,
    floats_options,
    is_quiet,
    json_option,
    needing_onnx,
    print_json,
    problem_or_words_options,
    quiet_option,
    refuse_floats,
)
from qconv.cli.ranges import extents_of, numbers_of, shapes_of

if TYPE_CHECKING:
    from qconv.instances.load.winners import Wanted, Winner


@click.command(cls=ProblemCommand)
@click.argument("words", nargs=-1, metavar="[OP|KEY|PART]...|MODEL.onnx")
@problem_or_words_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["sources", "library", "ptx", "sass", "isa"]),
    default="sources",
    show_default=True,
    help="Sources with a manifest and a C header; the same with PTX or SASS (NVIDIA), or the instructions of AMD and "
    "the CPU (isa), beside each; or a library that launches them, built by CMake.",
)
@click.option(
    "--target", "targets", multiple=True, metavar="sm_80|h100|gfx90a|cpu|...", help="Only these. Default: all."
)
@click.option(
    "--origin",
    "origins",
    default="user",
    show_default=True,
    metavar="user,shipped,default",
    help="Whose winners: of the database, of this package, the untuned defaults. The first that has one gives it.",
)
@database_option
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder to write to.")
@click.option("--device", help="Only winners of devices whose name contains this; for a model, the name of its device.")
@click.option("--batch", metavar="1-4,32", help="For a model: the batches that it runs. Default: its own, or 1.")
@click.option(
    "--extent",
    "extents",
    multiple=True,
    metavar="NAME=224-640:32",
    help="For a model: the numbers of another open extent, by its name there. Each is run with each of the others.",
)
@click.option(
    "--inputs",
    "shapes",
    multiple=True,
    metavar="X=1,3,224,224",
    help="For a model: the shapes of its inputs, with spaces between, instead of --batch and --extent. Repeat it.",
)
@click.option(
    "--vectors/--no-vectors",
    default=None,
    help="For a model: run it here, and store its outputs for the self-test (default, without --floats), or not.",
)
@floats_options
@json_option
@quiet_option
def export(
    words: tuple[str, ...],
    form: str,
    targets: tuple[str, ...],
    origins: str,
    db: str | None,
    out: Path,
    device: str | None,
    batch: str | None,
    extents: tuple[str, ...],
    shapes: tuple[str, ...],
    vectors: bool | None,
    computed: Computed,
    as_json: bool,
) -> None:
    """Write winners to ship: all, or those of problems named by a KEY, an OP with its flags, or a PART of keys. A
    MODEL.onnx is written as a whole, with a library that opens it."""
    if any(word.lower().endswith(".onnx") for word in words):
        if len(words) != 1 or not targets or form != "library":
            raise ValueError("a model is exported alone, with --format library, for at least one --target")
        asked = AskedNetwork(words[0], out, targets, batch, extents, shapes, device, db, vectors, computed)
        _write_network(asked, as_json)
        return
    if batch is not None or extents or shapes or vectors is not None:
        raise click.UsageError("--batch, --extent, --inputs and --vectors belong to a MODEL.onnx: leave them out")
    refuse_floats(computed)
    from qconv.instances.load.winners import Wanted, find

    # `Wanted` validates the arguments.
    chosen = tuple(origin.strip() for origin in origins.split(","))
    wanted: Wanted = Wanted(chosen, targets, words, device)  # type: ignore[arg-type]
    winners = find(wanted, db)
    if form == "library":
        _write_library(winners, out, as_json)
    else:
        _write_sources(winners, out, None if form == "sources" else form, as_json)


class _Compiled:
    """The number of compiled kernels, which is printed in at most ten lines; and how to go on from there."""

    def __init__(self, out: Path) -> None:
        self._out, self._done = out, 0

    def __call__(self, done: int, total: int) -> None:
        self._done = done
        if done == total or 10 * done // total > 10 * (done - 1) // total:
            click.echo(f"{done} of {total} kernels compiled", err=True)

    def so_far(self) -> str:
        return f"{self._done} kernels are compiled, in the cache: {interruption.again(self._out, 'manifest.json')}"


def _write_sources(winners: list[Winner], out: Path, code: Any, as_json: bool) -> None:
    from qconv.instances.library.export import HEADER, export

    made = _written(out, partial(export, winners, out, code))
    lines = []
    for kernel in made.kernels:
        lines.append(f"{out / kernel.file}  {kernel.row}  {kernel.row.problem}")
        lines += [] if code is None else [str(out / kernel.code_file(code))]
    _show(out, made.files, [*lines, str(out / HEADER), str(out / "manifest.json")], as_json)


def _write_library(winners: list[Winner], out: Path, as_json: bool) -> None:
    from qconv.instances.library.write import write

    library = _written(out, partial(write, winners, out))
    lines = [f"{entry.problem}  {entry.served.winner}" for entry in library.entries]
    build = f"build it: cmake -S {out} -B {out / 'build'} && cmake --build {out / 'build'}"
    _show(out, library.files, [*lines, build], as_json)


def _written(out: Path, write: Any) -> Any:
    watch = _Compiled(out)
    with interruption.telling(watch.so_far):
        return write(watch=watch)


def _show(out: Path, files: Iterable[str], lines: Iterable[str], as_json: bool) -> None:
    if as_json:
        print_json({"folder": str(out), "files": list(files)})
    else:
        click.echo("\n".join(lines))


@dataclass(frozen=True)
class AskedNetwork:
    """The arguments for a model: its file, and for which targets and shapes it is written where."""

    model: str
    out: Path
    targets: tuple[str, ...]
    batch: str | None
    extents: tuple[str, ...]
    shapes: tuple[str, ...]
    device: str | None
    db: str | None
    vectors: bool | None
    computed: Computed


def _write_network(asked: AskedNetwork, as_json: bool) -> None:
    with needing_onnx():
        from qconv.onnx import ship

    with interruption.telling(
        lambda: f"what was compiled by then is in the cache: {interruption.again(asked.out, 'network.txt')}"
    ):
        made = ship.export(
            asked.model,
            asked.out,
            asked.targets,
            batches=None if asked.batch is None else numbers_of("--batch", asked.batch),
            extents=extents_of(asked.extents),
            shapes=shapes_of(asked.shapes) or None,
            device=asked.device,
            db=asked.db,
            vectors=asked.vectors,
            **asked.computed,
            watch=lambda said: None if is_quiet() else click.echo(said, err=True),
        )
    if as_json:
        print_json({"folder": str(asked.out), "files": list(made.files)})
        return
    for plan in made.plans:
        for program in plan.programs:
            given = ", ".join(f"{port.name} {'x'.join(map(str, port.shape))}" for port in program.inputs)
            needs = f"{len(program.steps)} launches, {program.arena_bytes} B of workspace"
            click.echo(f"{plan.target.name}: {given}: {needs}")
    click.echo(f"build it: cmake -S {asked.out} -B {asked.out / 'build'} && cmake --build {asked.out / 'build'}")
    click.echo(f"run it:   {asked.out / 'build/qconv_run'} {asked.out}")
