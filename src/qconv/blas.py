"""A context manager that limits NumPy's BLAS to one thread.

OpenBLAS splits the products and solutions of matrices of a hundred rows across all cores, and its threads wait for each
other. While compilers keep the cores busy, a solution of one millisecond takes a hundred. NumPy has no interface for
this."""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

# The names of OpenBLAS's functions in NumPy's wheels, and in other builds.
PREFIXES_AND_SUFFIXES = (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", ""))


@dataclass(frozen=True)
class Threads:
    """The functions that get and set the number of threads of NumPy's BLAS, in this process."""

    get: Callable[[], int]
    set: Callable[[int], object]


@lru_cache(maxsize=1)
def threads() -> Threads | None:
    """Return the thread functions of OpenBLAS, or None where NumPy uses another library."""
    extension = importlib.import_module("numpy.linalg._umath_linalg")
    if extension.__file__ is None:  # built into the interpreter
        return None
    library = ctypes.CDLL(extension.__file__)  # attribute lookup also searches the libraries that it is linked with
    for prefix, suffix in PREFIXES_AND_SUFFIXES:
        names = [f"{prefix}openblas_{verb}_num_threads{suffix}" for verb in ("get", "set")]
        if all(hasattr(library, name) for name in names):
            return Threads(*(getattr(library, name) for name in names))
    return None


class _Asked:
    """The number of active `one_thread` contexts, and the number of threads before the first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.before = 0


_asked = _Asked()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit NumPy's BLAS to one thread in the whole process, until the last such context exits."""
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
