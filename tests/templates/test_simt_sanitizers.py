"""Generated kernels under the sanitizers: they are clean, and planted bugs are found.

Buffers are exactly as long as their arrays. The address sanitizer detects every access next to them and all undefined
behaviour, the thread sanitizer every missing barrier and every output that two blocks write.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
from exactness import expected, random_plan
from random_problems import problems

from qconv import Conv2d, Quantization, generator
from qconv.device import open_device
from qconv.device.cpu_runtime import Sanitizer
from qconv.generator import Plan
from qconv.generator.families.simt import Simt
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tuner.measure.sanitized import run

EVERYTHING = Quantization("uint8", "int8", "uint8", True, True, True, True, "int32", "relu6")
HALF = Quantization("int8", "uint8", "float16", x_zero_point=True, bias="float32", activation="relu")
ADDED = Quantization(w_zero_point=True, activation="relu", residual="uint8", residual_zero_point=True)
WHOLE = Quantization("uint8", "uint8", "int32", x_zero_point=True, w_zero_point=True)

BYTES = Conv2d(1, 7, 7, 3, 18, 3, 3, pad=1)
VECTORS = Conv2d(1, 7, 7, 16, 20, 3, 3, pad=1)
GROUPED = Conv2d(2, 5, 4, 24, 54, 2, 3, stride=(1, 2), dilation=(2, 1), pad=(0, 2, 1, 2), groups=3)
DEPTHWISE = Conv2d(1, 6, 6, 8, 16, 3, 3, pad=1, groups=8)


def plan_of(problem: Conv2d, quantization: Quantization, *config: int) -> Plan:
    return generator.plan(replace(problem, quantization=quantization), Simt(*config), TARGETS["cpu"])


# Tiles that the problem does not fill, and several steps along the reduction.
# tile_m, tile_n, tile_k, thread_m, thread_n, stages
PLANS = {
    "bytes, in place": plan_of(BYTES, Quantization(), 32, 32, 16, 4, 4, 1),
    "bytes, everything, two stages": plan_of(BYTES, EVERYTHING, 32, 32, 16, 4, 4, 2),
    "vectors, everything, in place": plan_of(VECTORS, EVERYTHING, 32, 32, 32, 4, 4, 1),
    "vectors, two stages": plan_of(VECTORS, Quantization(), 32, 32, 64, 4, 4, 2),
    "grouped": plan_of(GROUPED, WHOLE, 32, 16, 16, 4, 4, 2),
    "bytes, a residual": plan_of(BYTES, ADDED, 32, 32, 16, 4, 4, 1),
    "vectors, a residual": plan_of(VECTORS, ADDED, 32, 32, 32, 4, 4, 2),
    "depthwise": plan_of(DEPTHWISE, HALF, 32, 4, 16, 2, 1, 1),
}


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_nothing_is_found(plan: Plan, sanitizer: Sanitizer) -> None:
    check(plan, sanitizer, seed=7)


def check(plan: Plan, sanitizer: Sanitizer, seed: int) -> None:
    drawn = registry.draw(plan.problem, seed)
    report, outs = run(plan, drawn, sanitizer, seed=seed)
    assert (report.kind, report.text) == ("clean", ""), f"{plan.problem} {plan.config}"
    assert [out.tobytes() for out in outs] == [expected(plan.problem, drawn).tobytes()]


@pytest.mark.turns
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 60, 5))
def test_nothing_is_found_in_random_problems(first: int) -> None:
    for index, problem in enumerate(problems(seed=6, count=60)[first : first + 5], first):
        check(random_plan(problem, open_device("cpu"), index), ("address", "thread")[index % 2], seed=index)


class Planted(NamedTuple):
    plan: str
    old: str
    new: str
    sanitizer: Sanitizer
    kind: str
    says: str  # part of the report


PLANTED: dict[str, Planted] = {
    "no barrier after the first tile": Planted(
        "bytes, in place",
        "    tile::barrier();\n\n    Accumulators",
        "\n    Accumulators",
        "thread",
        "data race",
        "put<",
    ),
    "no barrier between reading and overwriting": Planted(
        "vectors, everything, in place",
        "if constexpr (PIPELINE_STAGES == 1) tile::barrier();",
        "",
        "thread",
        "data race",
        "put<",
    ),
    "no barrier between two stages": Planted(
        "vectors, two stages",
        "            tile::barrier();\n        }\n    }\n    store(",
        "        }\n    }\n    store(",
        "thread",
        "data race",
        "put<",
    ),
    "no barrier in the sum over the weights": Planted(
        "grouped",
        "        tile::barrier();\n        if (tile::thread() < half)",
        "        if (tile::thread() < half)",
        "thread",
        "data race",
        "conv2d_fold",
    ),
    # In vectors: the thread sanitizer tracks only some single bytes.
    "two blocks that write the same pixels": Planted(
        "vectors, two stages",
        "const int pixel_tile = tile::block_x() * TILE_M;",
        "const int pixel_tile = tile::block_x() * (TILE_M / 2);",
        "thread",
        "data race",
        "store(",
    ),
    "a barrier that half of the threads meet": Planted(
        "bytes, in place",
        "    tile::barrier();\n\n    Acc",
        "    if (tile::thread() < 32) tile::barrier();\n\n    Acc",
        "address",
        "runtime error",
        ": 32 of 64 threads wait at line ",
    ),
    "a pixel too many is written": Planted(
        "bytes, in place",
        "if (pixel >= PIXELS) continue;",
        "if (pixel > PIXELS) continue;",
        "address",
        "heap-buffer-overflow",
        "WRITE of size",
    ),
    "a pixel too many is read": Planted(
        "vectors, two stages",
        "const bool exists = pixel < PIXELS;",
        "const bool exists = pixel <= PIXELS;",
        "address",
        "heap-buffer-overflow",
        "READ of size",
    ),
    "a residual too many": Planted(
        "bytes, a residual",
        "if (k + v < k_end) {",
        "if (k + v <= k_end) {",
        "address",
        "heap-buffer-overflow",
        "READ of size 1",
    ),
    "a row of the image too many": Planted(
        "bytes, in place", "row < IN_H", "row <= IN_H", "address", "heap-buffer-overflow", "READ of size 1"
    ),
    "a channel too many": Planted(
        "vectors, two stages",
        "const bool exists = k < k_end",
        "const bool exists = k <= k_end",
        "address",
        "heap-buffer-overflow",
        "READ of size",
    ),
    "a weight too many": Planted(
        "bytes, everything, two stages",
        "!exists || index + j >= REDUCTION",
        "!exists || index + j > REDUCTION",
        "address",
        "heap-buffer-overflow",
        "READ of size 1",
    ),
    "a row past the tile": Planted(
        "vectors, two stages",
        "operand[run.byte / 4 + j][run.row] =",
        "operand[run.byte / 4 + j][run.row + 8] =",
        "address",
        "undefined behaviour",
        "out of bounds for type 'unsigned int [36]'",
    ),
    "a stage too many": Planted(
        "vectors, two stages",
        "shared.x[(step + 1) % PIPELINE_STAGES]",
        "shared.x[(step + 3) % (PIPELINE_STAGES + 2)]",
        "address",
        "undefined behaviour",
        "index 3 out of bounds",
    ),
    "a vector at an odd address": Planted(
        "vectors, two stages",
        "(row + i / VECTOR * STRIDE)",
        "(row + 1 + i / VECTOR * STRIDE)",
        "address",
        "undefined behaviour",
        "misaligned address",
    ),
    "a sum that overflows": Planted(
        "bytes, everything, two stages",
        "Sum sum = 0;\n    for",
        "Sum sum = 2147483647 - tile::thread();\n    for",
        "address",
        "undefined behaviour",
        "signed integer overflow",
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    bug = PLANTED[name]
    plan = PLANS[bug.plan]
    text = generator.render(plan).text
    assert text.count(bug.old) == 1, "the text to replace has changed: plant the bug anew"
    report, outs = run(plan, registry.draw(plan.problem, 1), bug.sanitizer, source=text.replace(bug.old, bug.new))
    assert (report.clean, report.kind) == (False, bug.kind), report.text
    assert bug.says in report.text
    assert not outs
