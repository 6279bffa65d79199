"""The folders of the cache: their places, the machine that they are for, and the rule that no other user can put a
binary there; and files and folders elsewhere that a caller named.

Anyone who can write to the cache can make this process run any code. Its folders are therefore created for their owner
only, and files that other users own or may write are rejected before they are read. A digest stored in such a folder
can be trusted.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from qconv.errors import CacheError

log = logging.getLogger("qconv")

FOLDER_MODE, FILE_MODE = 0o700, 0o600
# The file of a layer's measurements.
DATABASE = "tune.sqlite"
OTHERS = stat.S_IRWXG | stat.S_IRWXO
# The prefix of a build folder, and the age at which it counts as abandoned by a killed process: no compiler runs for a
# day.
BUILDING, ABANDONED_S = ".building-", 24 * 3600.0


@dataclass(frozen=True)
class Layer:
    """A folder of kernels, and perhaps of measurements: the user's own, or a read-only one that QCONV_PATH names.
    Naming a layer means trusting its owner."""

    root: Path
    is_user: bool = False

    @property
    def database(self) -> Path:
        return self.root / DATABASE

    def check_all(self, path: Path) -> None:
        """Check the path and its parent folders up to the layer's root."""
        owner = None if self.is_user else os.stat(self.root).st_uid
        if not check(self.root, owner) & OTHERS:
            return  # other users cannot reach anything in it
        for each in (path, *path.parents[: path.parents.index(self.root)]):
            check(each, owner)


def cache_root() -> Path:
    """Return the root of the user's layer. Raise CacheError where there is no home folder for it."""
    if chosen := os.environ.get("QCONV_CACHE"):
        return Path(chosen)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "qconv"
    try:
        return Path.home() / ".cache" / "qconv"
    except RuntimeError:
        raise CacheError(
            "this user has no home folder to keep kernels and measurements in: set QCONV_CACHE to a folder of your own"
        ) from None


# The layers to read instead of the configured ones, within `only`.
_only: ContextVar[tuple[Layer, ...] | None] = ContextVar("only", default=None)


@contextmanager
def only(layer: Layer) -> Iterator[None]:
    """Read no other layer within this context."""
    token = _only.set((layer,))
    try:
        yield
    finally:
        _only.reset(token)


def layers() -> tuple[Layer, ...]:
    """Return the layers in the order of lookup: the user's, if there can be one, then those of QCONV_PATH."""
    if (chosen := _only.get()) is not None:
        return chosen
    named = tuple(Layer(Path(path)) for path in os.environ.get("QCONV_PATH", "").split(os.pathsep) if path)
    try:
        return (Layer(cache_root(), is_user=True), *named)
    except CacheError:
        return named


def described() -> str:
    """Return the layers' roots, for a message."""
    return ", ".join(str(layer.root) for layer in layers()) or "any folder: QCONV_PATH and QCONV_CACHE name none"


@lru_cache(maxsize=1)
def machine() -> str:
    """Return the kind of host that a binary depends on, besides its source and compiler: 'linux-x86_64-glibc-2.36'."""
    system = os.uname()
    libc = "CS_GNU_LIBC_VERSION"
    version = os.confstr(libc) if libc in os.confstr_names else None
    return "-".join([system.sysname, system.machine, *(version or "another libc").split()]).lower()


def make(*parts: str) -> Path:
    """Return a folder of the cache, created if missing. Raise CacheError where that fails or other users may write to
    it."""
    folder = cache_root()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for each in (folder, *(folder.joinpath(*parts[: i + 1]) for i in range(len(parts)))):
            # The umask can only remove bits from a mode.
            each.mkdir(FOLDER_MODE, exist_ok=True)
            check(each)
    except OSError as error:
        raise CacheError(
            f"the cache cannot be made ({error}): set QCONV_CACHE to a folder that can be written, or fill one "
            "elsewhere (qconv-tune build --out) and name it in QCONV_PATH"
        ) from None
    return folder.joinpath(*parts)


@contextmanager
def building(place: Path) -> Iterator[Path]:
    """Create a temporary build folder next to where its results are published by rename. Also remove folders that
    killed processes left there."""
    with tempfile.TemporaryDirectory(prefix=BUILDING, dir=place) as folder:
        now = Path(folder).stat().st_mtime  # in the file system's clock, like the ages of the others
        for left in place.glob(f"{BUILDING}*"):
            if now - _changed_at(left, now) > ABANDONED_S:
                log.info("%s was left by a process that was killed: it is removed", left)
                shutil.rmtree(left, ignore_errors=True)
        yield Path(folder)


def _changed_at(path: Path, gone: float) -> float:
    """Return when the folder was last modified, or `gone` where another process has removed it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return gone


def make_last(folder: Path) -> None:
    """Create a folder that a caller named, but none of its parents, several of which are missing if its path is
    misspelled. Raise FileNotFoundError for a missing parent."""
    above = folder.parent
    if not folder.exists() and not above.exists():
        raise FileNotFoundError(f"there is no folder {above}, and only {folder.name} in it would be made: make {above}")
    folder.mkdir(exist_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely or leave it unchanged: a new file, written beside it, replaces it at the end.

    For a link, the file that it points to is replaced. Anything but a regular file, such as a pipe or a device, is
    written to directly, as `cp` does: replacing it would disconnect its reader."""
    try:
        target = Path(os.path.realpath(path))
        # A link in /proc may lead to a pipe, which has no path of its own; links in a loop lead to a link.
        is_new = not path.exists() and not target.is_symlink()
        if is_new or target.is_file():
            _replace(target, content)
        else:
            path.write_bytes(content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def check(path: Path, trusted: int | None = None) -> int:
    """Return the path's mode. Raise CacheError where users other than the owner may write it, or where the owner is
    neither this user, nor root (who can do anything anyway), nor `trusted`. Raise OSError where the path does not
    exist."""
    about = os.stat(path)
    us = os.geteuid()
    if about.st_uid not in (us, 0, trusted):
        rule = f"belongs to user {about.st_uid}, and this is user {us}"
        remedy = "set QCONV_CACHE to a folder of your own"
    elif about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        rule = f"has mode {stat.S_IMODE(about.st_mode):04o}: others than its owner may write there"
        remedy = f"chmod go-w {path}, if you trust what is in it, or set QCONV_CACHE to another folder"
    else:
        return about.st_mode
    raise CacheError(f"{path} {rule}, so that what it holds could be anyone's; {remedy}")


def record_of(built: Path) -> Path:
    """Return the path of the file that holds a built file's digest."""
    return built.with_name(f"{built.name}.sha256")


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_whole(built: Path, layer: Layer | None = None) -> bool:
    """True where the file exists and matches its recorded digest: loading half of a library ends the process. Raise
    CacheError where other users could have written it."""
    try:
        for path in (built.parent, built, record_of(built)):
            check(path) if layer is None else layer.check_all(path)
        if record_of(built).read_text() == digest_of(built):
            return True
    except FileNotFoundError:
        return False
    log.warning("%s is damaged: it is not used", built)
    return False
