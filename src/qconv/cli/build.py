"""build: kernels for a device that is not here, compiled ahead."""

from __future__ import annotations

from pathlib import Path

import click

from qconv.cli.options import database_option, is_quiet, json_option, print_json, quiet_option


@click.command()
@click.argument("words", nargs=-1, metavar="[KEY|PART]...|MODEL.onnx")
@click.option(
    "--target", "targets", multiple=True, required=True, metavar="sm_90a|gfx942|cpu|...", help="What to compile for."
)
@click.option("--device", help="The name of the device, as 'NVIDIA H200'. Default: those that winners are shipped for.")
@database_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder that QCONV_PATH can name, or for a model one that a session loads. Default: the cache alone.",
)
@click.option(
    "--batch", default="1", metavar="1,32", show_default=True, help="For a model: the batches it is built for."
)
@json_option
@quiet_option
def build(
    words: tuple[str, ...],
    targets: tuple[str, ...],
    device: str | None,
    database: str | None,
    out: Path | None,
    batch: str,
    as_json: bool,
) -> None:
    """Compile what a lookup on such a device would choose: for the problems that are named by a KEY, for those that
    were tuned and whose key has a PART, or for all that an ONNX model needs, with its graph."""
    if any(word.lower().endswith(".onnx") for word in words):
        _build_model(words, targets, device, database, out, batch, as_json)
        return
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
                if not is_quiet():
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


def _build_model(
    words: tuple[str, ...],
    targets: tuple[str, ...],
    device: str | None,
    database: str | None,
    out: Path | None,
    batch: str,
    as_json: bool,
) -> None:
    if len(words) != 1 or len(targets) != 1 or out is None:
        raise ValueError("a model is built alone, for one --target, into a folder that --out names")
    batches = batch.split(",")
    if not all(one.isascii() and one.isdigit() and int(one) for one in batches):
        raise ValueError(f"--batch {batch!r} must be numbers of at least 1, with commas between them")
    try:
        from qconv.onnx import built
    except ImportError as missing:
        raise ValueError(f"a model needs onnx and onnxruntime ({missing}): pip install 'qconv-tune[onnx]'") from None
    from qconv.instances import building
    from qconv.target import target

    def watch(one: building.Built) -> None:
        click.echo(f"{one.problem}: {one.compiled} of {len(one.binaries)} compiled now", err=True)

    place = building.places(target(targets[0]), device)[0]
    count = built.build(words[0], out, place, list(map(int, batches)), database=database, watch=watch)
    document = {"problems": count, "target": place.target.name, "device": place.name, "folder": str(out)}
    if as_json:
        print_json(document)
    else:
        click.echo(f"{count} problems for {place.target.name} in {out}: qconv.onnx.Session({str(out)!r}) loads it")
