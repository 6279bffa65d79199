"""Compilation for a device that is not present: fills a cache with the kernels that a lookup there would choose."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qconv import generator
from qconv.device import cache, cpu, folders
from qconv.device.cache import Binary
from qconv.device.compile import build_array_kernels, compile_source, compiler_ahead
from qconv.instances.choose import Choice, shipped
from qconv.instances.choose.lookup import choose
from qconv.instances.load.serving import open_layers
from qconv.op import Problem
from qconv.ops.registry import is_key, parse
from qconv.targets.target import Target

if TYPE_CHECKING:
    from qconv.tune_db.layered import Layered

# Readable by all users of the machine or image.
FOLDER_MODE, FILE_MODE = 0o755, 0o644


@dataclass(frozen=True)
class Place:
    """A device, by the properties that a lookup needs."""

    name: str
    target: Target


@dataclass(frozen=True)
class Built:
    """A problem's kernels. `compiled` counts those compiled now; the others were in the cache."""

    problem: Problem
    choice: Choice
    binaries: tuple[Binary, ...]
    compiled: int


def build(words: Sequence[str], place: Place, db: str | None = None) -> Iterator[Built]:
    """Compile the kernels of problems: those whose keys are given, and known problems of the device whose key contains
    one of the words."""
    with open_layers(db, place) as layers:
        for problem in _problems(words, place, layers):
            yield compiled(problem, choose(problem, place, layers), place.target)


def compiled(problem: Problem, choice: Choice, to: Target) -> Built:
    binaries, new = [], 0
    for plan in choice.plan.kernels:
        source = generator.render(plan)
        found = cache.find(source, to.name, choice.toolchain)
        if found is None:
            kernels = tuple(launch.kernel for launch in plan.launches)
            found = compile_source(source, to, kernels, compiler=compiler_ahead(to))
            new += 1
        binaries.append(found)
    return Built(problem, choice, tuple(binaries), new)


def _problems(words: Sequence[str], place: Place, layers: Layered) -> list[Problem]:
    keys = [word for word in words if is_key(word)]
    parts = [word for word in words if word not in keys]
    known = layers.problems(place.name, place.target.name) if parts or not keys else []
    found = [problem for problem in known if not parts or any(part in str(problem) for part in parts)]
    return list(dict.fromkeys([*map(parse, keys), *found]))


def check_new(folder: Path) -> None:
    """Reject a folder with files, which would be mixed with others."""
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty: give a new folder")


def places(target: Target, device: str | None) -> list[Place]:
    """Return the named device, or all devices with shipped winners for the target, or a nameless one if there are
    none."""
    if device is not None:
        return [Place(device, target)]
    rows = (row for layer in shipped.layers() for row in layer.measurements(target=target.name))
    return [Place(name, target) for name in sorted({row.device for row in rows})] or [Place("", target)]


def runtime_for(target: Target) -> list[Path]:
    """Return the runtime that a kernel of the CPU device is linked with when it is loaded."""
    if target.vendor != "cpu":
        return []
    return [cpu.found_runtime()]


def array_kernels_for(target: Target) -> list[Binary]:
    """Return the kernels that move and compare a GPU's arrays, which every problem needs."""
    return [] if target.vendor == "cpu" else [build_array_kernels(target, ahead=True)]


def copy_to(layer: Path, binaries: Iterable[Binary], runtimes: Iterable[Path]) -> int:
    """Copy the files to a folder for QCONV_PATH, readable for all users, and return their number. Existing files are
    replaced."""
    if layer.resolve() == folders.cache_root().resolve():
        raise ValueError(f"{layer} is the cache itself, which is for its user alone: give another folder")
    files = [file for binary in binaries for file in sorted(binary.path.parent.iterdir())]
    files += [file for path in runtimes for file in (path, folders.record_of(path))]
    for file in dict.fromkeys(files):
        origin = next(each.root for each in folders.layers() if file.is_relative_to(each.root))
        to = layer / file.relative_to(origin)
        to.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        shutil.copyfile(file, to)
        to.chmod(FILE_MODE)
        for folder in (to.parent, *to.parent.parents):
            if folder.is_relative_to(layer):
                folder.chmod(FOLDER_MODE)
    return len(dict.fromkeys(files))
