"""The content-addressed cache of compiled kernels.

    <root>/kernels/<target>/<digest of the text>/<toolchain and flags>/{kernel.cu, kernel.cubin, build.json}

For the CPU device, whose binaries are of one kind of host, <target> names that as well. The text is the key, comments
and all, and not the source's digest: an entry holds it for a reader, and a CPU kernel that fails names a line of it.

A build is written to a temporary folder and published by one rename: there are no locks, and the loser of a race uses
what the winner published. Finding a binary needs no compiler.

What belongs to one process: kernels that are loaded.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import math
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from qconv.device import folders
from qconv.device.binary import Resources
from qconv.device.folders import Layer, cache_root
from qconv.generator import Source
from qconv.generator.digest import text_digest
from qconv.op import quoted
from qconv.targets.target import TARGETS

log = logging.getLogger("qconv")


@dataclass(frozen=True)
class Binary:
    """A compiled source, where it lies, and what each of its kernels needs."""

    data: bytes = field(repr=False)
    path: Path
    toolchain: str
    compile_ms: float
    resources: dict[str, Resources]


@dataclass(frozen=True)
class _Build:
    """What build.json records of a binary."""

    toolchain: str
    binary: str
    sha256: str
    compile_ms: float
    resources: dict[str, Resources]

    @classmethod
    def parse(cls, text: bytes) -> _Build:
        """ValueError where `publish` did not write it."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("build.json is not JSON") from None
        build = document if isinstance(document, dict) else {}
        words = [_word(build, name) for name in ("toolchain", "binary", "sha256")]
        milliseconds, needs = build.get("compile_ms"), build.get("resources")
        if not isinstance(milliseconds, (int, float)) or isinstance(milliseconds, bool):
            raise ValueError(f"build.json says compile_ms={quoted(milliseconds)}, which is no time")
        if not 0 <= milliseconds < math.inf:
            raise ValueError(f"build.json says compile_ms={quoted(milliseconds)}, which is no time")
        if not isinstance(needs, dict):
            raise ValueError("build.json does not say what each kernel needs")
        resources = {kernel: _resources(values) for kernel, values in needs.items()}
        return cls(words[0], words[1], words[2], float(milliseconds), resources)


def _word(build: dict[str, object], name: str) -> str:
    word = build.get(name)
    if not isinstance(word, str) or not word or not word.isprintable():
        raise ValueError(f"build.json says {name}={quoted(word)}, which is no word")
    return word


def _resources(values: object) -> Resources:
    known = [field.name for field in dataclasses.fields(Resources)]
    if not isinstance(values, dict) or sorted(values) != sorted(known):
        raise ValueError(f"build.json does not say {', '.join(known)} of each kernel")
    for name, value in values.items():
        unknown = value is None and name in ("spill_bytes", "threads_max")
        if not unknown and (type(value) is not int or value < 0):
            raise ValueError(f"build.json says {name}={quoted(value)}, which is no count")
    return Resources(**values)


def _parts(source: Source, target: str) -> tuple[str, ...]:
    """The folder of a source's builds, below the root."""
    place = f"{target}-{folders.machine()}" if TARGETS[target].vendor == "cpu" else target
    return "kernels", place, text_digest(source.text)


def _slug(toolchain: str, flags: tuple[str, ...]) -> str:
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", toolchain)
    return f"{readable}-{hashlib.sha256(repr((toolchain, flags)).encode()).hexdigest()[:8]}"


def find(source: Source, target: str, toolchain: str | None = None) -> Binary | None:
    """A cached build of this source, in the first layer that has one: by the toolchain named, or else by any."""
    for layer in folders.layers():
        folder = layer.root.joinpath(*_parts(source, target))
        try:
            entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
        except OSError:
            continue
        for entry in reversed(entries):
            binary = _read(entry, layer)
            if binary is not None and toolchain in (None, binary.toolchain):
                return binary
    return None


def publish(
    source: Source,
    target: str,
    flags: tuple[str, ...],
    suffix: str,
    data: bytes,
    toolchain: str,
    compile_ms: float,
    resources: dict[str, Resources],
) -> Binary:
    folder = folders.make(*_parts(source, target))
    user = Layer(cache_root(), is_user=True)
    final = folder / _slug(toolchain, flags)
    build = {
        "toolchain": toolchain,
        "flags": flags,
        "binary": f"kernel{suffix}",
        "sha256": hashlib.sha256(data).hexdigest(),
        "compile_ms": compile_ms,
        "resources": {kernel: dataclasses.asdict(needs) for kernel, needs in resources.items()},
    }
    with folders.building(cache_root()) as temporary:
        entry = temporary / final.name
        entry.mkdir(folders.FOLDER_MODE)
        for name, content in (
            (f"kernel{source.suffix}", source.text.encode()),
            (f"kernel{suffix}", data),
            ("build.json", json.dumps(build, indent=1).encode() + b"\n"),
        ):
            (entry / name).write_bytes(content)
            (entry / name).chmod(folders.FILE_MODE)
        try:
            entry.rename(final)
        except OSError:
            published = _read(final, user) if final.exists() else None
            if published is None:
                raise
            return published
    return Binary(data, final / f"kernel{suffix}", toolchain, compile_ms, resources)


def _read(entry: Path, layer: Layer) -> Binary | None:
    """A damaged entry (a full disk, a killed copy) is removed from the user's layer, so that it is built again, and
    passed over in others; one that others could have written is refused."""
    try:
        layer.check_all(entry / "build.json")
        build = _Build.parse((entry / "build.json").read_bytes())
        path = entry / Path(build.binary).name
        layer.check_all(path)
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != build.sha256:
            raise ValueError("the binary's digest is not the recorded one")
        return Binary(data, path, build.toolchain, build.compile_ms, build.resources)
    except (OSError, ValueError) as error:
        log.warning("the cached kernel %s is damaged (%s): it is not used", entry, error)
        if layer.is_user:
            shutil.rmtree(entry, ignore_errors=True)
        return None


class Loaded:
    def __reduce__(self) -> NoReturn:
        """For pickle and copy.deepcopy, whatever it is that they come from."""
        raise TypeError(
            "a loaded kernel cannot leave its process: pickle the problem, or its key, and look it up where it arrives"
        )
