"""The files of a repository in which bugs are planted, and the place of each bug: a rename or a move of a file does not
touch it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath

from mutants.definitions import Definition, definitions_in
from mutants.mutant import Mutant

FOLDERS = ("src", "generator", "instances", "templates", "tune_db", "tuner", "bench", "docs", "examples")
# The judges of the tests are judged themselves.
JUDGES = ("tests/repository/*.py", "tests/hostile/*.py")
SUFFIXES = (".py", ".j2", ".h", ".cpp", ".in", ".md")


def ends_of(path: PurePath) -> Iterator[str]:
    """Generate the ends of the path, any of which may name it: the whole first, the name alone last."""
    return ("/".join(path.parts[first:]) for first in range(len(path.parts)))


@dataclass(frozen=True)
class Place:
    path: PurePath  # from the repository's root
    begin: int  # of the mutant's old text in the file


class Tree:
    """Read once: mutants are found in what stood there before one was planted."""

    def __init__(self, root: Path) -> None:
        found = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES]
        found += [path for pattern in JUDGES for path in root.glob(pattern) if not path.name.startswith("test_")]
        self.texts: dict[PurePath, str] = {path.relative_to(root): path.read_text() for path in sorted(found)}
        self._definitions: dict[PurePath, list[Definition]] = {}

    def place(self, mutant: Mutant) -> Place:
        """Return the one place where the symbol's text holds the old text."""
        places = sorted(set(self._places(mutant.symbol, mutant.old)), key=lambda place: (place.path, place.begin))
        if len(places) != 1:
            where = ", ".join(f"{each.path}:{self._line_of(each)}" for each in places)
            raise ValueError(
                f"mutant {mutant.name!r}: {mutant.symbol} holds its old text {len(places)} times"
                f"{f' ({where})' if places else ''}, and must hold it once: choose it anew"
            )
        return places[0]

    def planted(self, mutant: Mutant) -> tuple[PurePath, str]:
        """Return the file and what stands in it with the bug."""
        place = self.place(mutant)
        text = self.texts[place.path]
        return place.path, text[: place.begin] + mutant.new + text[place.begin + len(mutant.old) :]

    def files_called(self, stem: str) -> list[PurePath]:
        """Return those with this name or end of a path, with or without the suffix."""
        return self._by_stem.get(stem, [])

    def _places(self, symbol: str, old: str) -> Iterator[Place]:
        own_name = re.split(r"\.|::", symbol)[-1]
        called = self.files_called(symbol)
        for path in {*called, *self._by_word.get(own_name, ())}:
            text = self.texts[path]
            if old in text:
                spans = [(0, len(text))] if path in called else self._spans(path, symbol)
                for begin, end in spans:
                    at = text.find(old, begin, end)
                    while at >= 0:
                        yield Place(path, at)
                        at = text.find(old, at + 1, end)

    def _spans(self, path: PurePath, symbol: str) -> list[tuple[int, int]]:
        names = tuple(symbol.split("." if path.suffix == ".py" else "::"))
        if path not in self._definitions:
            self._definitions[path] = definitions_in(path, self.texts[path])
        return [(one.begin, one.end) for one in self._definitions[path] if one.names[-len(names) :] == names]

    @cached_property
    def _by_stem(self) -> dict[str, list[PurePath]]:
        """A package's `__init__.py` is called as its folder."""
        found: dict[str, list[PurePath]] = {}
        for path in self.texts:
            short = path.parent if path.name == "__init__.py" else path.with_suffix("")
            for end in {*ends_of(path), *ends_of(short)}:
                found.setdefault(end, []).append(path)
        return found

    @cached_property
    def _by_word(self) -> dict[str, list[PurePath]]:
        found: dict[str, list[PurePath]] = {}
        for path, text in self.texts.items():
            for word in set(re.findall(r"\w+", text)):
                found.setdefault(word, []).append(path)
        return found

    def _line_of(self, place: Place) -> int:
        return self.texts[place.path].count("\n", 0, place.begin) + 1
