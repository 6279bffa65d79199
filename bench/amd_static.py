"""Static analysis of AMD kernels, without a GPU: the code objects of the plans that `default` chooses.

It reports the occupancy that registers and shared memory allow, the share of matrix instructions in the main loop, and
llvm-mca's clocks. llvm-mca issues one wave's instructions in order, each when its operands are ready. It knows MFMA's
clocks, but treats WMMA as any other vector instruction; memory answers after 80 clocks on CDNA and 320 on RDNA; there
are no branches and no other waves. Its clocks compare kernels of one architecture; they predict no times.

    python bench/amd_static.py --json now.json
    python bench/amd_static.py --code triton.hsaco --target gfx942 --kernel gemm --smem 16384 --outputs 64
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from document import write_document
from rich.console import Console
from rich.table import Table

from qconv import generator
from qconv.device.binary import resources
from qconv.device.compile import build
from qconv.ops.registry import parse
from qconv.targets.target import Target, target

# Three layers of ResNet-50 at N=32.
REST = "per_channel:bias=int32:activation=relu"
LAYERS = {
    "3x3 64-64 56x56": f"conv2d:n=32:h=56:w=56:c=64:k=64:r=3:s=3:pad=1,1,1,1:{REST}",
    "3x3 256-256 14x14": f"conv2d:n=32:h=14:w=14:c=256:k=256:r=3:s=3:pad=1,1,1,1:{REST}",
    "1x1 64-256 56x56": f"conv2d:n=32:h=56:w=56:c=64:k=256:r=1:s=1:{REST}",
}
TARGETS = ("gfx90a", "gfx942", "gfx1100", "gfx1201")
LINE = re.compile(r"^\t(\S.*?)\s*// ([0-9A-F]{12}):[^<]*(?:<[^>]*?(?:\+0x([0-9a-f]+))?>)?$")
# llvm-mca 19 crashes on buffer accesses; accesses by address take as long.
BUFFER = re.compile(r"buffer_(load|store)(\w+) (v\S+), (v\d+), s\[(\d+):\d+\].*")
MATRIX = ("v_mfma_", "v_wmma_")
ROUNDS = 32  # iterations of the main loop


@dataclass(frozen=True)
class Instruction:
    address: int
    text: str
    goes_to: int | None  # target of a branch

    @property
    def is_matrix(self) -> bool:
        return self.text.startswith(MATRIX)


@dataclass(frozen=True)
class Row:
    layer: str
    problem: str
    target: str
    config: str
    smem_bytes: int
    registers: int
    spill_bytes: int
    blocks_per_sm: int
    waves_per_simd: float
    loop_instructions: int
    loop_matrix: int
    loop_branches: int
    straight: bool  # true without a loop, or with a loop that includes the epilogue
    clocks_per_matrix: float
    epilogue_instructions: int
    epilogue_per_output: float
    epilogue_clocks_per_output: float

    @property
    def share(self) -> float:
        return self.loop_matrix / self.loop_instructions


def disassemble(code: bytes, kernel: str) -> list[Instruction]:
    with tempfile.NamedTemporaryFile(suffix=".co") as file:
        file.write(code)
        file.flush()
        command = ["llvm-objdump-19", "-d", f"--disassemble-symbols={kernel}", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = read_listing(text)
    if not found:
        raise ValueError(f"no kernel {kernel!r} in the code object; llvm-objdump-19 -d lists its symbols")
    return found


def read_listing(text: str) -> list[Instruction]:
    """Return the instructions of one kernel; branches name their targets as byte offsets from its start."""
    found = [match.groups() for line in text.splitlines() if (match := LINE.match(line))]
    begin = int(found[0][1], 16) if found else 0
    return [
        Instruction(int(at, 16), said, begin + int(to or "0", 16) if "branch" in said.split()[0] else None)
        for said, at, to in found
    ]


def main_loop(code: Sequence[Instruction]) -> tuple[list[Instruction], bool]:
    """Return the shortest of the loops with the most matrix instructions, and true if there is one. If the reduction
    has so few steps that it is straight-line code, or is inside the loop of a persistent block, return the code from
    the first matrix instruction to the last."""
    before = predecessors(code)
    dominators = dominators_of(before)
    loops = [
        [code[i] for i in sorted(body_of(head, latch, before))]
        for head, latches in enumerate(before)
        for latch in latches
        if dominators[latch] >> head & 1
    ]
    inner = [loop for loop in loops if not any(writes_outputs(each) for each in loop)]
    if most := max((matrix_instructions(loop) for loop in inner), default=0):
        return min((loop for loop in inner if matrix_instructions(loop) == most), key=len), True
    places = [i for i, instruction in enumerate(code) if instruction.is_matrix]
    return list(code[places[0] : places[-1] + 1]), False


def predecessors(code: Sequence[Instruction]) -> list[list[int]]:
    """Return the reachable predecessors of each instruction."""
    index = {instruction.address: i for i, instruction in enumerate(code)}
    before: list[list[int]] = [[] for _ in code]
    reached, todo = {0}, [0]
    while todo:
        i = todo.pop()
        to = code[i].goes_to
        follows = [] if code[i].text.startswith(("s_branch", "s_endpgm")) or i + 1 == len(code) else [i + 1]
        for other in follows + ([index[to]] if to is not None else []):
            before[other].append(i)
            if other not in reached:
                reached.add(other)
                todo.append(other)
    return before


def dominators_of(before: Sequence[Sequence[int]]) -> list[int]:
    """Return the dominators of each instruction as bits: the instructions on every path to it."""
    everything = (1 << len(before)) - 1
    found = [1] + [everything] * (len(before) - 1)
    changed = True
    while changed:
        changed = False
        for i in range(1, len(before)):
            common = everything
            for other in before[i]:
                common &= found[other]
            changed |= found[i] != (common | 1 << i)
            found[i] = common | 1 << i
    return found


def body_of(head: int, latch: int, before: Sequence[Sequence[int]]) -> set[int]:
    """Return the body of a natural loop: the instructions that reach its latch without passing its head."""
    body, todo = {head}, [latch]
    while todo:
        if (at := todo.pop()) not in body:
            body.add(at)
            todo.extend(before[at])
    return body


def matrix_instructions(code: Sequence[Instruction]) -> int:
    return sum(each.is_matrix for each in code)


def writes_outputs(instruction: Instruction) -> bool:
    return instruction.text.startswith(("global_store", "flat_store", "buffer_store"))


def clocks(code: Sequence[Instruction], arch: str, rounds: int) -> float:
    """Return the clocks of a wave, by llvm-mca. Branches fall through. Barriers are left out, for which llvm-mca takes
    500 or 2000 clocks, and so are waits, which its operand dependences replace."""
    left_out = ("s_endpgm", "s_wait", "s_barrier")
    kept = (each.text for each in code if each.goes_to is None and not each.text.startswith(left_out))
    text = "\n".join(kept) + "\n"
    text = BUFFER.sub(by_address, text)
    command = ["llvm-mca-19", "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={arch}", f"-iterations={rounds}", "-disable-cb"]
    answer = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    total = re.search(r"Total Cycles:\s+(\d+)", answer)
    assert total is not None, answer
    return int(total.group(1)) / rounds


def by_address(access: re.Match[str]) -> str:
    way, width, data, offset, base = access.groups()
    operands = f"{data}, {offset}" if way == "load" else f"{offset}, {data}"
    return f"global_{way}{width} {operands}, s[{base}:{int(base) + 1}]"


def behind(code: Sequence[Instruction]) -> list[Instruction]:
    """Return the cost of a tile after its products: the instructions after the last matrix instruction, without
    padding."""
    last = max(i for i, instruction in enumerate(code) if instruction.is_matrix)
    end = max(i for i, instruction in enumerate(code) if instruction.text == "s_endpgm")
    return list(code[last + 1 : end + 1])


def measured(
    name: str, on: Target, code: bytes, kernel: str, config: str, *, threads: int, smem_bytes: int, outputs: float
) -> Row:
    """`outputs` is the number of outputs per lane."""
    needs = resources(code, kernel)
    text = disassemble(code, kernel)
    (loop, is_loop), epilogue = main_loop(text), behind(text)
    matrix = matrix_instructions(loop)
    blocks = on.blocks_per_sm(threads, smem_bytes, needs.registers)
    return Row(
        layer=name,
        problem=LAYERS.get(name, ""),
        target=on.name,
        config=config,
        smem_bytes=smem_bytes,
        registers=needs.registers,
        spill_bytes=needs.spill_bytes or 0,
        blocks_per_sm=blocks,
        waves_per_simd=blocks * threads / on.warp_size / on.simds,
        loop_instructions=len(loop),
        loop_matrix=matrix,
        loop_branches=sum("branch_exec" in each.text for each in loop),
        straight=not is_loop,
        clocks_per_matrix=round(clocks(loop, on.name, ROUNDS) / matrix, 1),
        epilogue_instructions=len(epilogue),
        epilogue_per_output=round(len(epilogue) / outputs, 2),
        epilogue_clocks_per_output=round(clocks(epilogue, on.name, 1) / outputs, 2),
    )


def of_default(name: str, on: Target) -> Row:
    plan = generator.default(parse(LAYERS[name]), on)
    config = plan.config
    outputs = config.warp_m * config.warp_n / on.warp_size  # type: ignore[attr-defined]
    return measured(
        name,
        on,
        build(generator.render(plan), plan).data,
        plan.main.kernel,
        str(config),
        threads=plan.main.threads,
        smem_bytes=plan.main.smem_bytes,
        outputs=outputs,
    )


def show(rows: Sequence[Row]) -> None:
    shown = Table(title="AMD kernels, read from their code objects")
    heads = "layer target LDS regs blocks/CU waves/SIMD mfma loop share branches clk/mfma epilogue /output clk/output"
    for head in heads.split():
        shown.add_column(head, justify="left" if head in ("layer", "target") else "right", no_wrap=True)
    for row in rows:
        numbers = (row.smem_bytes, row.registers, row.blocks_per_sm, row.waves_per_simd, row.loop_matrix)
        loop = (row.loop_instructions, f"{row.share:.0%}", row.loop_branches, row.clocks_per_matrix)
        rest = (row.epilogue_instructions, row.epilogue_per_output, row.epilogue_clocks_per_output)
        shown.add_row(row.layer, row.target, *map(str, (*numbers, *loop, *rest)))
    Console(width=200).print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", choices=TARGETS)
    parser.add_argument("--json", type=Path, help="where the rows are written")
    parser.add_argument("--code", type=Path, help="a code object of another compiler, measured alike")
    parser.add_argument("--kernel", help="its symbol")
    parser.add_argument("--threads", type=int, default=256, help="of its blocks")
    parser.add_argument("--smem", type=int, default=0, help="bytes of its shared memory")
    parser.add_argument("--outputs", type=float, default=1.0, help="of a lane")
    given = parser.parse_args()
    targets = [target(name) for name in given.target or TARGETS]
    if given.code is not None:
        code, rest = given.code.read_bytes(), {"threads": given.threads, "smem_bytes": given.smem}
        rows = [measured(given.code.name, targets[0], code, given.kernel, "", outputs=given.outputs, **rest)]
    else:
        rows = [of_default(name, on) for on in targets for name in LAYERS]
    show(rows)
    if given.json is not None:
        write_document(given.json, {"rows": [asdict(row) for row in rows]})


if __name__ == "__main__":
    main()
