"""The files with which a session opens a shipped folder where nothing can be compiled or written: what it would else
build at the first use. They are a layer of the cache, with digests of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from qconv.device import folders
from qconv.instances.load.building import array_kernels_for, copy_to
from qconv.network.ship.cpp_library import built
from qconv.network.ship.folder import LIST
from qconv.targets.target import Target

LAYER = "python"
KINDS = {"cpu": "cpu", "nvidia": "cuda", "amd": "hip"}
# Files that make this process run what they say.
CODE = (LIST, "*/kernels.*", "elsewhere/*")


def add_ready_files(folder: Path, targets: Sequence[Target]) -> None:
    kernels = [binary for target in targets for binary in array_kernels_for(target)]
    libraries = [built(kind) for kind in dict.fromkeys(KINDS[target.vendor] for target in targets)]
    copy_to(folder / LAYER, kernels, libraries)


def reading(folder: Path) -> Callable[[], AbstractContextManager[None]]:
    """Return a context within which these files alone are read, if the folder has them. Raise CacheError where other
    users could have written what the folder makes this process run."""
    owned = folders.Layer(folder)
    for pattern in CODE:
        for path in folder.glob(pattern):
            owned.check_all(path)
    layer = folders.Layer(folder / LAYER)
    return partial(folders.only, layer) if layer.root.is_dir() else nullcontext
