"""The choices of earlier lookups, on disk, so that a new process ranks no configs of problems that another one has
looked up.

A choice follows from its problem, its device, the measurements and this program. The name of a file of choices is a
digest of the last two, of their bytes and not of their times, so that what was tuned or edited since is never
overlooked. Each line of the file is a JSON object. Processes append whole lines; a line that is not whole is skipped.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from qconv import generator, plugins
from qconv.device import folders
from qconv.errors import CacheError, Infeasible
from qconv.generator import Expected
from qconv.instances.choose import Choice
from qconv.instances.choose.lookup import Place
from qconv.op import Problem
from qconv.targets.target import Target

log = logging.getLogger("qconv")

FOLDER = "choices"
# Files of choices that are kept: those of the last databases and programs.
MOST_FILES = 8
# A file that is larger takes no more choices.
MOST_BYTES = 2**25
# Databases that are larger together are not read to find their digest.
LARGEST_DATABASES = 2**28
OF_THE_PROGRAM = (".py", ".j2", ".json", ".h", ".cpp")
# The end of a lookup: a choice, or why there is none.
Answer = Choice | Infeasible


class ChoiceCache:
    """The choices of one program and one state of the databases. Without a path there are none, and none is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @classmethod
    def of(cls, databases: Sequence[str]) -> ChoiceCache:
        """Return the choices of lookups in these databases."""
        own, measured = _program(), contents_of(databases)
        if own is None or measured is None:
            return cls(None)
        try:
            return cls(folders.cache_root() / FOLDER / f"{hashlib.sha256(own + measured).hexdigest()[:32]}.jsonl")
        except CacheError:
            return cls(None)

    @cached_property
    def _lines(self) -> Mapping[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        try:
            if self._path is None:
                return found
            folders.Layer(folders.cache_root(), is_user=True).check_all(self._path)
            text = self._path.read_text()
        except (OSError, ValueError, CacheError):
            return found
        for line in text.splitlines():
            try:
                one = json.loads(line)
                found[one["key"]] = one
            except (ValueError, KeyError, TypeError):  # another process was killed as it wrote
                continue
        return found

    def find(self, problem: Problem, device: Place, in_sequence: bool) -> Answer | None:
        """Return the answer of an earlier lookup, or None."""
        one = self._lines.get(_key(problem, device, in_sequence))
        if one is None:
            return None
        try:
            return read(one, problem, device.target)
        except (ValueError, KeyError, TypeError) as error:
            log.warning("the choice of %s in %s is not used: %s", problem, self._path, error)
            return None

    def add(self, answers: Mapping[Problem, Answer], device: Place, in_sequence: bool) -> None:
        """Append answers, except those that are measured: a lookup finds them as fast in the database. A cache that
        cannot be written keeps none; a lookup does not fail for it."""
        lines = [
            json.dumps({"key": _key(problem, device, in_sequence)} | written(answer))
            for problem, answer in answers.items()
            if is_kept(answer)
        ]
        if self._path is None or not lines:
            return
        try:
            folder = folders.make(FOLDER)
            _without_oldest(folder, self._path)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            with os.fdopen(os.open(self._path, flags, folders.FILE_MODE), "ab", buffering=0) as file:
                if file.tell() + sum(map(len, lines)) <= MOST_BYTES:
                    file.write("".join(f"{line}\n" for line in lines).encode())
        except (OSError, CacheError) as error:
            log.info("choices are not kept: %s", error)


def _key(problem: Problem, device: Place, in_sequence: bool) -> str:
    return f"{device.name}|{device.target.name}|{'in sequence' if in_sequence else 'alone'}|{problem}"


def is_kept(answer: Answer) -> bool:
    """True for an answer that took time: what is measured is found as fast in the database."""
    return isinstance(answer, Infeasible) or answer.origin != "exact"


def read(one: Mapping[str, Any], problem: Problem, target: Target) -> Answer:
    """Return what was written. Raises ValueError, KeyError or TypeError where that is none."""
    if "infeasible" in one:
        return Infeasible(str(one["infeasible"]))
    config = generator.config_from_json(json.dumps(one["config"]))
    expected = None if one["expected"] is None else Expected(**one["expected"])
    return Choice(generator.plan(problem, config, target), one["origin"], one["reason"], expected=expected)


def written(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, Infeasible):
        return {"infeasible": str(answer)}
    return {
        "config": answer.plan.config.as_dict(),
        "origin": answer.origin,
        "reason": answer.reason,
        "expected": None if answer.expected is None else asdict(answer.expected),
    }


def _without_oldest(folder: Path, new: Path) -> None:
    """Remove the files that were written longest ago, where another one would be too many."""
    files = [path for path in folder.iterdir() if path != new]
    for path in sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)[MOST_FILES - 1 :]:
        path.unlink(missing_ok=True)


@lru_cache(maxsize=1)
def _program() -> bytes | None:
    """Return a digest of the program's own files and of those of its plugins, or None where it is not installed as
    files."""
    package = find_spec("qconv")
    if package is None:
        return None
    return digest_of([*map(Path, package.submodule_search_locations or []), *plugins.roots()])


def digest_of(roots: Iterable[Path]) -> bytes | None:
    """Return a digest of the sources and tables in folders, or None where there are none."""
    paths = [path for root in roots for path in _own_files(root)]
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.digest() if paths else None


def _own_files(root: Path) -> Iterator[Path]:
    # Folders beside `src` are reached through links.
    for folder, inner, names in os.walk(root, followlinks=True):
        inner.sort()
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(OF_THE_PROGRAM))


def contents_of(databases: Iterable[str]) -> bytes | None:
    """Return a digest of databases, or None where one is no file, or they are too large."""
    digest, size = hashlib.sha256(), 0
    for database in databases:
        for path in (Path(database), Path(f"{database}-wal")):  # what was written last is in the second file
            try:
                size += path.stat().st_size
                if size > LARGEST_DATABASES:
                    return None
                digest.update(path.read_bytes())
            except FileNotFoundError:
                if path.name.endswith("-wal"):
                    continue
                return None
            except OSError:
                return None
            digest.update(b"end of file")
    return digest.digest()
