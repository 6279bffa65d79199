"""The command export: winners to ship, as sources or as a library with a C interface."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from qconv.cli.options import ProblemCommand, database_option, json_option, print_json, problem_or_words_options

if TYPE_CHECKING:
    from qconv.instances.load.winners import Wanted, Winner


@click.command(cls=ProblemCommand)
@click.argument("words", nargs=-1, metavar="[OP|KEY|PART]...")
@problem_or_words_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["sources", "library"]),
    default="sources",
    show_default=True,
    help="Sources with a manifest and a C header; or a library that launches them, built by CMake.",
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
@click.option("--device", help="Only winners of devices whose name contains this.")
@json_option
def export(
    words: tuple[str, ...],
    form: str,
    targets: tuple[str, ...],
    origins: str,
    database: str | None,
    out: Path,
    device: str | None,
    as_json: bool,
) -> None:
    """Write winners to ship: all, or those of problems named by a KEY, an OP with its flags, or a PART of keys."""
    from qconv.instances.load.winners import Wanted, find

    # `Wanted` validates the arguments.
    chosen = tuple(origin.strip() for origin in origins.split(","))
    wanted: Wanted = Wanted(chosen, targets, words, device)  # type: ignore[arg-type]
    winners = find(wanted, database)
    if form == "library":
        _write_library(winners, out, as_json)
    else:
        _write_sources(winners, out, as_json)


def _write_sources(winners: list[Winner], out: Path, as_json: bool) -> None:
    from qconv.instances.library.export import HEADER, files_of
    from qconv.instances.library.export import export as write

    kernels = write(winners, out)
    if as_json:
        print_json({"folder": str(out), "files": files_of(kernels)})
        return
    for kernel in kernels:
        click.echo(f"{out / kernel.file}  {kernel.row}  {kernel.row.problem}")
    click.echo(f"{out / HEADER}\n{out / 'manifest.json'}")


def _write_library(winners: list[Winner], out: Path, as_json: bool) -> None:
    from qconv.instances.library.write import write

    def watch(done: int, total: int) -> None:
        # Print at most ten lines.
        if done == total or 10 * done // total > 10 * (done - 1) // total:
            click.echo(f"{done} of {total} kernels compiled", err=True)

    library = write(winners, out, watch)
    if as_json:
        print_json({"folder": str(out), "files": list(library.files)})
        return
    for entry in library.entries:
        click.echo(f"{entry.problem}  {entry.served.winner}")
    click.echo(f"build it: cmake -S {out} -B {out / 'build'} && cmake --build {out / 'build'}")
