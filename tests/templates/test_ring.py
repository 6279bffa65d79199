"""The ring of mbarriers and the copies that fill its slots: it is clean, and removals are noticed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from cpu_kernels import unoptimised
from disassembly import disassembled
from random_tiles import array_of
from tensor_kernels import Case, difference, source_of

from qconv import Conv2d
from qconv.device import cpu_runtime
from qconv.device.cache import Binary
from qconv.device.compile import compiler_for
from qconv.device.cpu import CpuDevice, CpuKernel, runtime_cache
from qconv.device.cpu_runtime import Sanitizer
from qconv.errors import CompileError, LaunchError
from qconv.generator.tensor_map import TensorMap, first_tap, im2col
from qconv.targets.target import target

CPU, GPU = target("cpu.sm_90a"), target("sm_90a")
LATE, EARLY = 2, 3
WRONG = "bytes are wrong"

# Every tap of every tile of outputs: five or more per block, so that slots are reused.
PROBLEM = Conv2d(2, 7, 6, 64, 32, 3, 2, stride=(1, 2), dilation=(1, 2), pad=(1, 0, 2, 3))
PIXELS = im2col(PROBLEM, 64, 16, 64)
TAPS = [
    (0, *first_tap(PROBLEM, pixel), 2 * s, r)
    for pixel in range(0, PROBLEM.n * PROBLEM.oh * PROBLEM.ow, 16)
    for r in range(3)
    for s in range(2)
]
OUTPUTS = TensorMap("y", "int8", (320, 10, 4, 1), (320, 3200, 12800), (128, 4, 2, 1), swizzle=128)
TILES = [(c, w, h, 0) for h in range(0, 4, 2) for w in range(0, 10, 4) for c in range(0, 320, 128)]

CASES: dict[str, Case] = {
    "load": Case(PIXELS, array_of(PIXELS, 1), TAPS, "load", slots=2),
    "store": Case(
        OUTPUTS,
        array_of(OUTPUTS, 3),
        TILES,
        "store",
        2,
        np.random.default_rng(4).integers(0, 256, len(TILES) * OUTPUTS.bytes, dtype=np.uint8),
    ),
}


def finding(case: Case, text: str, seed: int) -> str | None:
    path = unoptimised(text)
    kernel = CpuKernel(CPU, Binary(b"", path, "g++", 0.0, {}), case.plan(CPU).launches, seed)
    try:
        return difference(case, *case.on(CpuDevice(CPU, seed), kernel))
    except LaunchError as error:
        return str(error)


def found_by(case: Case, text: str, sanitizer: Sanitizer, seed: int) -> str | None:
    plan = case.plan(CPU)
    arguments, buffers = case.sanitized(plan)
    report = cpu_runtime.run_sanitized(
        text,
        "move",
        sanitizer,
        arguments=arguments,
        buffers=buffers,
        outputs=(0, 2),
        grid=plan.main.grid,
        threads=plan.main.threads,
        shared_bytes=plan.main.smem_bytes,
        cluster=plan.main.cluster,
        seed=seed,
        cache=runtime_cache(),
    )
    if not report.clean:
        return f"{report.kind}\n{report.text}"
    array, tiles = (np.frombuffer(content, np.uint8) for content in report.outputs)
    return difference(case, array, tiles)


@pytest.mark.turns
@pytest.mark.parametrize("seed", [LATE, EARLY])
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_found(name: str, sanitizer: Sanitizer, seed: int) -> None:
    assert found_by(CASES[name], CASES[name].text(CPU), sanitizer, seed) is None


IN_MACHINE_CODE = {
    "load": ("UTMALDG.4D.IM2COL", "SYNCS.PHASECHK.TRANS64.TRYWAIT"),
    "store": ("UTMASTG.4D", "UTMACMDFLUSH"),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", CASES)
def test_it_compiles_to_the_copy_engines_instructions(name: str) -> None:
    source = source_of(CASES[name], GPU)
    try:
        compiler = compiler_for(GPU)
    except CompileError as missing:
        pytest.skip(str(missing))
    cubin, _ = compiler.run(source, None)
    listing = disassembled(cubin)
    assert not [operation for operation in IN_MACHINE_CODE[name] if operation not in listing]
    # A wait or an arrival at cluster scope would flush L1 at every slot.
    assert "MEMBAR.ALL.GPU" not in listing
    assert not [word for word in ("STL", "LDL") if f" {word}" in listing]


def test_a_source_has_no_helper_that_it_does_not_use() -> None:
    text = CASES["load"].text(GPU)
    absent = ("load_tile", "store_tile", "arrive_in_block", "commit_stores", "arrive_at_cluster", "drain", "send(")
    assert not [word for word in (*absent, "fence_proxy_async") if word in text]


class LeftOut(NamedTuple):
    case: str
    old: str
    new: str
    says: str  # one of these
    seeds: tuple[int, ...] = (LATE, EARLY)
    sanitizer: Sanitizer | None = None


RELEASE = "            shared.ring.release(state);\n"
READ = (
    "            for (int byte = t - 32; byte < BYTES; byte += CONSUMERS) args.bytes[i * BYTES + byte] = slot[byte];\n"
)
LEFT_OUT = {
    "a consumer does not wait": LeftOut("load", "            shared.ring.wait(state);\n", "", "", (LATE,)),
    "the producer does not wait": LeftOut(
        "load",
        "        if (state.phase > 0) empty[state.slot].wait_for_phase(state.phase - 1);\n",
        "",
        "bytes are expected before those of the last phase have come",
        (LATE,),
    ),
    "the producer waits for one phase less": LeftOut(
        "load",
        "if (state.phase > 0) empty[state.slot].wait_for_phase(state.phase - 1);",
        "if (state.phase > 1) empty[state.slot].wait_for_phase(state.phase - 2);",
        "",  # a race, or its consequence
        sanitizer="thread",
    ),
    "a release before the slot is read": LeftOut(
        "load", f"{READ}{RELEASE}", f"{RELEASE}{READ}", "data race", sanitizer="thread"
    ),
    "no bytes are expected": LeftOut(
        "load", "        full[state.slot].expect_next(bytes);\n", "", "wait for bytes at line"
    ),
    "fewer bytes are expected": LeftOut(
        "load", "shared.ring.acquire(state, BYTES)", "shared.ring.acquire(state, BYTES - 16)", ""
    ),
    "the uses of a slot are not counted": LeftOut("load", "        ++phase;\n", "", ""),
    "one release is too few": LeftOut("load", "open(CONSUMERS)", "open(CONSUMERS + 1)", "wait for bytes at line"),
    "one release is too many": LeftOut(
        # On a busy machine the producer may be so far ahead that the ring reports it first.
        "load",
        "open(CONSUMERS)",
        "open(CONSUMERS - 1)",
        "data race|that has completed",
        sanitizer="thread",
    ),
    "what threads wrote is not shown": LeftOut("store", "        tile::fence_proxy_async();\n", "", WRONG, (LATE,)),
    "a tile is written again while it is read": LeftOut(
        "store", "            tile::wait_for_store_reads<SLOTS - 1>();\n", "", WRONG, (LATE,)
    ),
    "one store more may be under way": LeftOut(
        "store", "wait_for_store_reads<SLOTS - 1>", "wait_for_store_reads<SLOTS>", WRONG, (LATE,)
    ),
    "a block ends while a tile is read": LeftOut(
        "store",
        "    if (t == 0) tile::wait_for_store_reads<0>();\n",
        "",
        "ends while bytes are on their way to or from its shared memory",
        (LATE,),
    ),
    "no group is committed": LeftOut("store", "            tile::commit_stores();\n", "", "", (LATE,)),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_is_found(name: str) -> None:
    left = LEFT_OUT[name]
    case = CASES[left.case]
    text = case.text(CPU)
    assert text.count(left.old) == 1, f"{left.old!r} occurs {text.count(left.old)} times"
    changed = text.replace(left.old, left.new)
    for seed in left.seeds:
        of = left.sanitizer
        said = finding(case, changed, seed) if of is None else found_by(case, changed, of, seed)
        assert said is not None, f"nothing is found with seed {seed}"
        assert any(one in said for one in left.says.split("|")), said
