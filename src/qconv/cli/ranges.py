"""Numbers of an option: single ones, and ranges with a step, with commas between them: `1,8` `1-4` `224-640:32`."""

from __future__ import annotations

import re
from collections.abc import Iterable

RANGE = re.compile(r"([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8})(?::([1-9][0-9]{0,8}))?)?", re.ASCII)
# An input's name, its extents, and the spaces before the next one.
SHAPES = re.compile(r"(\S.*?)(=[0-9]{1,9}(?:,[0-9]{1,9})*)(\s+|$)", re.ASCII)
# Numbers of one option. Each is a whole set of kernels.
MOST = 1024


def numbers_of(option: str, text: str) -> list[int]:
    """Return the numbers, each once, in the order in which they are given."""
    found: dict[int, None] = {}
    for part in text.split(","):
        match = RANGE.fullmatch(part.strip())
        first, last, step = (int(group or 0) for group in match.groups()) if match else (0, 0, 0)
        if not first or (last and last < first):
            raise ValueError(
                f"{option} {text!r} must be numbers of at least 1 or ranges such as 1-4 and 224-640:32, with commas "
                "between them"
            )
        if (max(last, first) - first) // (step or 1) >= MOST:
            raise ValueError(f"{option} {text!r} has more than {MOST} numbers: give a range with a larger step")
        found |= dict.fromkeys(range(first, max(last, first) + 1, step or 1))
    return list(found)


def shapes_of(texts: Iterable[str]) -> list[dict[str, tuple[int, ...]]]:
    """Return the shapes of inputs by their names, of texts such as `x=1,3,224,224 mask=1,224`."""
    found = []
    for text in texts:
        inputs = SHAPES.findall(text)
        if not inputs or "".join(map("".join, inputs)) != text:
            raise ValueError(
                f"--inputs {text!r} must be a name and extents for each input, such as x=1,3,224,224, with spaces "
                "between inputs"
            )
        found.append({name: tuple(map(int, extents[1:].split(","))) for name, extents, _ in inputs})
    return found


def extents_of(texts: Iterable[str]) -> dict[str, list[int]]:
    """Return the numbers of extents by their names in a model, of texts such as `height=224-640:32`."""
    found: dict[str, list[int]] = {}
    for text in texts:
        name, equals, numbers = text.rpartition("=")
        if not (equals and name) or name in found:
            raise ValueError(f"--extent {text!r} must be NAME=NUMBERS, once for each name of the model's extents")
        found[name] = numbers_of(f"--extent {name}", numbers)
    return found
