"""The manifest of a built folder: a JSON document that is checked completely before anything in it is used.

The schema is a dataclass. A field of another type, a missing or an unknown name, and a document that was modified after
it was written are rejected.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from qconv import generator
from qconv.device import Device, folders
from qconv.errors import CacheError
from qconv.op import quoted
from qconv.ops.registry import parse
from qconv.targets.target import TARGETS

MANIFEST = "manifest.json"
AGAIN = "build it again with qconv-tune build"
# Names of the field types in messages.
WORDS = {str: "a string", int: "an integer"}

Read = TypeVar("Read", bound="Manifest")


@dataclass(frozen=True)
class Chosen:
    """The kernel that was chosen for a problem."""

    problem: str
    config: dict[str, object]
    digest: str
    reason: str

    def __post_init__(self) -> None:
        parse(self.problem)
        generator.config_from_json(json.dumps(self.config))


@dataclass(frozen=True)
class Manifest:
    """The contents of a built folder. Each kind of folder adds fields and names its schema."""

    SCHEMA: ClassVar[str]
    target: str
    choices: tuple[Chosen, ...]
    files: dict[str, str]  # digest of each file of the folder

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise ValueError(f"target={quoted(self.target)} is none that this version knows")

    def write(self, folder: Path) -> None:
        document = {"schema": self.SCHEMA, **dataclasses.asdict(self)}
        path = folder / MANIFEST
        path.write_text(json.dumps({**document, "sha256": digest_of(document)}, indent=1) + "\n")
        path.chmod(folders.FILE_MODE)

    def check_files(self, folder: Path) -> None:
        """Check that the folder has exactly these files, unmodified. Raises CacheError otherwise."""
        present = files_in(folder)
        for name in sorted({*present, *self.files}):
            if name not in present:
                raise CacheError(f"{folder} has no file {quoted(name)}, which was built: {AGAIN}")
            if name not in self.files:
                raise CacheError(f"{folder} has a file {quoted(name)} that was not built: remove it, or {AGAIN}")
            if present[name] != self.files[name]:
                raise CacheError(f"{folder}: the file {quoted(name)} is not as it was built: {AGAIN}")


def files_in(folder: Path) -> dict[str, str]:
    """Return the digest of every file except the manifest."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    return {path.relative_to(folder).as_posix(): folders.digest_of(path) for path in paths}


def digest_of(document: dict[str, Any]) -> str:
    """Return a digest of the document's content, independent of its layout."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path, kind: type[Read], device: Device) -> Read:
    """Read and check a manifest. Raises an error where it is for another target, or where a file was modified."""
    document = _document(folder, kind.SCHEMA)
    try:
        sealed = document.pop("sha256", None)
        manifest: Read = _read(kind, {name: value for name, value in document.items() if name != "schema"}, "")
        if sealed != digest_of(document):
            raise ValueError(f"its sha256={quoted(sealed)} is not that of what it says")
    except RecursionError:
        raise _damaged(folder, "it nests too deep") from None
    except ValueError as error:
        raise _damaged(folder, error) from None
    if manifest.target != device.target.name:
        raise ValueError(
            f"{folder} was built for {manifest.target}, and {device.spec} is {device.target.name}: build it with "
            f"--target {device.target.name}"
        )
    manifest.check_files(folder)
    return manifest


def _document(folder: Path, schema: str) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        # This check comes first: a folder without a manifest is not ours, whoever may write to it.
        is_file = stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_file = False
    if not is_file:
        raise ValueError(f"{folder} has no {MANIFEST}: it was not written by qconv-tune build")
    folders.Layer(folder).check_all(path)
    try:
        document = json.loads(path.read_text())
    except (ValueError, RecursionError):
        raise _damaged(folder, "it is not JSON") from None
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise ValueError(f"{path} does not have the schema {schema}: {AGAIN}")
    return document


def _damaged(folder: Path, why: object) -> ValueError:
    return ValueError(f"{folder / MANIFEST} is damaged ({why}): {AGAIN}")


def _read(kind: Any, value: object, name: str) -> Any:
    """Convert a value to this type: a dataclass, `dict[str, ...]`, a tuple, `str`, `int` or `object`."""
    parts = get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _read_fields(kind, value, name)
    if get_origin(kind) is dict:
        if not isinstance(value, dict):
            raise ValueError(f"{name}={quoted(value)} must be an object")
        return {key: _read(parts[1], one, f"{name}[{quoted(key)}]") for key, one in value.items()}
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{name}={quoted(value)} must be a list")
        kinds = [parts[0]] * len(value) if parts[-1] is Ellipsis else list(parts)
        if len(kinds) != len(value):
            raise ValueError(f"{name}={quoted(value)} must be a list of {len(kinds)}")
        return tuple(_read(one, each, f"{name}[{at}]") for at, (one, each) in enumerate(zip(kinds, value, strict=True)))
    if kind is not object and type(value) is not kind:
        raise ValueError(f"{name}={quoted(value)} must be {WORDS[kind]}")
    return value


def _read_fields(kind: Any, value: object, name: str) -> Any:
    hints = get_type_hints(kind)
    wanted = [field.name for field in dataclasses.fields(kind)]
    if not isinstance(value, dict):
        raise ValueError(f"{name}={quoted(value)} must be an object")
    has = f"{name} has" if name else "it has"
    if missing := [each for each in wanted if each not in value]:
        raise ValueError(f"{has} no {missing[0]}")
    if others := [each for each in value if each not in wanted]:
        raise ValueError(f"{has} {quoted(others[0])}, which nothing reads")
    return kind(**{each: _read(hints[each], value[each], f"{name}.{each}" if name else each) for each in wanted})
