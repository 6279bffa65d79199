"""The content-addressed cache of compiled kernels on disk, and `Loaded`, the base class of kernels in this process.

    <root>/kernels/<target>/<digest of the text>/<toolchain and flags>/{kernel.cu, kernel.cubin, build.json}

For the CPU device, <target> includes the kind of host. The key is the digest of the whole text, comments included, and
not the source's digest: a reader finds the text in the entry, and a failing CPU kernel names a line of it.

A build is written to a temporary folder and published by one rename. There are no locks: the loser of a race uses the
winner's build. Looking a binary up needs no compiler.
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
from qconv.generator.source import text_digest
from qconv.op import quoted
from qconv.targets.target import TARGETS

log = logging.getLogger("qconv")
# The file of an entry that describes its binary.
RECORD = "build.json"


@dataclass(frozen=True)
class Binary:
    """A compiled source: its bytes, its path, and the resources of each kernel."""

    data: bytes = field(repr=False)
    path: Path
    toolchain: str
    compile_ms: float
    resources: dict[str, Resources]


@dataclass(frozen=True)
class _Build:
    """The record of a binary in build.json."""

    toolchain: str
    binary: str
    sha256: str
    compile_ms: float
    resources: dict[str, Resources]

    @classmethod
    def parse(cls, text: bytes) -> _Build:
        """Parse build.json. Raise ValueError where `publish` did not write it."""
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
    """Return the path of a source's builds relative to the root."""
    place = f"{target}-{folders.machine()}" if TARGETS[target].vendor == "cpu" else target
    return "kernels", place, text_digest(source.text)


def _slug(toolchain: str, flags: tuple[str, ...]) -> str:
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", toolchain)
    return f"{readable}-{hashlib.sha256(repr((toolchain, flags)).encode()).hexdigest()[:8]}"


def find(source: Source, target: str, toolchain: str | None = None) -> Binary | None:
    """Return a cached build of this source from the first layer that has one, by the named toolchain or by any."""
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
            (RECORD, json.dumps(build, indent=1).encode() + b"\n"),
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


def read(entry: Path, layer: Layer) -> Binary:
    """Read an entry. Raise ValueError or OSError for a damaged one (a full disk, a killed copy), and CacheError for one
    that other users could have written."""
    layer.check_all(entry / RECORD)
    build = _Build.parse((entry / RECORD).read_bytes())
    path = entry / Path(build.binary).name
    layer.check_all(path)
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != build.sha256:
        raise ValueError("the binary's digest is not the recorded one")
    return Binary(data, path, build.toolchain, build.compile_ms, build.resources)


def _read(entry: Path, layer: Layer) -> Binary | None:
    """Read an entry. A damaged one is removed from the user's layer, so that it is built again, and skipped in other
    layers."""
    try:
        return read(entry, layer)
    except (OSError, ValueError) as error:
        log.warning("the cached kernel %s is damaged (%s): it is not used", entry, error)
        if layer.is_user:
            shutil.rmtree(entry, ignore_errors=True)
        return None


class Loaded:
    def __reduce__(self) -> NoReturn:
        """Reject pickling and copy.deepcopy, also of objects that contain a kernel."""
        raise TypeError(
            "a loaded kernel cannot leave its process: pickle the problem, or its key, and look it up where it arrives"
        )
