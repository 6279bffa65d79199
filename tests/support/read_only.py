"""A folder as it is for a user who may only read it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """As for a user who may write neither the file nor its folder: root may anything, and is nobody meanwhile."""
    for each in (*path.parent.iterdir(), path.parent):
        each.chmod(0o555 if each.is_dir() else 0o444)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(NOBODY)
        yield
    finally:
        os.seteuid(user)
        path.parent.chmod(0o755)
