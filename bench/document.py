"""The form of the JSON documents that the scripts of bench write: a line per row, a line per fact of the head."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from qconv.device.folders import write_whole


def write_document(path: Path, document: dict[str, Any] | list[Any]) -> None:
    """Write `document` to `path` as a whole or not at all, compressed where the name ends in `.gz`."""
    text = _spread(document, "\n") + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, gzip.compress(text.encode(), 9, mtime=0) if path.suffix == ".gz" else text.encode())


def _spread(value: dict[str, Any] | list[Any], end: str) -> str:
    """Give each part a line; a part that has rows is spread as well, a row never is."""
    deeper = f"{end} "

    def one(part: Any) -> str:
        return _spread(part, deeper) if _has_rows(part) and not _is_rows(value) else json.dumps(part)

    if isinstance(value, list):
        return "[" + ",".join(deeper + one(part) for part in value) + end + "]"
    lines = (f"{deeper}{json.dumps(name)}: {one(part)}" for name, part in value.items())
    return "{" + ",".join(lines) + end + "}"


def _is_rows(value: Any) -> bool:
    """Tell a list of objects or lists, or an object of objects."""
    if isinstance(value, dict):
        return bool(value) and all(isinstance(part, dict) for part in value.values())
    return isinstance(value, list) and bool(value) and all(isinstance(part, dict | list) for part in value)


def _has_rows(value: Any) -> bool:
    return _is_rows(value) or (isinstance(value, dict) and any(map(_has_rows, value.values())))
