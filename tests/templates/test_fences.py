"""Waits, expectations and fences of kernels, removed one by one: the CPU device notices each removal.

Sources are compiled without optimization and run without a sanitizer: late launches (even seeds) and early ones, the
two extremes of the memory model, give wrong outputs or an error.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from cpu_kernels import unoptimised
from exactness import expected
from exactness import run as outputs_of
from numpy.typing import NDArray
from random_fused import TILE

from qconv import Conv2d, Quantization, generator
from qconv.conversion import Requantize
from qconv.device.cache import Binary
from qconv.device.cpu import CpuDevice, CpuKernel, CpuLaunch, run_overlapped
from qconv.errors import LaunchError
from qconv.generator import Config, Plan
from qconv.generator.families.depthwise import Depthwise
from qconv.generator.families.direct import Direct
from qconv.generator.families.fused.config import Block
from qconv.generator.families.gemv import Gemv
from qconv.generator.families.pointwise import Pointwise
from qconv.generator.families.simt import Simt
from qconv.instances.load.executable import Executable
from qconv.op import Problem
from qconv.ops import registry
from qconv.problem.chain import chain_of
from qconv.targets.target import TARGETS
from qconv.tensor_ops import Add, AveragePool, ChannelShuffle, MaxPool, Table
from tests.templates.test_fused_sanitizers import conv
from tests.templates.test_fused_sanitizers import plan_of as fused
from tests.templates.test_mma_sanitizers import ADDED, WIDE, WRONG
from tests.templates.test_mma_sanitizers import plan_of as matrix

LATE, EARLY = 2, 3
SM_90A = "cpu.sm_90a"
PRODUCT = Conv2d(2, 5, 5, 136, 40, 1, 1)
ADDED_IN_PLACE = Quantization(per_channel=True, residual="int8")
BOTH = Quantization("uint8", "int8", "uint8", True, True, True, True, "int32", "relu6")

PLANS = {
    "cluster": matrix(SM_90A, WIDE, ADDED, split=4, prefetch_fragments=1, pipeline_stages=2),
    # Ten vectors per lane for four blocks: two blocks have one less.
    "cluster, odd": matrix(
        SM_90A, PRODUCT, BOTH, tile_k=32, warp_m=16, tile_n=40, warp_n=40, split=4, pipeline_stages=2
    ),
    # Four blocks have entire tiles, and two share one.
    "cluster, last wave": matrix(
        SM_90A,
        Conv2d(1, 12, 12, 128, 32, 1, 1),
        ADDED,
        split=2,
        split_last_wave=1,
        pipeline_stages=2,
        tile_m=32,
        warp_m=32,
    ),
    "scratch": matrix("cpu.sm_80", WIDE, Quantization(), split=2),
    "dw, pw, cluster": fused(SM_90A, "dw pw", c=32, cluster_blocks=2, weights_in_smem=1, second_n=1),
    "dw, pw, one tile": fused(
        SM_90A, "dw pw", c=32, tile_h=14, tile_w=14, cluster_blocks=2, weights_in_smem=1, second_n=1
    ),
    "dw, pw, fetched": fused(SM_90A, "dw pw", weights_in_smem=1, on_wgmma=1),
    "dense, pw, teams": fused(SM_90A, "dense pw", teams=2, weights_in_smem=2, on_wgmma=2, first_n=4),
    "dense, pw": fused(SM_90A, "dense pw", weights_in_smem=2, on_wgmma=2, first_n=4),
    "pw, dense, pw": fused(SM_90A, "pw dense pw", weights_in_smem=3, on_wgmma=3),
    "dw, pw, streamed": fused(SM_90A, "dw pw", c=32, k=72, warps=16, on_wgmma=1, second_n=1),
    # Three units per warp, in two stages; channels that are written one by one.
    "pointwise, residuals": generator.plan(
        Conv2d(1, 28, 29, 24, 21, 1, 1, quantization=ADDED_IN_PLACE),
        Pointwise(1, 1, atoms=2, pipeline_stages=2, warps=4, blocks_per_sm=1, weights_in_smem=0),
        TARGETS[SM_90A],
    ),
}


def executable_of(plan: Plan, text: str, seed: int) -> Executable:
    path = unoptimised(text)
    binary = Binary(b"", path, "g++", 0.0, {})
    return Executable(plan, binary, CpuKernel(plan.target, binary, plan.launches, seed), CpuDevice(plan.target, seed))


def finding(plan: Plan, text: str, seed: int) -> str | None:
    """Return the runtime's message, `wrong`, or None."""
    drawn = registry.draw(plan.problem, 1)
    try:
        y = outputs_of(executable_of(plan, text, seed), drawn)
    except LaunchError as error:
        return str(error)
    return None if y.tobytes() == expected(plan.problem, drawn).tobytes() else WRONG


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_left_out(name: str) -> None:
    text = generator.render(PLANS[name]).text
    assert [finding(PLANS[name], text, seed) for seed in (LATE, EARLY)] == [None, None]


