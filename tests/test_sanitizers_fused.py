"""Two convolutions in one kernel, under the sanitizers of the CPU device: only planted bugs are found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from random_fused import fused_plan, fused_problems
from test_sanitizers_mma import EARLY, LATE, OVERFLOW, RACE, READ, WRITE, WRONG, Planted, check, check_planted

from qconv import Conv2d, FusedConv2d, Quantization, generator
from qconv.generator import Plan
from qconv.generator.fused import Fused
from qconv.target import TARGETS

GIVES = Quantization("uint8", "int8", "uint8", True, True, False, True, "int32", "relu6")
TAKES = Quantization("uint8", "int8", "int8", True, True, True, True, "int32", residual="int8")
# Tiles that the problem does not fill, and fewer blocks than tiles.
TILE = Fused(tile_h=4, tile_w=7, warps=4, residents=1, first_m=1, first_n=2, second_m=1, second_n=2)


def plan_of(target: str, kinds: tuple[str, str], config: Fused = TILE, c: int = 16, k: int = 24) -> Plan:
    def conv(kind: str, n: int, h: int, c: int, k: int, q: Quantization) -> Conv2d:
        groups = {"dw": c, "grouped": 2}.get(kind, 1)
        r = 1 if kind == "pw" else 3
        return Conv2d(n, h, h, c, c if kind == "dw" else k, r, r, pad=r // 2, groups=groups, quantization=q)

    signed = "mfma" in TARGETS[target].instructions[0].name if TARGETS[target].instructions else False
    gives = replace(GIVES, x_type="int8", out_type="int8") if signed else GIVES
    takes = replace(TAKES, x_type="int8") if signed else TAKES
    first = conv(kinds[0], 2, 9, c, 32, gives)
    return generator.plan(FusedConv2d(first, conv(kinds[1], 2, 9, first.k, k, takes)), config, TARGETS[target])


SM_80 = "cpu.sm_80"
PLANS = {
    "dw, pw": plan_of(SM_80, ("dw", "pw")),
    "pw, dw": plan_of(SM_80, ("pw", "dw"), replace(TILE, second_m=2)),
    "dense, grouped": plan_of(SM_80, ("dense", "grouped")),
    "bytes": plan_of(SM_80, ("dense", "pw"), c=11, k=21),
    "registers": plan_of("cpu.sm_75", ("dense", "dense")),
    "mfma": plan_of("cpu.gfx942", ("pw", "dense"), replace(TILE, first_n=1)),
    "wmma, copies of operands": plan_of("cpu.gfx1100", ("dw", "pw"), replace(TILE, second_n=1)),
}
QUICK = {"dw, pw", "no barrier between the two"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in PLANS]
)
def test_nothing_is_found_by_address(name: str) -> None:
    check(PLANS[name], "address", LATE)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_found_by_thread(name: str) -> None:
    check(PLANS[name], "thread", EARLY)


@pytest.mark.slow
@pytest.mark.parametrize("name", [SM_80, "cpu.sm_75", "cpu.gfx942", "cpu.gfx1201"])
def test_nothing_is_found_in_random_problems(name: str) -> None:
    for index, problem in enumerate(fused_problems(6, 6, TARGETS[name])):
        check(fused_plan(problem, TARGETS[name], index), ("address", "thread")[index % 2], seed=index)


BETWEEN = "        tile::barrier();\n        if (index"
PLANTED = {
    "no barrier between the two": Planted("dw, pw", BETWEEN, "        if (index", "thread", RACE, "load"),
    "no barrier between tiles": Planted("pw, dw", "  // the input is there", "  //", "thread", RACE, "put"),
}
