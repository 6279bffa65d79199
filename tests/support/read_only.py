"""A folder, and a whole machine, as seen by a user who may only read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Make a path read-only for the test: neither the file nor its folder can be written; root, who could, becomes
    nobody."""
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


def python_without_disk(*known: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python with everything mounted read-only, no compiler on PATH, no HOME, as another user. `known` are the only
    environment variables."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("only root can mount, with unshare and setpriv")
    user = (
        "setpriv --reuid 65533 --regid 65533 --clear-groups --inh-caps +dac_read_search --ambient-caps +dac_read_search"
    )
    inside = f'mount --make-rprivate / && mount -o remount,ro,bind / && exec {user} env -i "$@"'
    if subprocess.run(["unshare", "-m", "sh", "-c", inside, "sh", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mounts of its own here")
    if own := os.environ.get("PYTHONPATH"):
        known = (*known, f"PYTHONPATH={own}")
    prefix = ["unshare", "-m", "sh", "-c", inside, "sh", *known, "PATH=/nonexistent", "PYTHONDONTWRITEBYTECODE=1"]

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*prefix, sys.executable, *words], capture_output=True, text=True, check=False, cwd="/")

    return run
