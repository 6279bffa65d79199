"""The cache's folders: where they are, for which machine, and that nobody else can put a binary there.

Whoever can write into the cache can make us run anything: its folders are made for their owner alone, and what others
own or may write is refused before anything in it is read. What lies in such a folder can be trusted to say what a
binary's digest is.
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
# What a layer has of measurements.
DATABASE = "tune.sqlite"
OTHERS = stat.S_IRWXG | stat.S_IRWXO
# A folder that something is built in, and the age at which a process that was killed has left it: no compiler runs for
# a day.
BUILDING, ABANDONED_S = ".building-", 24 * 3600.0


@dataclass(frozen=True)
class Layer:
    """A folder of kernels, and perhaps of measurements: the user's own, or one that QCONV_PATH names, which is only
    read. Who names a layer trusts its owner."""

    root: Path
    is_user: bool = False

    @property
    def database(self) -> Path:
        return self.root / DATABASE

    def check_all(self, path: Path) -> None:
        """The path and the folders that it lies in, from the layer's root down."""
        owner = None if self.is_user else os.stat(self.root).st_uid
        if not check(self.root, owner) & OTHERS:
            return  # nobody else comes to what lies in it
        for each in (path, *path.parents[: path.parents.index(self.root)]):
            check(each, owner)


def cache_root() -> Path:
    """The user's layer. Raises CacheError where there is no home to have it in."""
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


# What is looked into meanwhile, and nothing else.
_only: ContextVar[tuple[Layer, ...] | None] = ContextVar("only", default=None)


@contextmanager
def only(layer: Layer) -> Iterator[None]:
    """Nothing is read but this layer, where it is entered."""
    token = _only.set((layer,))
    try:
        yield
    finally:
        _only.reset(token)


def layers() -> tuple[Layer, ...]:
    """Those that are looked into, one after the other: the user's, if there can be one, and those of QCONV_PATH."""
    if (chosen := _only.get()) is not None:
        return chosen
    named = tuple(Layer(Path(path)) for path in os.environ.get("QCONV_PATH", "").split(os.pathsep) if path)
    try:
        return (Layer(cache_root(), is_user=True), *named)
    except CacheError:
        return named


def described() -> str:
    """The layers, for a message."""
    return ", ".join(str(layer.root) for layer in layers()) or "any folder: QCONV_PATH and QCONV_CACHE name none"


@lru_cache(maxsize=1)
def machine() -> str:
    """What a host's binary depends on beside its source and its compiler: 'linux-x86_64-glibc-2.36'."""
    system = os.uname()
    libc = "CS_GNU_LIBC_VERSION"
    version = os.confstr(libc) if libc in os.confstr_names else None
    return "-".join([system.sysname, system.machine, *(version or "another libc").split()]).lower()


def make(*parts: str) -> Path:
    """The folder of the cache, made where it is missing. CacheError where it cannot be, or others may write into it."""
    folder = cache_root()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for each in (folder, *(folder.joinpath(*parts[: i + 1]) for i in range(len(parts)))):
            # Only what is taken from a mode depends on the umask.
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
    """A folder to build in, which is gone behind it, beside what is published by a rename. Those that killed processes
    have left there are removed as well."""
    with tempfile.TemporaryDirectory(prefix=BUILDING, dir=place) as folder:
        now = Path(folder).stat().st_mtime  # by the clock of the file system, which the ages of the others are of
        for left in place.glob(f"{BUILDING}*"):
            if now - _changed_at(left, now) > ABANDONED_S:
                log.info("%s was left by a process that was killed: it is removed", left)
                shutil.rmtree(left, ignore_errors=True)
        yield Path(folder)


def _changed_at(path: Path, gone: float) -> float:
    """When something was made in it last, or `gone` where another process has removed it meanwhile."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return gone


def make_last(folder: Path) -> None:
    """A folder that a caller named, but none of those above it, of which a path that is misspelled has several.
    FileNotFoundError says which is not there."""
    above = folder.parent
    if not folder.exists() and not above.exists():
        raise FileNotFoundError(f"there is no folder {above}, and only {folder.name} in it would be made: make {above}")
    folder.mkdir(exist_ok=True)


def check(path: Path, trusted: int | None = None) -> int:
    """Its mode. Raises CacheError where others than its owner may write it, or where the owner is neither this user nor
    root, who can do anything anyway, nor the one who is trusted; OSError where it is not there."""
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
    """Beside what was built, the digest of what it held then."""
    return built.with_name(f"{built.name}.sha256")


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_whole(built: Path, layer: Layer | None = None) -> bool:
    """Whether it is there as it was built: loading half of a library ends the process. Refused with CacheError where
    others could have written it."""
    try:
        for path in (built.parent, built, record_of(built)):
            check(path) if layer is None else layer.check_all(path)
        if record_of(built).read_text() == digest_of(built):
            return True
    except FileNotFoundError:
        return False
    log.warning("%s is damaged: it is not used", built)
    return False
