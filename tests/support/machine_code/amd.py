"""Reads AMD machine code, and finds instructions that need every lane in places where some lanes may be off.

A wave has one program counter and the mask EXEC. Structured branches and loops over lanes become writes of EXEC:
`s_and_saveexec` narrows it and saves the old mask, and `s_or` with that mask restores the lanes. A matrix instruction,
a lane permutation or a barrier in between executes with lanes off, whatever the source says.

The rule is exact about masks and ignores values: EXEC is whole at the kernel's entry, and after a write only if the
masks involved prove it. It also refuses a branch that all lanes take alike but that the compiler turned into a mask
because it could not see that: the next compiler may leave lanes behind, so the source must say so (`readfirstlane`, a
ballot), which makes the branch scalar. It does not refuse `v_readlane` and `v_writelane`, which ignore EXEC, nor
`v_readfirstlane` and comparisons into a mask, which are defined for the active lanes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from machine_code.masks import Masks, writes_scalars

from qconv.device.compile import CLANG_FLAGS, find_clang
from qconv.generator import Source
from qconv.targets.target import Target

MATRIX = re.compile(r"v_s?(wmma|wmmac|mfma|mfmac)_")
BARRIER = re.compile(r"s_barrier")
# DPP is a modifier: its words follow the operands.
CROSS_LANE = re.compile(
    r"ds_swizzle|ds_bpermute|ds_permute|v_permlane|_dpp8?\b"
    r"|\b(quad_perm|row_\w+|wave_(shl|shr|rol|ror)|dpp8):|\b(row_mirror|row_half_mirror)\b"
)
SCRATCH = re.compile(r"scratch_(load|store)")

INSTRUCTION = re.compile(r"^\t(\S+)(?: ([^/]*?))?\s*// ([0-9A-F]{12}):(?:.* <(\S+?)(?:\+0x([0-9a-f]+))?>)?")
SYMBOL = re.compile(r"^([0-9a-f]{16}) <(\S+)>:")
LINE = re.compile(r"^; .*:(\d+)$")
ENDS = ("s_endpgm", "s_branch", "s_endpgm_saved", "s_trap")
LEAVES = ("s_setpc", "s_swappc", "s_call", "s_rfe")


@dataclass(frozen=True)
class Instruction:
    address: int
    operation: str
    operands: tuple[str, ...]
    text: str
    line: int | None  # line of the source
    target: int | None  # target of a branch


@dataclass(frozen=True)
class Refusal:
    """An instruction that needs every lane, under an EXEC narrowed by `since`."""

    kernel: str
    instruction: Instruction
    since: Instruction

    def __str__(self) -> str:
        return (
            f"{self.kernel}: {self.instruction.text} (line {self.instruction.line}) runs under the EXEC that "
            f"{self.since.text} (line {self.since.line}) narrowed"
        )


@dataclass(frozen=True)
class Reading:
    """The result for one code object: the number of instructions of each kind, and the refused ones."""

    matrix: int
    barriers: int
    cross_lane: int
    scratch: int
    refused: tuple[Refusal, ...]


@lru_cache(maxsize=1)
def missing() -> str | None:
    """Return why machine code cannot be read here."""
    return (
        None
        if _found("llvm-objdump")
        else "reading AMD machine code needs llvm-objdump: apt-get install llvm-19 or llvm-22"
    )


def refusals(source: Source, target: Target, code_object: bytes) -> list[str]:
    """Return the problems of a kernel's code object with their source lines; nothing for a correct one."""
    if not read(code_object, target.warp_size).refused:
        return []
    lines = ["", *source.text.splitlines()]
    return [
        f"{refusal}\n    {lines[refusal.instruction.line or 0].strip()}\n    {lines[refusal.since.line or 0].strip()}"
        for refusal in read(_with_lines(source, target), target.warp_size).refused
    ]


