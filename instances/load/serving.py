"""`lookup`: returns the instance for a problem. It chooses a plan from the databases, loads it, and caches it for later
calls."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from qconv.device import Device, folders, open_device
from qconv.errors import CacheError, DatabaseCut
from qconv.instances.choose import Choice
from qconv.instances.choose.lookup import Place, choose
from qconv.instances.load.instance import Instance
from qconv.instances.load.pair import load
from qconv.op import Problem
from qconv.ops.registry import problem_of

if TYPE_CHECKING:
    from qconv.tune_db.layered import Layered, Source

log = logging.getLogger("qconv")

_warm: dict[tuple[Problem, str | None, str | None, bool], Instance] = {}

# Choices that were made ahead of their lookup, which takes them.
_chosen: dict[tuple[Problem, str, bool], Choice] = {}


# A function that answers all lookups in its context instead of the databases.
_instead: ContextVar[Callable[[Problem], Instance] | None] = ContextVar("instead", default=None)


@contextmanager
def answered_by(answer: Callable[[Problem], Instance]) -> Iterator[None]:
    """Answer lookups by this function within the context, without a database or cache."""
    token = _instead.set(answer)
    try:
        yield
    finally:
        _instead.reset(token)


def is_answered() -> bool:
    """True where a function answers lookups instead of the databases."""
    return _instead.get() is not None


# A list that records all problems looked up in its context.
_noted: ContextVar[list[Problem] | None] = ContextVar("noted", default=None)


@contextmanager
def noted() -> Iterator[list[Problem]]:
    """Record the problems looked up within the context, once per lookup."""
    problems: list[Problem] = []
    token = _noted.set(problems)
    try:
        yield problems
    finally:
        _noted.reset(token)


# True where the looked-up kernels run among the launches of a network.
_in_sequence: ContextVar[bool] = ContextVar("in_sequence", default=False)


@contextmanager
def in_sequence() -> Iterator[None]:
    """Prefer configs measured in sequence for lookups within the context."""
    token = _in_sequence.set(True)
    try:
        yield
    finally:
        _in_sequence.reset(token)


def is_in_sequence() -> bool:
    return _in_sequence.get()


def lookup(problem: Problem | str, device: str | None = None, database: str | None = None) -> Instance:
    """Return the instance for a problem or its key. It tells where it comes from. The first call opens the database and
    loads the binary; later calls are one dictionary access, until `forget()`."""
    if not isinstance(problem, Problem):
        problem = problem_of(problem)
    if (problems := _noted.get()) is not None:
        problems.append(problem)
    if (answer := _instead.get()) is not None:
        return answer(problem)
    key = problem, device, database, is_in_sequence()
    instance = _warm.get(key)
    if instance is None:
        instance = _warm[key] = found(problem, open_device(device), database, is_in_sequence())
    return instance


def forget() -> None:
    """Clear the cache, so that later lookups see what was tuned in the meantime."""
    _warm.clear()
    _chosen.clear()


def is_warm(problem: Problem, device: Device, in_sequence: bool) -> bool:
    """True where a lookup with the default database is answered from the cache."""
    return (problem, device.spec, None, in_sequence) in _warm


def keep(problem: Problem, device: Device, in_sequence: bool, choice: Choice) -> None:
    """Keep a choice for the next lookup with the default database."""
    _chosen[problem, device.spec, in_sequence] = choice


def kept(problem: Problem, device: Device, in_sequence: bool) -> Choice | None:
    return _chosen.get((problem, device.spec, in_sequence))


def default_database() -> str:
    return os.environ.get("QCONV_DB") or str(folders.cache_root() / folders.DATABASE)


def found(problem: Problem, device: Device, database: str | Source | None, in_sequence: bool) -> Instance:
    """Look up an instance as `lookup` does, without caching it."""
    choice = None if database is not None else _chosen.pop((problem, device.spec, in_sequence), None)
    if choice is None:
        with open_layers(database, device, serves=True) as layers:
            choice = choose(problem, device, layers, in_sequence)
    log.info("%s on %s: %s", problem, device.name, choice.reason)
    return Instance(choice, load(choice.plan, device, choice.toolchain, choice.sources))


@contextmanager
def open_layers(database: str | Source | None, device: Place, *, serves: bool = False) -> Iterator[Layered]:
    """Open the user's database, if there is one, over those of the layers in QCONV_PATH, over the shipped winners. A
    database that is named must exist; one that is already open stays open. With `serves`, for a running program, a
    truncated database is skipped with a warning."""
    from qconv.instances.choose import shipped
    from qconv.tune_db.database import Database
    from qconv.tune_db.layered import Layered

    with ExitStack() as opened:
        found: list[Source] = []

        def add(where: str | Path, **how: bool) -> None:
            try:
                found.append(opened.enter_context(Database.open(where, create=False, **how)))
            except DatabaseCut as error:
                if not serves:
                    raise
                _warn_once(f"{error}; lookups go on without its winners")

        if database is not None and not isinstance(database, str):
            found.append(database)
        elif database is not None or has_database():
            add(database or default_database())
        for layer in folders.layers():
            if not layer.is_user and layer.database.exists():
                add(layer.database, read_only=True)
        yield Layered([*found, shipped.layer(device.name)])


@lru_cache(maxsize=64)
def _warn_once(message: str) -> None:
    log.warning(message)


def has_database() -> bool:
    """True where the user has a database. Neither it nor its folder needs to exist."""
    try:
        chosen = default_database()
    except CacheError:
        return False
    return "://" in chosen or Path(chosen).exists()
