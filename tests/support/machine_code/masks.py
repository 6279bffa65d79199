"""The knowledge of EXEC and of the scalar registers that store lane masks, without their values.

There is one kind of fact: a set of masks that together include every lane that the wave began with. `s_and_saveexec`
saves EXEC, and a whole mask is whole in its new place; `s_or` of two masks that together have every lane restores them
all; a loop moves lanes from EXEC (`s_andn2`) into another mask, so that both together stay whole. A loop that contains
a two-sided branch needs three masks: the lanes of either side, and those that have left the loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

Mask = tuple[str, ...]  # the 32-bit registers of the mask
Fact = frozenset[Mask]

RANGE = re.compile(r"^s\[(\d+):(\d+)\]$")
SCALAR = re.compile(r"^(s\d+|s\[\d+:\d+\]|vcc|vcc_lo|vcc_hi|exec|exec_lo|exec_hi|ttmp\d+|m0)$")
LANE = re.compile(r"^\d+$")
NUMBER = re.compile(r"\d+$")
BEFORE: Mask = ("what an operand was before",)
ONES: Fact = frozenset({("-1",)})
MOST = 3  # masks per fact; facts that need more are unknown, and so refused

# The result of a bitwise instruction on masks a and b; names of gfx11 and later follow the older ones.
OPERATIONS = {
    "mov": "a",
    "or": "a|b",
    "and": "a&b",
    "xor": "a^b",
    "andn2": "a&~b",
    "and_not1": "a&~b",
    "andn1": "b&~a",
    "and_not0": "b&~a",
    "orn2": "a|~b",
    "or_not1": "a|~b",
    "orn1": "b|~a",
    "or_not0": "b|~a",
    "cselect": "a&b",  # has the lanes that both have, and perhaps more
    "not": "~a",
}
BITWISE = re.compile(rf"^s_({'|'.join(OPERATIONS)})_b(32|64)$")
SAVES = re.compile(rf"^s_({'|'.join(OPERATIONS)})_(saveexec|wrexec)_b(32|64)$")
READS_ONLY = re.compile(
    r"^s_(cmp|cmpk|bitcmp|cbranch|branch|wait|nop|delay|sendmsg|setreg|barrier|endpgm|clause|sleep)"
)
SECOND_IS_WRITTEN = re.compile(r"^v_(add_co|sub_co|subrev_co|addc|subb|subbrev|div_scale|mad_[ui]64)")


@dataclass(frozen=True)
class Masks:
    words: int  # per mask: 1 in waves of 32 lanes, 2 in waves of 64
    facts: frozenset[Fact]  # none includes another, which would say more
    # Copies of scalar registers in lanes of a vector register (clang uses such lanes for nothing else), in either
    # direction: both are equal.
    copies: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def at_entry(cls, wave_size: int) -> Masks:
        words = wave_size // 32
        return cls(words, frozenset({frozenset({execution(words)})}))

    @property
    def whole(self) -> bool:
        """Return true if EXEC has every lane."""
        return frozenset({execution(self.words)}) in self.facts

    def joined(self, other: Masks) -> Masks:
        """Return the facts that hold on both of two paths."""
        both = self.facts & other.facts
        united = (ours | theirs for ours, theirs in product(self.facts - both, other.facts - both))
        return Masks(self.words, _least((*both, *united)), self.copies & other.copies)

    def with_no_lane(self) -> Masks:
        """Return the facts where EXEC is known to be empty: sets that were whole with EXEC are whole without it."""
        without = (fact - {execution(self.words)} for fact in self.facts)
        return replace(self, facts=_least((*self.facts, *filter(None, without))))

    def after(self, operation: str, operands: tuple[str, ...]) -> Masks:
        """Return the facts after an instruction."""
        mask = execution(self.words)
        if (found := SAVES.match(operation)) is not None:
            saved, by = self._mask(operands[0]), self._mask(operands[1])
            masks = self._assigned(BEFORE, "a", by, by)
            held = mask
            if found[2] == "saveexec":
                masks, held = masks._assigned(saved, "a", mask, mask), saved  # EXEC's old value, while it changes
            masks = masks._assigned(mask, OPERATIONS[found[1]], BEFORE, held)
            if found[2] == "wrexec":
                masks = masks._assigned(saved, "a", mask, mask)
            return masks._without(BEFORE)
        if (found := BITWISE.match(operation)) is not None and int(found[2]) == 32 * self.words:
            to, a, b = (self._mask(operands[min(i, len(operands) - 1)]) for i in range(3))
            return self._assigned(to, OPERATIONS[found[1]], a, b)
        if operation.startswith("v_cmpx"):
            return self._without(mask)
        if operation.startswith("v_writelane") and LANE.match(operands[2]) and SCALAR.match(operands[1]):
            return self._moved(f"{operands[0]}.{operands[2]}", operands[1])
        if operation.startswith("v_readlane") and LANE.match(operands[2]):
            return self._moved(operands[0], f"{operands[1]}.{operands[2]}")
        written = list(_written(operation, operands))
        if any(name.startswith("exec") for name in written):
            raise ValueError(
                f"{operation} {', '.join(operands)} writes EXEC: teach tests/support/machine_code/masks.py what"
            )
        masks = self
        for name in written:
            masks = masks._without(cells(name))
        return masks

    def _mask(self, operand: str) -> Mask:
        if operand in ("exec", "vcc"):
            return cells(operand)[: self.words]
        return cells(operand)

    def _without(self, gone: Mask) -> Masks:
        untouched = frozenset(gone).isdisjoint
        kept = frozenset(fact for fact in self.facts if all(map(untouched, fact)))
        copies = frozenset(filter(untouched, self.copies))
        return self if (kept, copies) == (self.facts, self.copies) else Masks(self.words, kept, copies)

    def _assigned(self, to: Mask, operation: str, a: Mask, b: Mask) -> Masks:
        """Return the facts after `to` was assigned the result of the operation on a and b."""
        kept, replaced = self._without(to), set(to)
        made = [
            rest | {to}
            for rest in _completed(operation, a, b, self.facts | {ONES})
            if not any(replaced & set(mask) or mask[0].lstrip("-").isdigit() for mask in rest)
        ]
        # Most instructions create no fact, and the remaining facts are minimal already.
        return replace(kept, facts=_least((*kept.facts, *made))) if made else kept

    def _moved(self, to: str, source: str) -> Masks:
        """Return the facts after a scalar register was moved to or from a lane; a mask is complete once all its words
        are."""
        masks = self._without((to,))
        masks = replace(masks, copies=masks.copies | {(to, source), (source, to)})
        for before in range(self.words):
            tos, sources = (_neighbours(name, -before, self.words) for name in (to, source))
            if all(pair in masks.copies for pair in zip(tos, sources, strict=True)):
                copies = masks.copies
                masks = replace(masks._assigned(tos, "a", sources, sources), copies=copies)
        return masks


def _least(facts: Iterable[Fact]) -> frozenset[Fact]:
    """Return the strongest facts that are short enough to keep."""
    least: list[Fact] = []
    for fact in sorted((fact for fact in set(facts) if len(fact) <= MOST), key=len):
        if not any(known <= fact for known in least):
            least.append(fact)
    return frozenset(least)


def _completed(operation: str, a: Mask, b: Mask, facts: frozenset[Fact]) -> Iterator[Fact]:
    """Yield the sets of masks that together with the operation's result have every lane."""
    of_a, of_b = ([fact - {mask} for fact in facts if mask in fact] for mask in (a, b))
    if operation == "a":
        yield from of_a
    elif operation == "a|b":
        yield from (rest - {a, b} for rest in (*of_a, *of_b))
    elif operation == "a&b":
        yield from (rest | other for rest, other in product(of_a, of_b))
    elif operation == "a^b":  # the lanes that it lacks are in both
        yield from (rest - {a, b} | {mask} for rest in (*of_a, *of_b) for mask in (a, b))
    elif operation == "a&~b":
        yield from (rest | {b} for rest in of_a)
    elif operation == "b&~a":
        yield from (rest | {a} for rest in of_b)
    elif operation == "a|~b":
        yield from (frozenset({b}), *of_a)
    elif operation == "b|~a":
        yield from (frozenset({a}), *of_b)
    else:  # ~a
        yield frozenset({a})


