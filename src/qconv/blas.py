"""NumPy's matrices by one thread, for a while. OpenBLAS shares products and solutions of a hundred rows out over all
cores, and its threads wait for each other: where compilers keep the cores busy, a solution of a millisecond takes a
hundred. NumPy has no name for this."""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

# As NumPy's wheels rename OpenBLAS's functions, and as others build it.
PREFIXES_AND_SUFFIXES = (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", ""))


@dataclass(frozen=True)
class Threads:
    """How many the library that NumPy calls may use, in this process."""

    get: Callable[[], int]
    set: Callable[[int], object]


@lru_cache(maxsize=1)
def threads() -> Threads | None:
    """None where it is another library than OpenBLAS."""
    extension = importlib.import_module("numpy.linalg._umath_linalg")
    if extension.__file__ is None:  # built into the interpreter
        return None
    library = ctypes.CDLL(extension.__file__)  # its names are looked for in what it was linked with as well
    for prefix, suffix in PREFIXES_AND_SUFFIXES:
        names = [f"{prefix}openblas_{verb}_num_threads{suffix}" for verb in ("get", "set")]
        if all(hasattr(library, name) for name in names):
            return Threads(*(getattr(library, name) for name in names))
    return None


class _Asked:
    """How many have asked for one thread and go on, and what it was before the first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.before = 0


_asked = _Asked()


@contextmanager
def one_thread() -> Iterator[None]:
    """For the whole process, until the last who asked has ended."""
    found = threads()
    if found is None:
        yield
        return
    with _asked.lock:
        if _asked.count == 0:
            _asked.before = found.get()
            found.set(1)
        _asked.count += 1
    try:
        yield
    finally:
        with _asked.lock:
            _asked.count -= 1
            if _asked.count == 0:
                found.set(_asked.before)
