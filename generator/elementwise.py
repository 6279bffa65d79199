"""The `elementwise` family: quantize, dequantize and requantize at the speed of a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qconv.conversion import Dequantize, Quantize, Requantize
from qconv.dtypes import DATA_TYPES
from qconv.errors import Infeasible
from qconv.generator.convert import aliases, argument_fields, dimensions
from qconv.generator.plan import Config, Constant, Launch, at_most, ceil_div, check_choices
from qconv.generator.plan import Untyped as Plan
from qconv.target import Target

MOST_BYTES = 256  # of x that a thread has in flight


@dataclass(frozen=True)
class Elementwise(Config):
    family: ClassVar[str] = "elementwise"
    threads: int
    vector: int  # neighbouring elements of a thread
    unroll: int  # vectors that a thread has in flight


CHOICES: dict[str, tuple[int, ...]] = {
    "threads": (64, 128, 256, 512),
    "vector": (1, 4, 8, 16),
    "unroll": (1, 2, 4, 8),
}


def plan(problem: Quantize | Dequantize | Requantize, config: Elementwise, target: Target) -> Plan:
    check_choices(config, CHOICES)
    x_bytes, y_bytes = DATA_TYPES[problem.x_type].bytes, DATA_TYPES[problem.out_type].bytes
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    at_most(config.vector * config.unroll * max(x_bytes, y_bytes), MOST_BYTES, "bytes a thread has in flight")
    tile = config.threads * config.vector * config.unroll
    if config.vector > 1:
        at_most(tile, max(2 * problem.elements, 2 * 64 * 4), f"elements of a tile (the problem has {problem.elements})")
    if config.vector == 1 and problem.elements >= 2 * 64 * 4:
        raise Infeasible("vector=1 loads element by element; only arrays of fewer than 512 need it")
    return Plan(
        problem=problem,
        config=config,
        target=target,
        page="convert/elementwise.j2",
        constants={
            "The problem.": (Constant("ELEMENTS", problem.elements), *dimensions(problem)),
            "The config.": (
                Constant("THREADS", config.threads),
                Constant("VECTOR", config.vector, "neighbouring elements of a thread"),
                Constant("UNROLL", config.unroll, "vectors that a thread has in flight"),
            ),
            "What follows.": (
                Constant("ONE_SCALE", problem.granularity == "tensor", "for the array"),
                Constant("SHARED_SCALE", _is_shared(problem, config.vector), "by the elements of a vector"),
            ),
        },
        launches=(Launch(problem.op, (ceil_div(problem.elements, tile), 1, 1), config.threads, 0),),
        fields=argument_fields(problem),
        alignment=alignment(problem, config.vector),
        aliases=aliases(problem),
    )


def _is_shared(problem: Quantize | Dequantize | Requantize, vector: int) -> bool:
    if problem.block:
        return problem.inner == 1 and problem.block % vector == 0 and problem.channels % vector == 0
    return problem.channels == 1 or problem.inner % vector == 0


def alignment(problem: Quantize | Dequantize | Requantize, vector: int) -> dict[str, int]:
    sizes = {t.name: DATA_TYPES[t.dtype].bytes for t in (*problem.inputs, *problem.outputs)}
    return sizes | {name: min(16, vector * sizes[name]) for name in ("x", "y")}


def cost(plan: Plan) -> float:
    """Bytes in flight hide latency; more than a few vectors a thread, or few blocks, do not."""
    config, problem = plan.config, plan.problem
    assert isinstance(config, Elementwise)
    assert isinstance(problem, Quantize | Dequantize | Requantize)
    in_flight = config.vector * config.unroll * DATA_TYPES[problem.x_type].bytes
    narrow = config.vector * min(DATA_TYPES[problem.x_type].bytes, DATA_TYPES[problem.out_type].bytes)
    short = max(1.0, 264 / plan.main.grid[0])
    return abs(in_flight - 64) + 4 * max(0, 8 - narrow) + abs(config.threads - 256) / 16 + 20 * (short - 1)
