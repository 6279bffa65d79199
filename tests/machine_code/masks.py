"""What is known of EXEC and of the scalar registers that keep masks of lanes, without their values.

Facts are of one kind: a mask alone, or two masks together, have every lane that the wave began with. `s_and_saveexec`
keeps EXEC, and what was whole is whole in its new place; `s_or` of two that have every lane together gives them all
back; a loop takes lanes out of EXEC (`s_andn2`) that it has put into another mask, so that both together stay whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

Mask = tuple[str, ...]  # the 32-bit registers that hold it
Covers = Callable[[Mask, Mask], bool]

RANGE = re.compile(r"^s\[(\d+):(\d+)\]$")
SCALAR = re.compile(r"^(s\d+|s\[\d+:\d+\]|vcc|vcc_lo|vcc_hi|exec|exec_lo|exec_hi|ttmp\d+|m0)$")
LANE = re.compile(r"^\d+$")
NUMBER = re.compile(r"\d+$")
BEFORE: Mask = ("what an operand was before",)

# What a bitwise instruction makes of masks a and b; the names of gfx11 and later beside those before.
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
    words: int  # of a mask: 1 where a wave has 32 lanes, 2 where it has 64
    facts: frozenset[frozenset[Mask]]  # sets of one or two masks that together have every lane
    # Where a scalar register was put into a lane of a vector register, which clang keeps for nothing else, or taken
    # from it: both are the same.
    copies: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def at_entry(cls, wave_size: int) -> Masks:
        words = wave_size // 32
        return cls(words, frozenset({frozenset({execution(words)})}))

    @property
    def whole(self) -> bool:
        """Whether EXEC has every lane."""
        return frozenset({execution(self.words)}) in self.facts

    def covers(self, a: Mask, b: Mask) -> bool:
        """Whether two masks together have every lane."""
        ones = ("-1",) in (a, b)
        return ones or any(frozenset(each) in self.facts for each in ({a}, {b}, {a, b}))

    def joined(self, other: Masks) -> Masks:
        """What holds whichever of two ways the wave came."""
        alone, of_other = ([mask for fact in each.facts if len(fact) == 1 for mask in fact] for each in (self, other))
        crossed = {frozenset(pair) for pair in product(alone, of_other)}
        candidates = self.facts | other.facts | crossed
        facts = frozenset(fact for fact in candidates if self._holds(fact) and other._holds(fact))
        return Masks(self.words, facts, self.copies & other.copies)

    def with_no_lane(self) -> Masks:
        """Where EXEC is known to be empty: what had every lane together with it has them alone."""
        mask = execution(self.words)
        alone = {frozenset({other}) for fact in self.facts if mask in fact for other in fact - {mask}}
        return replace(self, facts=self.facts | alone)

    def after(self, operation: str, operands: tuple[str, ...]) -> Masks:
        """What is known after an instruction."""
        mask = execution(self.words)
        if (found := SAVES.match(operation)) is not None:
            saved, by = self._mask(operands[0]), self._mask(operands[1])
            masks = self._assigned(BEFORE, "a", by, by)
            held = mask
            if found[2] == "saveexec":
                masks, held = masks._assigned(saved, "a", mask, mask), saved  # what EXEC was, while it changes
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
            raise ValueError(f"{operation} {', '.join(operands)} writes EXEC: teach tests/machine_code/masks.py what")
        masks = self
        for name in written:
            masks = masks._without(cells(name))
        return masks

    def _mask(self, operand: str) -> Mask:
        if operand in ("exec", "vcc"):
            return cells(operand)[: self.words]
        return cells(operand)

    def _holds(self, fact: frozenset[Mask]) -> bool:
        masks = tuple(fact)
        return self.covers(masks[0], masks[-1])

    def _without(self, gone: Mask) -> Masks:
        kept = frozenset(fact for fact in self.facts if not any(set(mask) & set(gone) for mask in fact))
        copies = frozenset(copy for copy in self.copies if not set(copy) & set(gone))
        return replace(self, facts=kept, copies=copies)

    def _assigned(self, to: Mask, operation: str, a: Mask, b: Mask) -> Masks:
        """After `to` has become what the operation makes of a and b."""
        gives, with_each = _made(operation, a, b, self.covers)
        known = {mask for fact in self.facts for mask in fact} | {a, b}
        kept = self._without(to)
        if gives:
            return replace(kept, facts=kept.facts | {frozenset({to})})
        others = {mask for mask in known if not set(mask) & set(to) and not mask[0].lstrip("-").isdigit()}
        return replace(kept, facts=kept.facts | {frozenset({to, mask}) for mask in others if with_each(mask)})

    def _moved(self, to: str, source: str) -> Masks:
        """After a scalar register has gone to a lane, or has come from one; a mask is there when all its words are."""
        masks = self._without((to,))
        masks = replace(masks, copies=masks.copies | {(to, source), (source, to)})
        for before in range(self.words):
            tos, sources = (_neighbours(name, -before, self.words) for name in (to, source))
            if all(pair in masks.copies for pair in zip(tos, sources, strict=True)):
                copies = masks.copies
                masks = replace(masks._assigned(tos, "a", sources, sources), copies=copies)
        return masks


def _made(operation: str, a: Mask, b: Mask, covers: Covers) -> tuple[bool, Callable[[Mask], bool]]:
    """Whether what an operation makes has every lane, and whether it has together with another mask."""
    if operation == "a":
        return covers(a, a), lambda other: covers(a, other)
    if operation == "a|b":
        return covers(a, b), lambda other: covers(a, other) or covers(b, other)
    if operation == "a&b":
        return covers(a, a) and covers(b, b), lambda other: covers(a, other) and covers(b, other)
    if operation == "a^b":
        return False, lambda other: other in (a, b) and covers(a, b)
    if operation in ("a&~b", "b&~a"):
        kept, taken = (a, b) if operation == "a&~b" else (b, a)
        return False, lambda other: other == taken and covers(kept, taken)
    if operation in ("a|~b", "b|~a"):
        kept, taken = (a, b) if operation == "a|~b" else (b, a)
        return covers(kept, kept), lambda other: other == taken or covers(kept, other)
    return False, lambda other: other == a  # ~a


def _neighbours(name: str, first: int, count: int) -> Mask:
    """Of a register, or of a lane of one: those that stand so far from it."""
    found = NUMBER.search(name)
    if found is None:
        return (name,) * count
    return tuple(name[: found.start()] + str(int(found[0]) + first + i) for i in range(count))


def execution(words: int) -> Mask:
    return ("exec_lo", "exec_hi")[:words]


def cells(operand: str) -> Mask:
    """The 32-bit registers of an operand; a constant is one by itself."""
    if (found := RANGE.match(operand)) is not None:
        return tuple(f"s{i}" for i in range(int(found[1]), int(found[2]) + 1))
    return (f"{operand}_lo", f"{operand}_hi") if operand in ("exec", "vcc") else (operand,)


def writes_scalars(operation: str, operands: tuple[str, ...]) -> bool:
    """Whether anything may be known afterwards that was not before, or the other way round."""
    moves = operation.startswith(("v_cmpx", "v_writelane"))
    return moves or any(True for _ in _written(operation, operands))


def _written(operation: str, operands: tuple[str, ...]) -> Iterator[str]:
    """The scalar operands that an instruction may write."""
    if READS_ONLY.match(operation) or not operands:
        return
    if SCALAR.match(operands[0]) and not operation.startswith(("buffer_", "global_", "ds_")):
        yield operands[0]
    if len(operands) > 1 and SECOND_IS_WRITTEN.match(operation) and SCALAR.match(operands[1]):
        yield operands[1]
