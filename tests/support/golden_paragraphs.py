"""A paragraph of a golden source, as tests/golden keeps it: its text, or shorter, as a list of constants or as the
lines in which it differs from another paragraph."""

from __future__ import annotations

import difflib
import hashlib
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

GAP = "\n\n"  # between two paragraphs
MARK = "@@ "  # begins a paragraph that is kept shorter
DECLARATION = re.compile(r"(constexpr [\w ]+ (\w+) = )(\S+)(;.*)")
VARIANT = re.compile(r"@@ ([0-9a-f]{8}) in \S+: ")
REPLACED = re.compile(r"@@ (\d+)\+(\d+)")


def identity(paragraph: str) -> str:
    return hashlib.sha256(paragraph.encode()).hexdigest()[:8]


def declarations_of(paragraphs: Iterable[str]) -> dict[str, str]:
    """Map each constant to its most frequent declaration, with `{}` for the value."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for paragraph in paragraphs:
        if lists_constants(paragraph):
            for line in paragraph.split("\n")[1:]:
                name, _, declaration = _parts(line)
                counts[name][declaration] += 1
    return {name: count.most_common(1)[0][0] for name, count in counts.items()}


def lists_constants(paragraph: str) -> bool:
    """Tell whether it is a title and the declaration of a constant on each line."""
    title, *lines = paragraph.split("\n")
    return title.startswith("// ") and lines != [] and all(map(DECLARATION.fullmatch, lines))


def short_constants(paragraph: str, declarations: Mapping[str, str]) -> str:
    """Return its title and its constants as `NAME=value`; whole lines for what is declared otherwise elsewhere."""
    title, *lines = paragraph.split("\n")
    kept = [MARK + title]
    pairs: list[str] = []
    for line in lines:
        name, value, declaration = _parts(line)
        if declarations[name] == declaration:
            pairs.append(f"{name}={value}")
        else:
            kept += [*_wrapped(pairs), line]
            pairs = []
    return "\n".join([*kept, *_wrapped(pairs)])


def short_variant(paragraph: str, written: Mapping[str, str]) -> str | None:
    """Return the lines in which it differs from the nearest paragraph of `written` (paragraph -> its file) that begins
    with the same line; None unless these are at most two thirds of its lines."""
    lines = paragraph.split("\n")
    nearest: list[str] | None = None
    for base, file in written.items():
        of_base = base.split("\n")
        if lines[0].strip("/") and of_base[0] == lines[0]:
            kept = [f"{MARK}{identity(base)} in {file}: {lines[0]}", *_replaced(of_base, lines)]
            nearest = min(nearest or kept, kept, key=len)
    return "\n".join(nearest) if nearest and 3 * len(nearest) <= 2 * len(lines) else None


def restored(kept: str, declarations: Mapping[str, str], written: Mapping[str, str]) -> str:
    """Return the paragraph that is kept so; `written` maps an identity to the paragraph."""
    title, *lines = kept.split("\n")
    if not title.startswith(MARK):
        return kept
    if variant := VARIANT.match(title):
        return _varied(written[variant[1]].split("\n"), lines)
    declared = [title.removeprefix(MARK)]
    for line in lines:
        pairs = [] if DECLARATION.fullmatch(line) else [pair.partition("=") for pair in line.split()]
        declared += [declarations[name].format(value) for name, _, value in pairs] or [line]
    return "\n".join(declared)


def _parts(line: str) -> tuple[str, str, str]:
    """Return a constant's name, its value, and its declaration with `{}` for the value."""
    declaration = DECLARATION.fullmatch(line)
    assert declaration
    before, name, value, after = declaration.groups()
    return name, value, f"{before}{{}}{after}"


def _wrapped(pairs: list[str]) -> list[str]:
    return textwrap.wrap(" ".join(pairs), 110, break_long_words=False, break_on_hyphens=False)


def _replaced(base: list[str], lines: list[str]) -> list[str]:
    """Return the lines that replace some of `base`: `@@ line+count` names those, and the new ones follow."""
    kept = []
    for tag, start, end, first, last in difflib.SequenceMatcher(None, base, lines, autojunk=False).get_opcodes():
        if tag != "equal":
            kept += [f"{MARK}{start + 1}+{end - start}", *lines[first:last]]
    return kept


def _varied(base: list[str], replaced: list[str]) -> str:
    lines: list[str] = []
    position = 0
    for line in replaced:
        if place := REPLACED.fullmatch(line):
            start = int(place[1]) - 1
            lines += base[position:start]
            position = start + int(place[2])
        else:
            lines.append(line)
    return "\n".join([*lines, *base[position:]])
