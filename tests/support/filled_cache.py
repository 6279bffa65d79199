"""A cache with one entry of each kind, compiled once per process."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch

import qconv
from qconv.device.cpu import found_runtime

KEY = "conv2d:n=1:h=3:w=3:c=4:k=4:r=1:s=1"


def fill(root: Path) -> None:
    """Put a kernel, a runtime of the CPU device and a file of choices there."""
    shutil.copytree(_filled(), root)


@lru_cache(maxsize=1)
def _filled() -> Path:
    root = Path(tempfile.mkdtemp(prefix="qconv-filled-"))
    with patch.dict(os.environ, QCONV_CACHE=str(root), QCONV_DB=str(root / "none.sqlite")):
        qconv.forget()
        found_runtime()
        qconv.lookup(KEY, "cpu")
        qconv.forget()
    return root