@lru_cache(maxsize=2)  # callers that count instructions also ask for the refusals
def read(code_object: bytes, wave_size: int) -> Reading:
    with tempfile.NamedTemporaryFile(suffix=".co") as file:
        file.write(code_object)
        file.flush()
        command = [_found("llvm-objdump") or "", "-d", "-l", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    counts = dict.fromkeys(("matrix", "barriers", "cross_lane", "scratch"), 0)
    refused: list[Refusal] = []
    for kernel, code in parse(text).items():
        counts["matrix"] += sum(MATRIX.match(i.operation) is not None for i in code)
        counts["barriers"] += sum(BARRIER.match(i.operation) is not None for i in code)
        counts["cross_lane"] += sum(CROSS_LANE.search(i.text) is not None for i in code)
        counts["scratch"] += sum(SCRATCH.match(i.operation) is not None for i in code)
        found = narrowed(code, wave_size)
        refused += [Refusal(kernel, code[i], code[since]) for i, since in found if needs_every_lane(code[i])]
    return Reading(**counts, refused=tuple(refused))


def _found(program: str) -> str | None:
    """Return the newest tool, which reads what every clang makes; that of LLVM 19 does not know gfx950."""
    return next(filter(None, map(shutil.which, (f"{program}-22", f"{program}-19", program))), None)


def _with_lines(source: Source, target: Target) -> bytes:
    """Compile to the same instructions, each with its source line."""
    clang = find_clang(target.name).path
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernel.hip").write_text(source.text)
        flags = (*CLANG_FLAGS, f"--offload-arch={target.name}", "-gline-tables-only")
        subprocess.run([clang, *flags, "kernel.hip", "-o", "kernel.co"], cwd=folder, check=True, capture_output=True)
        return Path(folder, "kernel.co").read_bytes()


def needs_every_lane(instruction: Instruction) -> bool:
    whole = MATRIX.match(instruction.operation) or BARRIER.match(instruction.operation)
    return whole is not None or CROSS_LANE.search(instruction.text) is not None


def parse(text: str) -> dict[str, list[Instruction]]:
    """Return the instructions of each kernel, as printed by llvm-objdump -d -l."""
    kernels: dict[str, list[Instruction]] = {}
    begins: dict[str, int] = {}
    code: list[Instruction] = []
    line: int | None = None
    for row in text.splitlines():
        if (found := INSTRUCTION.match(row)) is not None:
            operation, operands, address, symbol, offset = found.groups()
            target = begins[symbol] + int(offset or "0", 16) if symbol and "branch" in operation else None
            operands = (operands or "").strip()
            code.append(
                Instruction(
                    int(address, 16), operation, split(operands), f"{operation} {operands}".strip(), line, target
                )
            )
        elif (found := SYMBOL.match(row)) is not None:
            begins[found[2]] = int(found[1], 16)
            code = kernels.setdefault(found[2], [])
            line = None
        elif (found := LINE.match(row)) is not None:
            line = int(found[1])
    return kernels


def split(operands: str) -> tuple[str, ...]:
    return tuple(re.split(r",\s*(?![^\[]*\])", operands)) if operands else ()


def narrowed(code: list[Instruction], wave_size: int) -> Iterator[tuple[int, int]]:
    """Yield each instruction that may run without all lanes, and the instruction that narrowed EXEC before it. A fixed
    point over the blocks: repeated until no block is entered with fewer known facts than before."""
    starts = sorted(block_starts(code))
    blocks = {start: Block(code, start, end) for start, end in zip(starts, [*starts[1:], len(code)], strict=True)}
    at = {code[start].address: start for start in starts}
    entered: dict[int, ChannelParameters] = {0: (Masks.at_entry(wave_size), None)}
    waiting = {0}
    while waiting:
        start = min(waiting)
        waiting.remove(start)
        *_, (_, left) = blocks[start].walked(entered[start])
        for following, masks in successors(code, blocks[start].end - 1, left[0], at):
            before, since = entered.get(following, (masks, left[1]))
            joined = before.joined(masks)
            if following not in entered or joined != before:
                entered[following] = (joined, None if joined.whole else since if since is not None else left[1])
                waiting.add(following)
    for start, known in entered.items():
        for i, (masks, since) in blocks[start].walked(known):
            if not masks.whole and since is not None and i < blocks[start].end:
                yield i, since


ChannelParameters = tuple[Masks, int | None]  # masks, and the instruction that narrowed EXEC


class Block:
    """A basic block: entered at its first instruction and left at its last."""

    def __init__(self, code: list[Instruction], start: int, end: int) -> None:
        self.code, self.start, self.end = code, start, end
        self.writes = [writes_scalars(code[i].operation, code[i].operands) for i in range(start, end)]

    def walked(self, known: ChannelParameters) -> Iterator[tuple[int, ChannelParameters]]:
        """Yield the known masks before each instruction, and finally those after the last."""
        masks, since = known
        for i in range(self.start, self.end):
            yield i, (masks, since)
            if self.writes[i - self.start]:
                after = masks.after(self.code[i].operation, self.code[i].operands)
                since = None if after.whole else i if masks.whole else since
                masks = after
        yield self.end, (masks, since)


def block_starts(code: list[Instruction]) -> set[int]:
    at = {instruction.address: i for i, instruction in enumerate(code)}
    starts = {0}
    for i, instruction in enumerate(code):
        if instruction.operation.startswith(LEAVES):
            raise ValueError(f"{instruction.text}: where it goes on is not known; inline what it calls")
        if instruction.target is not None:
            starts |= {at[instruction.target], i + 1}
        elif instruction.operation in ENDS:
            starts.add(i + 1)
    return {start for start in starts if start < len(code)}


def successors(code: list[Instruction], last: int, masks: Masks, at: dict[int, int]) -> Iterator[tuple[int, Masks]]:
    """Yield the successors of a block, with their masks: on one side of a branch on EXEC no lane is active."""
    instruction = code[last]
    if instruction.target is not None:
        empty = instruction.operation == "s_cbranch_execz"
        yield at[instruction.target], masks.with_no_lane() if empty else masks
    if instruction.operation not in ENDS and last + 1 < len(code):
        yield last + 1, masks.with_no_lane() if instruction.operation == "s_cbranch_execnz" else masks
