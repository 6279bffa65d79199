"""The list of ops, and the functions that dispatch on a problem's op: `parse` a key, `draw` random data, `compute` the
oracle.

`draw` guarantees `variety`: among 256 outputs or more there are at least 32 values, none of them in more than half, and
no channel is constant. The same holds for every tensor between the convolutions of a chain. Where a problem permits no
such data, the sample says why. Data is calibrated and judged on the exact sums of some outputs (`window`).

A quarter of the samples have scales that are powers of two, and most of these have coarse operands as well, which makes
many ties. Large problems do not, because they are timed, and a GPU's speed depends on the bits that toggle. Up to 5 %
of requantized outputs saturate at each end. A fifth of the zero points lie at an end of their range, and three tenths
near its middle.
"""

from __future__ import annotations

from qconv import plugins
from qconv.conversion import ops as conversion
from qconv.expression import attention, matmul, reduce
from qconv.expression import map as mapping
from qconv.op import Array, Op, Problem, Sample, parts_of_key, quoted
from qconv.ops import chain, convolution, pooled, transposed
from qconv.tensor_ops import argmax, binary, concat, nms, pooling, shuffle, table

# The ops of this package.
OPS: tuple[Op, ...] = (
    convolution.OP,
    transposed.OP,
    chain.OP,
    pooled.OP,
    *conversion.OPS,
    *binary.OPS,
    table.OP,
    concat.OP,
    *pooling.OPS,
    argmax.OP,
    shuffle.OP,
    nms.OP,
    mapping.OP,
    reduce.OP,
    matmul.OP,
    attention.OP,
)


def outside() -> tuple[Op, ...]:
    """Return the ops of other packages."""
    return tuple(plugins.loaded(plugins.OPS, Op, {op.name for op in OPS}).values())


def op_named(name: str) -> Op | None:
    own = next((op for op in OPS if op.name == name), None)
    return own or next((op for op in outside() if op.name == name), None)


def op_of(problem: Problem) -> Op:
    for ops in (OPS, None):
        for op in outside() if ops is None else ops:
            if type(problem) in op.problems:
                return op
    raise ValueError(f"{type(problem).__name__} is no problem of an op: give its op a row in qconv.ops.registry")


def parse(key: str) -> Problem:
    """Return the problem of a key. Order is free and defaults may be omitted; unknown and duplicate fields are
    rejected."""
    if not isinstance(key, str):
        raise ValueError(f"{quoted(key)} is no key of a problem: give a text such as str(problem)")
    name = key.strip().partition(":")[0]
    parts = parts_of_key(key)
    joined = {part.strip().partition(":")[0] for part in parts} if len(parts) > 1 else set()
    alone = [op for op in OPS if not op.joins]
    takers = [op for op in OPS if op.joins and op.joins in joined] or [op for op in alone if op.name == name]
    takers = takers or [op for op in outside() if op.name == name]
    if takers:
        return takers[0].read(key)
    known = ", ".join(op.name for op in (*alone, *outside()))
    raise ValueError(f"the key {quoted(key)} names the op {quoted(name)}; known: {known}")


def problem_of(given: Problem | str) -> Problem:
    """Return the problem itself, or parse its key."""
    if isinstance(given, Problem):
        return given
    if not isinstance(given, str):
        raise ValueError(f"{quoted(given)} is no problem: give one, such as a qconv.Conv2d, or the key of one")
    return parse(given)


def is_key(word: str) -> bool:
    """True for a text that begins with the name of an op, as a key does; a part of a key may begin anywhere."""
    return ":" in word and "=" not in word.partition(":")[0]


__all__ = ["Sample", "draw"]


def draw(problem: Problem, seed: int, fixed: dict[str, int] | None = None) -> Sample:
    """Draw random data for a problem. The same seed gives the same sample. `fixed` holds zero points that the caller
    chose."""
    return op_of(problem).draw(problem, seed, fixed or {})


def compute(problem: Problem, drawn: Sample) -> tuple[Array, ...]:
    """Return the outputs that every kernel must reproduce bit for bit."""
    return op_of(problem).compute(problem, drawn)
