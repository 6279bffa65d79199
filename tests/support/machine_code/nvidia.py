"""Reads NVIDIA machine code and ptxas's log: barriers in a divergent warp, local memory, serialized wgmma.

ptxas encloses a possibly divergent branch by BSSY, which records the active threads, and BSYNC, which waits for them.
From the branch to its BSYNC a warp may be split: a BAR in between counts the warp before all of its threads have
arrived. A WARPSYNC of all 32 threads also reconverges the warp; a BREAK takes threads out of what a BSSY recorded. A
BAR with a predicate executes for some threads only. Branches on uniform predicates or copies of one, and
those that ptxas proved uniform, split nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

SECTION = re.compile(r"^\.text\.(\S+):")
LABEL = re.compile(r"^(\.L_x_\d+):")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?(\S+?)(?:\s+(.*?))?\s*(?:\(\*.*)?;")
TARGET = re.compile(r"`\((\.L_x_\d+)\)$")
UNIFORM = re.compile(r"^!?UP|^!?PT$")
# Operands of a PLOP3 that is the same in every lane: uniform predicates, constants, and its tables.
COPIED = re.compile(r"^!?(UP\d|U?PT)$|^0x[0-9a-f]+$")
BRANCHES = ("BRA", "BRX", "JMX")
LOCAL = ("STL", "LDL")
SERIALIZED = re.compile(r"\(C751[0-8]\)|wgmma\.mma_async instructions are serialized")


@dataclass(frozen=True)
class Instruction:
    predicate: str | None
    operation: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        guard = "" if self.predicate is None else f"@{self.predicate} "
        return f"{guard}{self.operation} {', '.join(self.operands)}".strip()

    @property
    def is_uniform(self) -> bool:
        return self.predicate is None or UNIFORM.match(self.predicate) is not None


@dataclass(frozen=True)
class Warp:
    """The state of a warp: whether it may be split, and whether it was at each BSSY."""

    split: bool = False
    noted: frozenset[tuple[str, bool]] = frozenset()

    def after(self, instruction: Instruction) -> Warp:
        operation, operands = instruction.operation, instruction.operands
        if operation.startswith("BSSY"):
            return Warp(self.split, self.without(operands[0]).noted | {(operands[0], self.split)})
        if operation.startswith("BSYNC"):
            return Warp((operands[0], True) in self.noted, self.without(operands[0]).noted)
        if operation.startswith("WARPSYNC") and operands in (("",), ("0xffffffff",)):
            return Warp(False, self.noted)
        splits = operation in BRANCHES and bool(self.noted) and not (instruction.is_uniform and len(operands) == 1)
        return Warp(self.split or splits, self.noted)

    def joined(self, other: Warp) -> Warp:
        return Warp(self.split or other.split, self.noted | other.noted)

    def without(self, register: str | None) -> Warp:
        return replace(self, noted=frozenset(each for each in self.noted if each[0] != register))


def complaints(sass: str) -> list[str]:
    """Return the problems of a kernel that needs all threads at its barriers, from the text of nvdisasm -c."""
    return [
        f"{kernel}: {barrier} is not for a whole warp"
        for kernel, (code, labels) in parse(sass).items()
        for barrier in split_barriers(code, labels)
    ]


def local_memory(sass: str) -> list[str]:
    """Return loads and stores of local memory: spills, and arrays that do not fit in registers."""
    return [
        f"{kernel}: {each}"
        for kernel, (code, _) in parse(sass).items()
        for each in code
        if each.operation.startswith(LOCAL)
    ]


def serialized(log: str) -> list[str]:
    """Return ptxas's warnings that it serializes wgmma because it could not keep the registers separate."""
    return [line.strip() for line in log.splitlines() if SERIALIZED.search(line)]


def parse(sass: str) -> dict[str, tuple[list[Instruction], dict[str, int]]]:
    """Return the instructions of each kernel, and the index of each label."""
    kernels: dict[str, tuple[list[Instruction], dict[str, int]]] = {}
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in sass.splitlines():
        if (found := SECTION.match(line)) is not None:
            code, labels = kernels.setdefault(found[1], ([], {}))
        elif (found := LABEL.match(line)) is not None:
            labels[found[1]] = len(code)
        elif (found := INSTRUCTION.match(line)) is not None:
            code.append(Instruction(found[1], found[2], tuple(re.split(r",? +", found[3] or ""))))
    return kernels


def split_barriers(code: list[Instruction], labels: dict[str, int]) -> Iterator[Instruction]:
    begins = set(labels.values())
    code = [_on_uniform(code, at, begins) for at in range(len(code))]
    entered: dict[int, Warp] = {0: Warp()}
    waiting = {0} if code else set()
    while waiting:
        at = min(waiting)
        waiting.remove(at)
        after = entered[at].after(code[at])
        for following in _successors(code, at, labels):
            left = after.without(_broken(code, at, following))
            joined = entered.get(following, left).joined(left)
            if entered.get(following) != joined:
                entered[following] = joined
                waiting.add(following)
    for at, warp in sorted(entered.items()):
        if code[at].operation.startswith("BAR.") and (warp.split or not code[at].is_uniform):
            yield code[at]


def _on_uniform(code: list[Instruction], at: int, begins: set[int]) -> Instruction:
    """Return the instruction; a branch on a copy of a uniform predicate, made in its own block, as one on that
    predicate."""
    branch = code[at]
    if branch.operation != "BRA" or branch.is_uniform or branch.predicate is None:
        return branch
    own = branch.predicate.lstrip("!")
    for before in range(at - 1, -1, -1):
        if before + 1 in begins or code[before].operation.startswith(BRANCHES):
            break
        instruction = code[before]
        if own in instruction.operands or "PR" in instruction.operands:
            made, *sources = instruction.operands
            is_copy = instruction.operation.startswith("PLOP3") and instruction.predicate is None and made == own
            if is_copy and all(map(COPIED.match, sources)):
                return replace(branch, predicate=branch.predicate.replace("P", "UP"))
            break
    return branch


def _broken(code: list[Instruction], at: int, following: int) -> str | None:
    """Return the register that threads on this way have left by a BREAK: they do not come to its BSYNC. A BREAK with a
    predicate stands in front of the branch by which the others go there."""
    instruction, before = code[at], code[at - 1] if at else None
    if instruction.operation.startswith("BREAK"):
        return instruction.operands[-1] if instruction.predicate is None else None
    if before is None or not before.operation.startswith("BREAK") or not instruction.operation.startswith("BRA"):
        return None
    falls_through = _negated(instruction.predicate) if following == at + 1 else instruction.predicate
    return before.operands[-1] if before.predicate is not None and before.predicate == falls_through else None


def _negated(predicate: str | None) -> str | None:
    return None if predicate is None else predicate[1:] if predicate.startswith("!") else f"!{predicate}"


def _successors(code: list[Instruction], at: int, labels: dict[str, int]) -> Iterator[int]:
    """Yield the successors of an instruction. Calls return, and their callees have no barrier."""
    instruction = code[at]
    target = TARGET.search(instruction.operands[-1]) if instruction.operation.startswith("BRA") else None
    if target is not None and labels[target[1]] < len(code):
        yield labels[target[1]]
    leaves = instruction.operation.split(".")[0] in (*BRANCHES, "EXIT", "RET")
    sometimes = instruction.predicate is not None or len(instruction.operands) > 1
    if (not leaves or sometimes) and at + 1 < len(code):
        yield at + 1