def _neighbours(name: str, first: int, count: int) -> Mask:
    """Return the `count` registers, or lanes of one, beginning `first` after the named one."""
    found = NUMBER.search(name)
    if found is None:
        return (name,) * count
    return tuple(name[: found.start()] + str(int(found[0]) + first + i) for i in range(count))


def execution(words: int) -> Mask:
    return ("exec_lo", "exec_hi")[:words]


@lru_cache(maxsize=4096)
def cells(operand: str) -> Mask:
    """Return the 32-bit registers of an operand; a constant is its own."""
    if (found := RANGE.match(operand)) is not None:
        return tuple(f"s{i}" for i in range(int(found[1]), int(found[2]) + 1))
    return (f"{operand}_lo", f"{operand}_hi") if operand in ("exec", "vcc") else (operand,)


def writes_scalars(operation: str, operands: tuple[str, ...]) -> bool:
    """Return true if the instruction may change the known facts."""
    moves = operation.startswith(("v_cmpx", "v_writelane"))
    return moves or any(True for _ in _written(operation, operands))


def _written(operation: str, operands: tuple[str, ...]) -> Iterator[str]:
    """Yield the scalar operands that an instruction may write."""
    if READS_ONLY.match(operation) or not operands:
        return
    if SCALAR.match(operands[0]) and not operation.startswith(("buffer_", "global_", "ds_")):
        yield operands[0]
    if len(operands) > 1 and SECOND_IS_WRITTEN.match(operation) and SCALAR.match(operands[1]):
        yield operands[1]
