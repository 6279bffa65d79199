"""The command build: compiles kernels ahead, for a device that is not present."""

from __future__ import annotations

from dataclasses import dataclass
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
from qconv.op import quoted
from qconv.ops.registry import is_key

if TYPE_CHECKING:
    from qconv.instances.load.building import Built


@dataclass(frozen=True)
class Asked:
    """The arguments: what to compile, for which devices, and where to put the files."""

    words: tuple[str, ...]
    targets: tuple[str, ...]
    device: str | None
    db: str | None
    out: Path | None
    batch: str | None
    extents: tuple[str, ...]
    shapes: tuple[str, ...]
    bits: str | None
    computed: Computed
    as_json: bool

    @property
    def is_model(self) -> bool:
        return any(word.lower().endswith(".onnx") for word in self.words)

    @property
    def parts(self) -> list[str]:
        """Return the words that are no keys."""
        return [word for word in self.words if not is_key(word)]

    @property
    def batches(self) -> list[int] | None:
        """Return the batches to build a model for, or None if none are given."""
        if self.batch is None:
            return None
        return numbers_of("--batch", self.batch)


@click.command(cls=ProblemCommand)
@click.argument("words", nargs=-1, metavar="[OP|KEY|PART]...|MODEL.onnx")
@problem_or_words_options
@click.option(
    "--target",
    "targets",
    multiple=True,
    required=True,
    metavar="sm_90a|orin|gfx942|cpu|...",
    help="What to compile for.",
)
@click.option("--device", help="The name of the device, as 'NVIDIA H200'. Default: those that winners are shipped for.")
@database_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder that QCONV_PATH can name, or for a model one that a session or C++ loads. Default: the cache alone.",
)
@click.option("--batch", metavar="1-4,32", help="For a model: the batches it is built for. Default: its own, or 1.")
@click.option(
    "--extent",
    "extents",
    multiple=True,
    metavar="NAME=224-640:32",
    help="For a model: the numbers of another open extent, by its name there. Each is built with each of the others.",
)
@click.option(
    "--inputs",
    "shapes",
    multiple=True,
    metavar="X=1,3,224,224",
    help="For a model: the shapes of its inputs, with spaces between, instead of --batch and --extent. Repeat it.",
)
@click.option(
    "--bits",
    type=click.Choice(["integers", "onnxruntime"]),
    help="For a model: integer layers wherever there are kernels (default), or ONNX Runtime's bits on this processor.",
)
@floats_options
@json_option
@quiet_option
def build(**options: Any) -> None:
    """Compile the kernels that a lookup on such a device would choose. Name problems by a KEY, by an OP with its flags,
    or by a PART of the keys of tuned ones; or give an ONNX model, which is written with its graph.
    """
    asked = Asked(**options)
    if asked.is_model:
        _build_model(asked)
        return
    if asked.batch is not None:
        raise click.UsageError(f"--batch {asked.batch} belongs to a MODEL.onnx: a problem has its own n, leave it out")
    if asked.extents:
        raise click.UsageError(
            f"--extent {asked.extents[0]} belongs to a MODEL.onnx: a problem has its own, leave it out"
        )
    if asked.shapes:
        raise click.UsageError(
            f"--inputs {asked.shapes[0]} belongs to a MODEL.onnx: a problem has its own, leave it out"
        )
    if asked.bits is not None:
        raise click.UsageError(f"--bits {asked.bits} belongs to a MODEL.onnx: a problem has its own mode, leave it out")
    refuse_floats(asked.computed)
    _build_problems(asked)


def _build_problems(asked: Asked) -> None:
    from qconv.instances.load import building
    from qconv.targets.target import target

    done: list[Built] = []
    runtimes: list[Path] = []
    with interruption.telling(lambda: _so_far(done)):
        for name in asked.targets:
            runtimes += building.runtime_for(target(name))
            for place in building.places(target(name), asked.device):
                for built in building.build(asked.words, place, asked.db):
                    done.append(built)
                    _watch(built, place.name)
    missed = [part for part in asked.parts if not any(part in str(built.problem) for built in done)]
    if missed or not (done or (runtimes and asked.device is None)):
        matching = f" has {', '.join(map(quoted, missed))} in its key" if missed else " is known"
        on = "" if asked.device is None else f" on {quoted(asked.device)}"
        raise ValueError(
            f"no tuned problem of {', '.join(asked.targets)}{on}{matching}: "
            "name a problem by its key or by its op with all flags, or the device by --device"
        )
    of_arrays = [one for name in asked.targets for one in building.array_kernels_for(target(name))]
    binaries = {str(binary.path): binary for built in done for binary in built.binaries}
    copied = (*of_arrays, *binaries.values())
    files = building.copy_to(asked.out, copied, runtimes) if asked.out is not None else None
    document = {
        "problems": len(done),
        "kernels": len(binaries),
        "compiled": sum(built.compiled for built in done),
        "folder": None if asked.out is None else str(asked.out),
        "files": files,
    }
    if asked.as_json:
        print_json(document)
        return
    click.echo(f"problems: {len(done)}, kernels: {len(binaries)}, of which {document['compiled']} were compiled now")
    if asked.out is not None:
        click.echo(f"{files} files in {asked.out}: name it in QCONV_PATH")


def _build_model(asked: Asked) -> None:
    out = asked.out
    if len(asked.words) != 1 or out is None:
        raise ValueError("a model is built alone, into a folder that --out names")
    batches, extents = asked.batches, extents_of(asked.extents)
    shapes = shapes_of(asked.shapes) or None
    with needing_onnx():
        from qconv.onnx import ship

    with interruption.telling(
        lambda: f"what was compiled by then is in the cache: {interruption.again(out, 'network.txt')}"
    ):
        made = ship.build(
            asked.words[0],
            out,
            asked.targets,
            batches=batches,
            extents=extents,
            shapes=shapes,
            bits=asked.bits,
            **asked.computed,
            device=asked.device,
            db=asked.db,
            watch=lambda said: None if is_quiet() else click.echo(said, err=True),
        )
    kernels = {plan.target.name: len(plan.binaries) for plan in made.plans}
    if asked.as_json:
        print_json({"kernels": kernels, "elsewhere": list(made.elsewhere), "folder": str(out)})
        return
    for name, count in kernels.items():
        click.echo(f"{count} kernels for {name}")
    for layers in made.elsewhere:
        click.echo(f"in ONNX Runtime: {layers}")
    click.echo(f"in {out}: qconv.onnx.Session({str(out)!r}) loads it")


def _so_far(done: list[Built]) -> str:
    """Return what an interrupted build has made, and how to go on."""
    return f"{len(done)} problems are compiled, in the cache: the same command goes on"


def _watch(one: Built, device: str = "") -> None:
    if not is_quiet():
        at = f" for {device}" if device else ""
        click.echo(f"{one.problem}{at}: {one.compiled} of {len(one.binaries)} compiled now", err=True)
