"""The entries of the cache: compiled kernels, the libraries of the CPU device, and files of remembered choices.

Only what this package has written is listed and removed, since QCONV_CACHE can name any folder. The database is no
entry: measurements cannot be made again without their device.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from qconv.device import cache, folders
from qconv.device.folders import Layer
from qconv.errors import CacheError
from qconv.instances.load import choice_cache

Kind = Literal["kernel", "library", "choices"]
HEX = "[0-9a-f]" * 32


@dataclass(frozen=True)
class Entry:
    """A kernel (a folder with its source, its binary and its record), a library of the CPU device (a file with its
    digest beside it), or a file of choices."""

    kind: Kind
    path: Path
    layer: Layer
    target: str = ""  # of a kernel, with the host of the CPU device

    @property
    def files(self) -> tuple[Path, ...]:
        if self.kind == "kernel":
            return tuple(sorted(path for path in self.path.iterdir() if path.is_file()))
        return (self.path, folders.record_of(self.path)) if self.kind == "library" else (self.path,)

    @property
    def bytes(self) -> int:
        return sum(_size_of(path) for path in self.files)

    @property
    def changed_at(self) -> datetime:
        return datetime.fromtimestamp(self.path.stat().st_mtime, UTC)

    @property
    def damage(self) -> str | None:
        """Return why the entry would not be used, or None if it is whole."""
        try:
            if self.kind == "kernel":
                cache.read(self.path, self.layer)
            elif self.kind == "choices":
                self.layer.check_all(self.path)
            elif folders.record_of(self.path).read_text() != folders.digest_of(self.path):
                return "the library's digest is not the recorded one"
        except (OSError, ValueError, CacheError) as error:
            return str(error)
        return None

    def remove(self) -> None:
        """Remove the entry, and its folders that are empty then. One that another process has removed is no error."""
        if self.kind == "kernel":
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            for path in self.files:
                path.unlink(missing_ok=True)
        for folder in self.path.parents[: self.path.parents.index(self.layer.root)]:
            with suppress(OSError):
                folder.rmdir()

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "target": self.target or None,
            "path": str(self.path),
            "bytes": self.bytes,
            "changed_at": self.changed_at.isoformat(timespec="seconds"),
            "is_user": self.layer.is_user,
        }


def entries(layer: Layer) -> Iterator[Entry]:
    """Yield the entries of a layer, in the order of their paths; none if there is no such folder."""
    root = layer.root
    for record in sorted(root.glob(f"kernels/*/{HEX}/*/{cache.RECORD}")):
        if _is_ours(record):
            yield Entry("kernel", record.parent, layer, record.parents[2].name)
    for record in sorted(root.glob(f"cpu/*{HEX}.*.sha256")):
        yield Entry("library", record.with_suffix(""), layer)
    for path in sorted(root.glob(f"{choice_cache.FOLDER}/{HEX}.jsonl")):
        yield Entry("choices", path, layer)


def _is_ours(record: Path) -> bool:
    """True for a record that `cache.publish` wrote, also a damaged one: its folder has a kernel and nothing else."""
    return all(path.name == cache.RECORD or path.stem == "kernel" for path in record.parent.iterdir())


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
