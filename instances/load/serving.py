"""`lookup`: returns the instance for a problem. It chooses a plan from the databases, loads it, and caches it for later
calls."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from qconv.device import Device, folders, open_device
from qconv.errors import CacheError, DatabaseCut, Infeasible
from qconv.generator import Config, Plan, Source
from qconv.instances.choose import Choice
from qconv.instances.choose.lookup import Place, choose
from qconv.instances.load.choice_cache import Answer, ChoiceCache
from qconv.instances.load.instance import Instance
from qconv.instances.load.pair import load
from qconv.op import Problem
from qconv.ops.registry import problem_of
from qconv.recent import Recent

if TYPE_CHECKING:
    from qconv.tune_db.layered import Layered
    from qconv.tune_db.layered import Source as Rows

log = logging.getLogger("qconv")

# Instances and choices that are remembered, and sources that wait for their lookup. Each instance has a loaded kernel.
MOST_WARM, MOST_CHOSEN, MOST_RENDERED = 1024, 8192, 512

_warm: Recent[tuple[Problem, str | None, str | None, bool], Instance] = Recent(MOST_WARM)
_caches: dict[tuple[str, ...], ChoiceCache] = {}  # by the databases
_rendered: Recent[tuple[Problem, Config, str], tuple[Source, ...]] = Recent(MOST_RENDERED)
_chosen: Recent[tuple[Problem, str, str, bool, tuple[str, ...]], Answer] = Recent(MOST_CHOSEN)

# A function that answers all lookups in its context instead of the databases.
_instead: ContextVar[Callable[[Problem], Instance] | None] = ContextVar("instead", default=None)


# True where that function looks up the default databases itself, for another device.
_looks_up: ContextVar[bool] = ContextVar("looks_up", default=False)


@contextmanager
def answered_by(answer: Callable[[Problem], Instance], looks_up: bool = False) -> Iterator[None]:
    """Answer lookups by this function within the context, without a database or cache, unless it `looks_up` the default
    ones: then it pays to choose and compile ahead."""
    tokens = _instead.set(answer), _looks_up.set(looks_up)
    try:
        yield
    finally:
        _instead.reset(tokens[0])
        _looks_up.reset(tokens[1])


def is_answered() -> bool:
    """True where a function answers lookups instead of the databases."""
    return _instead.get() is not None and not _looks_up.get()


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


def lookup(problem: Problem | str, device: str | None = None, db: str | None = None) -> Instance:
    """Return the instance for a problem or its key. It tells where it comes from. The first call opens the database and
    loads the binary; later calls are one dictionary access, until `forget()`."""
    if not isinstance(problem, Problem):
        problem = problem_of(problem)
    if (problems := _noted.get()) is not None:
        problems.append(problem)
    if (answer := _instead.get()) is not None:
        return answer(problem)
    key = problem, device, db, is_in_sequence()
    instance = _warm.get(key)
    if instance is None:
        instance = found(problem, open_device(device), db, is_in_sequence())
        _warm.keep(key, instance)
    return instance


def forget() -> None:
    """Clear the cache, so that later lookups see what was tuned in the meantime."""
    _warm.clear()
    _chosen.clear()
    _caches.clear()
    _rendered.clear()


def is_warm(problem: Problem, device: Device, in_sequence: bool) -> bool:
    """True where a lookup with the default database is answered from the cache."""
    return (problem, device.spec, None, in_sequence) in _warm


def answers(problems: Iterable[Problem], device: Place, db: str | Rows | None, in_sequence: bool) -> list[Answer]:
    """Return what lookups choose; where no kernel serves a problem, the reason. With the default databases, each is
    chosen once until `forget()`."""
    wanted = list(problems)
    if not wanted:
        return []
    if db is None:
        found = _remembered(dict.fromkeys(wanted), device, in_sequence)
    else:
        with open_layers(db, device, serves=True) as layers:
            found = {problem: _chosen_in(layers, problem, device, in_sequence) for problem in dict.fromkeys(wanted)}
    return [found[problem] for problem in wanted]


def remember(answers: Mapping[Problem, Answer], device: Place, in_sequence: bool) -> None:
    """Keep what lookups with the default databases choose, as another process found it."""
    databases = _databases()
    for problem, answer in answers.items():
        _chosen.keep((problem, device.name, device.target.name, in_sequence, databases), answer)


def unknown(problems: Iterable[Problem], device: Place, in_sequence: bool) -> list[Problem]:
    """Return the problems, each once, whose lookup would rank configs: neither in memory nor on disk."""
    wanted = dict.fromkeys(problems)
    found = _known(wanted, device, in_sequence)
    return [problem for problem in wanted if problem not in found]


def _known(problems: Iterable[Problem], device: Place, in_sequence: bool) -> dict[Problem, Answer]:
    """Return answers with the default databases, as far as they are in memory or on disk."""
    databases, found = _databases(), dict[Problem, Answer]()
    for problem in problems:
        key = problem, device.name, device.target.name, in_sequence, databases
        answer = _chosen.get(key)
        if answer is None and (answer := _cache(databases).find(problem, device, in_sequence)) is not None:
            _chosen.keep(key, answer)
        if answer is not None:
            found[problem] = answer
    return found


def _databases() -> tuple[str, ...]:
    return (*_users(), *_of_layers())


def _cache(databases: tuple[str, ...]) -> ChoiceCache:
    if databases not in _caches:
        _caches[databases] = ChoiceCache.of(databases)
    return _caches[databases]


def _remembered(problems: Iterable[Problem], device: Place, in_sequence: bool) -> dict[Problem, Answer]:
    """Return answers with the default databases: from memory, from disk, or else new ones."""
    wanted = list(problems)
    found = _known(wanted, device, in_sequence)
    new: dict[Problem, Answer] = {}
    with ExitStack() as opened:
        layers: Layered | None = None
        for problem in (problem for problem in wanted if problem not in found):
            layers = layers or opened.enter_context(open_layers(None, device, serves=True))
            new[problem] = _without_sources(_chosen_in(layers, problem, device, in_sequence))
            remember({problem: new[problem]}, device, in_sequence)
    if new:
        _cache(_databases()).add(new, device, in_sequence)
    return found | new


def _chosen_in(layers: Layered, problem: Problem, device: Place, in_sequence: bool) -> Answer:
    try:
        return choose(problem, device, layers, in_sequence)
    except Infeasible as why:
        return Infeasible(str(why))


def _without_sources(answer: Answer) -> Answer:
    """Return a choice to be remembered. Its sources are long; they wait for its first lookup."""
    if isinstance(answer, Infeasible) or answer.sources is None:
        return answer
    hand_over(answer, answer.sources)
    return replace(answer, sources=None)


def hand_over(choice: Choice, sources: Sequence[Source]) -> None:
    """Keep rendered sources for whoever loads this choice next."""
    _rendered.keep(_of_plan(choice.plan), tuple(sources))


def handed_over(choice: Choice) -> tuple[Source, ...] | None:
    """Return the sources that were rendered already, for the only time."""
    return choice.sources or _rendered.take(_of_plan(choice.plan))


def _of_plan(plan: Plan) -> tuple[Problem, Config, str]:
    return plan.problem, plan.config, plan.target.name


def default_database() -> str:
    return os.environ.get("QCONV_DB") or str(folders.cache_root() / folders.DATABASE)


def found(problem: Problem, device: Device, db: str | Rows | None, in_sequence: bool) -> Instance:
    """Look up an instance as `lookup` does, without caching it."""
    (answer,) = answers([problem], device, db, in_sequence)
    if isinstance(answer, Infeasible):
        raise Infeasible(str(answer))
    choice = replace(answer, sources=handed_over(answer))
    log.info("%s on %s: %s", problem, device.name, choice.reason)
    return Instance(choice, load(choice.plan, device, choice.toolchain, choice.sources))


@contextmanager
def open_layers(db: str | Rows | None, device: Place, *, serves: bool = False) -> Iterator[Layered]:
    """Open the user's database, if there is one, over those of the layers in QCONV_PATH, over the shipped winners. A
    database that is named must exist; one that is already open stays open. With `serves`, for a running program, a
    truncated database is skipped with a warning."""
    from qconv.instances.choose import shipped
    from qconv.tune_db.database import Database
    from qconv.tune_db.layered import Layered

    with ExitStack() as opened:
        found: list[Rows] = []

        def add(where: str | Path, **how: bool) -> None:
            try:
                found.append(opened.enter_context(Database.open(where, create=False, **how)))
            except DatabaseCut as error:
                if not serves:
                    raise
                _warn_once(f"{error}; lookups go on without its winners")

        if db is not None and not isinstance(db, str):
            found.append(db)
        else:
            for path in _users(db):
                add(path)
        for path in _of_layers():
            add(path, read_only=True)
        yield Layered([*found, shipped.layer(device.name)])


def _users(db: str | None = None) -> tuple[str, ...]:
    """Return the named database, or the user's if there is one."""
    if db is None and not has_database():
        return ()
    return (db or default_database(),)


def _of_layers() -> tuple[str, ...]:
    """Return the databases of the layers in QCONV_PATH."""
    return tuple(str(layer.database) for layer in folders.layers() if not layer.is_user and layer.database.exists())


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
