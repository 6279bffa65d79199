"""The folder of an export: a new or empty one, or one of an older export, all of whose files are replaced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from qconv.device import folders

# It lists all files of the export, itself included, so that the next export into this folder removes them.
MANIFEST = "manifest.json"


def check_free(folder: Path) -> tuple[str, ...]:
    """Return the files of an older export there. Raise ValueError for a folder that holds anything else: an export
    mixed with other files could overwrite some of them."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return ()
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file: give the name of a folder for the export")
    listed = _listed(folder / MANIFEST)
    if listed is None:
        some = ", ".join(sorted(path.name for path in folder.iterdir())[:3])
        raise ValueError(
            f"{folder} is not empty ({some}) and has no export, whose {MANIFEST} would list its files: give a new "
            "folder, or empty this one"
        )
    return listed


def replace(folder: Path, files: Mapping[str, str | bytes], manifest: dict[str, Any]) -> tuple[str, ...]:
    """Write the files and then the manifest, and remove what only an older export had. Others, such as a build of that
    export, stay. Return the names of all files written."""
    older = check_free(folder)
    names = (*files, MANIFEST)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    folders.write_whole(folder / MANIFEST, (json.dumps(manifest | {"files": names}, indent=1) + "\n").encode())
    for name in set(older) - set(names):
        path = folder / name
        path.unlink(missing_ok=True)
        for above in path.parents[: len(PurePosixPath(name).parents) - 1]:
            with suppress(OSError):
                above.rmdir()
    return names


def _listed(manifest: Path) -> tuple[str, ...] | None:
    """Return the files that a manifest lists, or None where it is none of an export, or names files elsewhere."""
    try:
        document = json.loads(manifest.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    names = document.get("files") if isinstance(document, dict) else None
    if not isinstance(names, list) or not str(document.get("format")).startswith("qconv-"):
        return None
    return tuple(names) if all(isinstance(name, str) and _is_inside(name) for name in names) else None


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and path.parts != ()
