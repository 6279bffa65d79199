"""A problem's canonical key, read back: `parse(str(problem)) == problem`."""

from __future__ import annotations

from qconv.op import BETWEEN, Problem, quoted
from qconv.ops import OPS


def parse(key: str) -> Problem:
    """The problem that a key names. Order and omitted defaults are free; anything unknown or given twice is refused."""
    if not isinstance(key, str):
        raise ValueError(f"{quoted(key)} is no key of a problem: give a text such as str(problem)")
    name = key.strip().partition(":")[0]
    joined = {part.strip().partition(":")[0] for part in key.split(BETWEEN)} if BETWEEN in key else set()
    alone = [op for op in OPS if not op.joins]
    takers = [op for op in OPS if op.joins and op.joins in joined] or [op for op in alone if op.name == name]
    if takers:
        return takers[0].read(key)
    known = ", ".join(op.name for op in alone)
    raise ValueError(f"the key {quoted(key)} names the op {quoted(name)}; known: {known}")


def problem_of(given: Problem | str) -> Problem:
    """The problem itself, or that of its key."""
    if isinstance(given, Problem):
        return given
    if not isinstance(given, str):
        raise ValueError(f"{quoted(given)} is no problem: give one, such as a qconv.Conv2d, or the key of one")
    return parse(given)


def is_key(word: str) -> bool:
    """A key begins with the name of an op; a part of one may begin anywhere."""
    return ":" in word and "=" not in word.partition(":")[0]
