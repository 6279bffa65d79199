"""build: kernels for a device that is not here, compiled ahead."""

from __future__ import annotations

from pathlib import Path

import click

from qconv.cli.options import database_option, json_option, print_json


@click.command()
@click.argument("words", nargs=-1, metavar="[KEY|PART]...")
@click.option(
    "--target", "targets", multiple=True, required=True, metavar="sm_90a|gfx942|cpu|...", help="What to compile for."
)
@click.option("--device", help="The name of the device, as 'NVIDIA H200'. Default: those that winners are shipped for.")
@database_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder that QCONV_PATH can name, readable for all. Default: the cache alone.",
)
@json_option
def build(
    words: tuple[str, ...],
    targets: tuple[str, ...],
    device: str | None,
    database: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compile what a lookup on such a device would choose: for the problems that are named by a KEY, or for those that
    were tuned and whose key has a PART."""
    from qconv.instances import building
    from qconv.target import target

    done = []
    runtimes: list[Path] = []
    for name in targets:
        runtimes += building.runtime_for(target(name))
        for place in building.places(target(name), device):
            for built in building.build(words, place, database):
                done.append(built)
                at = f" for {place.name}" if place.name else ""
                click.echo(f"{built.problem}{at}: {built.compiled} of {len(built.binaries)} compiled now", err=True)
    if not done and not runtimes:
        raise ValueError(
            f"no tuned problem of {', '.join(targets)} matches: name problems by keys, or the device by --device"
        )
    binaries = {str(binary.path): binary for built in done for binary in built.binaries}
    files = building.copy_to(out, binaries.values(), runtimes) if out is not None else None
    document = {
        "problems": len(done),
        "kernels": len(binaries),
        "compiled": sum(built.compiled for built in done),
        "folder": None if out is None else str(out),
        "files": files,
    }
    if as_json:
        print_json(document)
        return
    click.echo(f"{len(done)} problems, {len(binaries)} kernels, {document['compiled']} of them compiled now")
    if out is not None:
        click.echo(f"{files} files in {out}: name it in QCONV_PATH")