class LeftOut(NamedTuple):
    plan: str
    old: str
    new: str
    says: str  # part of the message, or `wrong`
    seed: int = LATE
    also: tuple[str, str] | None = None  # an accompanying change, and its place


def check_left_out(plan: Plan, bug: LeftOut) -> None:
    text = generator.render(plan).text
    for old, new in ((bug.old, bug.new), *((bug.also,) if bug.also else ())):
        assert text.count(old) == 1, "the text to replace has changed: leave it out anew"
        text = text.replace(old, new)
    found = finding(plan, text, bug.seed)
    assert found is not None
    assert any(one in found for one in bug.says.split("|")), found


LEFT_OUT = {
    "the group of the next unit": LeftOut(
        "pointwise, residuals",
        "stream.y[stage], next, copies);\n        copies.commit();\n",
        "stream.y[stage], next, copies);\n",
        "more asynchronous copies than COPIES_IN_FLIGHT",
    ),
    "the residuals of the next unit": LeftOut(
        "pointwise, residuals", "stream.y[stage], next, copies);", "stream.y[stage], unit, copies);", WRONG
    ),
    "that a unit's outputs have left": LeftOut(
        "pointwise, residuals",
        "        store_unit(args, y, unit);\n",
        "        load_unit<Residual, K>(args.residual, stream.y[stage], next, copies);\n"
        "        store_unit(args, y, unit);\n",
        WRONG,
        EARLY,
    ),
    "expected bytes of a block": LeftOut(
        "cluster", "expect(units * SPLIT * BYTES)", "expect(units * (SPLIT - 1) * BYTES)", "ends while bytes are on"
    ),
    "expected bytes of a block, early": LeftOut(
        "cluster",
        "expect(units * SPLIT * BYTES)",
        "expect(units * (SPLIT - 1) * BYTES)",
        "bytes for a block that has ended",
        EARLY,
    ),
    "expected bytes of the last unit": LeftOut(
        "cluster, odd", "(UNITS - rank + SPLIT - 1) / SPLIT", "UNITS / SPLIT", "ends while bytes are on|wait for bytes"
    ),
    "the wait for the cluster's mbarriers": LeftOut(
        "cluster",
        "    tile::wait_for_cluster();  // every block has initialised its mbarrier\n",
        "",
        "nobody has initialised an mbarrier there",
    ),
    "the wait for the others' sums": LeftOut(
        "cluster", "    shared.mbarrier.wait_for_sent();\n", "", "ends while bytes are on"
    ),
    "the end of the units": LeftOut("cluster, odd", "if (UNITS % SPLIT != 0 && unit >= UNITS) return;", "", WRONG),
    "publish": LeftOut("scratch", "    tile::publish();\n", "", WRONG),
    "the fence of what a cluster sends": LeftOut(
        "dw, pw, cluster",
        "        tile::fence_proxy_async();  // for the bytes that the block sends, and for warpgroups\n",
        "",
        WRONG,
    ),
    "the fence before the first of two": LeftOut(
        "dense, pw",
        "            first.fence_input();\n",
        "",
        WRONG,
    ),
    "the fence before the second of two": LeftOut(
        "dw, pw, fetched",
        "        second.fence_input();\n",
        "",
        WRONG,
    ),
    "the fence before the third of three": LeftOut(
        "pw, dense, pw",
        "        third.fence_input();\n",
        "",
        WRONG,
    ),
    "the fence of the teams' weights": LeftOut(
        "dense, pw, teams",
        "    tile::fence_proxy_async();\n    tile::barrier();  // the weights",
        "    tile::barrier();  // the weights",
        WRONG,
    ),
    "the fence of a team's input": LeftOut(
        "dense, pw, teams",
        "            first.fence_input();\n",
        "",
        WRONG,
    ),
    "a fence by all but one thread": LeftOut(
        "dw, pw, fetched",
        "        second.fence_input();\n",
        "        if (tile::thread() != 7) second.fence_input();\n",
        WRONG,
    ),
    "the wait until the cluster has read": LeftOut(
        "dw, pw, cluster",
        "        tile::wait_for_cluster();  // no byte of this block's part is under way any more\n",
        "",
        "second arrival at the barrier of the cluster",
    ),
    "the barrier before a cluster sends": LeftOut(
        "dw, pw, one tile",
        "        tile::wait_for_cluster();  // the other blocks expect the part, and have used the last tile's\n",
        "",
        "nobody has initialised an mbarrier there",
        LATE,
        ("bytes_of_others());\n    tile::arrive_at_cluster();", "bytes_of_others());"),
    ),
    "the barrier at the end of a cluster": LeftOut(
        "dw, pw, one tile",
        "        tile::wait_for_cluster();  // no byte of this block's part is under way any more\n",
        "",
        "ends while bytes are on their way to or from its shared memory",
        LATE,
        ("wait_for_phase(team.phase);\n        tile::arrive_at_cluster();", "wait_for_phase(team.phase);"),
    ),
    "the wait for the second tile's phase": LeftOut(
        "dw, pw, cluster",
        "wait_for_phase(team.phase)",
        "wait_for_phase(0)",
        "before those of the last phase have come",
    ),
    "the bytes of the second tile": LeftOut(
        "dw, pw, cluster",
        "            if (tile::thread() == 0) shared.mbarrier.expect_next(part.bytes_of_others());\n",
        "",
        "wait for bytes at line",
    ),
    "the wait for the weights": LeftOut(
        "dw, pw, fetched",
        "        if (is_first_tile) second.await_weights();\n",
        "",
        "ends while bytes are on",
    ),
    "the wait for a slab": LeftOut(
        "dw, pw, streamed",
        "    smem.mbarrier[buffer].wait_for_phase(number / BUFFERS);\n",
        "",
        "expected before those of the last phase have come",
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_is_found(name: str) -> None:
    check_left_out(PLANS[LEFT_OUT[name].plan], LEFT_OUT[name])


LAYER = matrix(SM_90A, Conv2d(1, 6, 6, 32, 32, 3, 3, pad=1), Quantization(), split=2)
WAIT = "tile::wait_on_dependency();\n"
ADDING = Quantization(residual="int8")
ROWS = Depthwise(rows=2, columns=2, vector=4, run=1, threads=64)


def layer(problem: Conv2d, config: Config) -> Plan:
    return generator.plan(problem, config, TARGETS[SM_90A])


def default(problem: Problem) -> Plan:
    return generator.default(problem, TARGETS[SM_90A])


def back_to_back(kinds: str, c: int = 32, residual: str = "none", **config: int) -> Plan:
    """Return a chain whose output has the form of its input."""
    quantizations = [*(Quantization() for _ in kinds.split()[1:]), Quantization(residual=residual)]
    chain = [conv(kind, c, c, q) for kind, q in zip(kinds.split(), quantizations, strict=True)]
    tile = TILE if len(chain) == 2 else Block(**vars(TILE), third_m=1, third_n=2)
    return generator.plan(chain_of(chain), replace(tile, **config), TARGETS[SM_90A])


UNITS = Pointwise(batch=1, batches=1, atoms=2, pipeline_stages=2, warps=4, blocks_per_sm=1, weights_in_smem=1)
# Layers whose launches can read the previous one's output.
OVERLAPPING = {
    "mma": LAYER,
    "pointwise": generator.plan(Conv2d(1, 9, 9, 40, 40, 1, 1), UNITS, TARGETS[SM_90A]),
    "depthwise": layer(Conv2d(1, 9, 9, 40, 40, 3, 3, pad=1, groups=40, quantization=ADDING), ROWS),
    "gemv": layer(Conv2d(3, 1, 1, 40, 40, 1, 1, quantization=ADDING), Gemv(1, 2, lanes=8, threads=64)),
    "gemv, byte by byte": layer(Conv2d(3, 1, 1, 21, 21, 1, 1, quantization=ADDING), Gemv(1, 2, lanes=8, threads=64)),
    "simt": layer(Conv2d(1, 9, 9, 40, 40, 3, 3, pad=1, quantization=ADDING), Simt(16, 16, 32, 2, 2, 2)),
    "simt, byte by byte": layer(Conv2d(1, 9, 9, 21, 21, 3, 3, pad=1, quantization=ADDING), Simt(16, 16, 32, 2, 2, 2)),
    "direct": layer(
        Conv2d(1, 9, 9, 32, 32, 3, 3, pad=1, groups=8, quantization=ADDING),
        Direct(tile_h=8, tile_w=8, slabs=1, warps=4, batch=1, blocks_per_sm=2),
    ),
    "depthwise, byte by byte": layer(Conv2d(1, 9, 9, 21, 21, 3, 3, pad=1, groups=21, quantization=ADDING), ROWS),
    "dw, pw": back_to_back("dw pw", residual="int8"),
    "dw, pw, cluster": back_to_back("dw pw", cluster_blocks=2, weights_in_smem=1, second_n=1),
    "dw, pw, teams": back_to_back("dw pw", teams=2, weights_in_smem=1, on_wgmma=1),
    "pw, pw, byte by byte": back_to_back("pw pw", c=21),
    "table": default(Table(1000)),
    "sum": default(Add(1, 1, 1000)),
    "max pool": default(MaxPool(2, 9, 9, 24, 3, 3, pad=1)),
    "average pool": default(AveragePool(2, 9, 9, 24, 3, 3, pad=1)),
    "shuffle": default(ChannelShuffle(99, 8, 8)),
    "requantize": default(Requantize(1, 1, 1000)),
    "pw, dw, pw": back_to_back("pw dw pw", weights_in_smem=2),
}


def overlapped(plan: Plan, text: str, seed: int) -> list[NDArray[Any]]:
    """Run three layers, each of which reads the previous output, also as its residual if it has one; the last
    overwrites the first one's input."""
    drawn = [registry.draw(plan.problem, i) for i in range(3)]
    instance = executable_of(plan, text, seed)
    x = drawn[0].arrays[0].copy()
    outs = [np.full_like(x, 0x5A), np.full_like(x, 0x5A), x]
    bounds = [
        instance.bind(*reading(given, plan, each.arrays), out=out, overlap=True, **each.parameters)
        for given, each, out in zip((x, *outs[:2]), drawn, outs, strict=True)
    ]
    launches = [bound.launch for bound in bounds]
    assert all(isinstance(launch, CpuLaunch) for launch in launches)
    run_overlapped(launches)  # type: ignore[arg-type]
    return outs


def one_after_the_other(plan: Plan) -> list[NDArray[Any]]:
    drawn = [registry.draw(plan.problem, i) for i in range(3)]
    outs = [drawn[0].arrays[0]]
    for each in drawn:
        outs.append(expected(plan.problem, replace(each, arrays=reading(outs[-1], plan, each.arrays))))
    return outs[1:]


def check_two_waits(layer: Plan) -> None:
    """Check a page in which one thread loads activations, and others read parameters."""
    text = generator.render(layer).text
    want = one_after_the_other(layer)
    # the thread that loads activations, and those that read parameters
    fetches, reads = re.finditer(re.escape(WAIT), text)
    assert fetches.start() < reads.start()
    of_activations = text[: reads.start()] + text[reads.end() :]  # in these launches all parameters are equal
    for seed in (LATE, EARLY):
        for waits in (text, of_activations):
            assert all(map(np.array_equal, overlapped(layer, waits, seed), want))
    found = overlapped(layer, of_activations.replace(WAIT, ""), LATE)
    assert not any(map(np.array_equal, found[1:], want[1:]))


def reading(x: Any, plan: Plan, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a layer's arrays, with these activations and, if it has a residual, this residual."""
    names = [tensor.name for tensor in plan.problem.inputs]
    return tuple(x if name in ("x", "residual", "a") else own for name, own in zip(names, arrays, strict=True))


@pytest.mark.turns
@pytest.mark.parametrize("name", OVERLAPPING)
def test_a_launch_waits_for_the_one_before(name: str) -> None:
    plan = OVERLAPPING[name]
    text = generator.render(plan).text
    want = one_after_the_other(plan)
    for seed in (LATE, EARLY):
        assert all(map(np.array_equal, overlapped(plan, text, seed), want))
    assert text.count(WAIT) == 1
    found = overlapped(plan, text.replace(WAIT, ""), LATE)
    assert not any(map(np.array_equal, found[1:], want[1:]))
    # Without overlap no wait is needed.
    assert all(map(np.array_equal, overlapped(plan, text.replace(WAIT, ""), EARLY), want))
