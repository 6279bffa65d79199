"""Isolation for scripts that run with another revision's code: they must import that code, and nothing installed."""

from __future__ import annotations

import sys
from pathlib import Path


def forget_installed() -> None:
    """Remove the finders of an editable install, which would offer today's modules for names that the revision
    lacks."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]


def check(root: str) -> None:
    files = [module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "qconv"]
    strangers = [file for file in files if file and not Path(file).resolve().is_relative_to(Path(root).resolve())]
    if strangers:
        raise SystemExit(f"{strangers[0]} is imported instead of what lies in {root}")
