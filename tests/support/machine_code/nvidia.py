"""Reads NVIDIA machine code and ptxas's log: barriers where a warp is split, local memory, serialized wgmma.

ptxas puts a branch that the threads of a warp may take differently between BSSY, which notes who is there, and BSYNC,
which waits for them. From such a branch to its BSYNC a warp is split: a BAR in between counts it before all of it has
come. A WARPSYNC of all 32 threads waits for them too, so what follows it is whole. A BAR with a predicate of its own is
one for some threads only. Branches by a uniform predicate, and those that ptxas proved uniform, split nothing: no BSSY
stands before these.
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
    """Whether the warp may be split, and whether it was when each BSSY noted who is there."""

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
    """What is wrong with a kernel that needs all threads at its barriers, in the text of nvdisasm -c."""
    return [
        f"{kernel}: {barrier} is not for a whole warp"
        for kernel, (code, labels) in parse(sass).items()
        for barrier in split_barriers(code, labels)
    ]


def local_memory(sass: str) -> list[str]:
    """Loads and stores of local memory: spills, and arrays that registers cannot hold."""
    return [
        f"{kernel}: {each}"
        for kernel, (code, _) in parse(sass).items()
        for each in code
        if each.operation.startswith(LOCAL)
    ]


def serialized(log: str) -> list[str]:
    """Where ptxas says that it waits for each wgmma, because it could not keep their registers apart."""
    return [line.strip() for line in log.splitlines() if SERIALIZED.search(line)]


def parse(sass: str) -> dict[str, tuple[list[Instruction], dict[str, int]]]:
    """The instructions of each kernel, and which of them a label names."""
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
    """Calls come back: what they call has no barrier."""
    instruction = code[at]
    target = TARGET.search(instruction.operands[-1]) if instruction.operation.startswith("BRA") else None
    if target is not None and labels[target[1]] < len(code):
        yield labels[target[1]]
    leaves = instruction.operation.split(".")[0] in (*BRANCHES, "EXIT", "RET")
    sometimes = instruction.predicate is not None or len(instruction.operands) > 1
    if (not leaves or sometimes) and at + 1 < len(code):
        yield at + 1
