"""Reads NVIDIA machine code and ptxas's log: barriers in a divergent warp, local memory, serialized wgmma.

ptxas encloses a possibly divergent branch by BSSY, which records the active threads, and BSYNC, which waits for them.
From the branch to its BSYNC a warp may be split: a BAR in between counts the warp before all of its threads have
arrived. A WARPSYNC of all 32 threads also reconverges the warp. A BAR with a predicate executes for some threads only.
Branches on uniform predicates, and those that ptxas proved uniform, split nothing: they have no BSSY.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SECTION = re.compile(r"^\.text\.(\S+):")
LABEL = re.compile(r"^(\.L_x_\d+):")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?(\S+?)(?:\s+(.*?))?\s*(?:\(\*.*)?;")
TARGET = re.compile(r"`\((\.L_x_\d+)\)$")
UNIFORM = re.compile(r"^!?UP|^!?PT$")
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
            return Warp(self.split, self._but(operands[0]) | {(operands[0], self.split)})
        if operation.startswith("BSYNC"):
            return Warp((operands[0], True) in self.noted, self._but(operands[0]))
        if operation.startswith("WARPSYNC") and operands in (("",), ("0xffffffff",)):
            return Warp(False, self.noted)
        splits = operation in BRANCHES and bool(self.noted) and not (instruction.is_uniform and len(operands) == 1)
        return Warp(self.split or splits, self.noted)

    def joined(self, other: Warp) -> Warp:
        return Warp(self.split or other.split, self.noted | other.noted)

    def _but(self, register: str) -> frozenset[tuple[str, bool]]:
        return frozenset(each for each in self.noted if each[0] != register)


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
    entered: dict[int, Warp] = {0: Warp()}
    waiting = {0} if code else set()
    while waiting:
        at = min(waiting)
        waiting.remove(at)
        after = entered[at].after(code[at])
        for following in _successors(code, at, labels):
            joined = entered.get(following, after).joined(after)
            if entered.get(following) != joined:
                entered[following] = joined
                waiting.add(following)
    for at, warp in sorted(entered.items()):
        if code[at].operation.startswith("BAR.") and (warp.split or not code[at].is_uniform):
            yield code[at]


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
