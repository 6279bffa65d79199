"""What every test relies on: a cache of its own, and no settings of the person who runs them."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate-golden",
        action="store_true",
        help="write tests/golden anew instead of comparing with it; then read the diff",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported. The workers of xdist and all subprocesses inherit it."""
    if hasattr(config, "workerinput"):
        return
    for name in ("QCONV_DB", "QCONV_NO_COMPILE"):
        os.environ.pop(name, None)
    os.environ["QCONV_CACHE"] = tempfile.mkdtemp(prefix="qconv-tests-")
    config.stash[CACHE] = os.environ["QCONV_CACHE"]


def pytest_unconfigure(config: pytest.Config) -> None:
    if CACHE in config.stash:
        shutil.rmtree(config.stash[CACHE], ignore_errors=True)


CACHE = pytest.StashKey[str]()
