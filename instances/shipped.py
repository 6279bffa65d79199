"""The winners that travel in the package: one reviewable text file a device."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable

from qconv.instances.elsewhere import Elsewhere
from qconv.tune_db.text import TextLayer


def file_name(device: str) -> str:
    """'NVIDIA H200' -> 'nvidia-h200.json'."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + ".json"


@lru_cache(maxsize=16)
def layer(device: str) -> TextLayer | Elsewhere:
    """The device's own; without one, what others of its generation took."""
    path = _folder() / file_name(device)
    return TextLayer(path.read_text(), str(path)) if path.is_file() else Elsewhere(layers)


@lru_cache(maxsize=1)
def layers() -> tuple[TextLayer, ...]:
    """Those of all devices."""
    files = sorted((path for path in _folder().iterdir() if path.name.endswith(".json")), key=lambda path: path.name)
    return tuple(TextLayer(path.read_text(), str(path)) for path in files)


def _folder() -> Traversable:
    return resources.files("qconv.instances") / "shipped"
