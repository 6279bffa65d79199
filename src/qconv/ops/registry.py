"""The list of ops, and everything that is asked of a problem's op: its key read back, random data, the oracle.

`draw` guarantees `variety`: of 256 outputs or more at least 32 values, none of them in more than half, and no channel
constant; so does every tensor between the convolutions of a chain. Where a problem allows no such data, the sample says
why. It is calibrated on the sums of some outputs, computed exactly (`window`), and judged by these.

On purpose: a quarter of the samples have scales that are powers of two, and most of these coarse operands besides,
which make many ties (not large ones, which are timed: what a GPU takes depends on the bits that toggle); of requantized
outputs up to 5 % saturate at each end; zero points are at an end of their range in a fifth of the cases, and near its
middle in three tenths.
"""

from __future__ import annotations

from qconv.conversion import ops as conversion
from qconv.op import BETWEEN, Array, Op, Problem, Sample, quoted
from qconv.ops import chain, convolution, pooled
from qconv.tensor_ops import argmax, binary, concat, pooling, shuffle, table

OPS: tuple[Op, ...] = (
    convolution.OP,
    chain.OP,
    pooled.OP,
    *conversion.OPS,
    *binary.OPS,
    table.OP,
    concat.OP,
    *pooling.OPS,
    argmax.OP,
    shuffle.OP,
)


def op_named(name: str) -> Op | None:
    return next((op for op in OPS if op.name == name), None)


def op_of(problem: Problem) -> Op:
    for op in OPS:
        if type(problem) in op.problems:
            return op
    raise ValueError(f"{type(problem).__name__} is no problem of an op: give its op a row in qconv.ops.registry")


def parse(key: str) -> Problem:
    """The problem that a key names. Order and omitted defaults are free; anything unknown or given twice is refused."""
    if not isinstance(key, str):
        raise ValueError(f"{quoted(key)} is no key of a problem: give a text such as str(problem)")
    name = key.strip().partition(":")[0]
    joined = {part.strip().partition(":")[0] for part in key.split(BETWEEN)} if BETWEEN in key else set()
    alone = [op for op in OPS if not op.joins]
    takers = [op for op in OPS if op.joins and op.joins in joined] or [op for op in alone if op.name == name]
    if takers:
        return takers[0].read(key)
    known = ", ".join(op.name for op in alone)
    raise ValueError(f"the key {quoted(key)} names the op {quoted(name)}; known: {known}")


def problem_of(given: Problem | str) -> Problem:
    """The problem itself, or that of its key."""
    if isinstance(given, Problem):
        return given
    if not isinstance(given, str):
        raise ValueError(f"{quoted(given)} is no problem: give one, such as a qconv.Conv2d, or the key of one")
    return parse(given)


def is_key(word: str) -> bool:
    """A key begins with the name of an op; a part of one may begin anywhere."""
    return ":" in word and "=" not in word.partition(":")[0]


__all__ = ["Sample", "draw"]


def draw(problem: Problem, seed: int, fixed: dict[str, int] | None = None) -> Sample:
    """`fixed` holds zero points that the caller chose. Same seed, same sample."""
    return op_of(problem).draw(problem, seed, fixed or {})


def compute(problem: Problem, drawn: Sample) -> tuple[Array, ...]:
    """The outputs that every kernel must give, bit for bit."""
    return op_of(problem).compute(problem, drawn)
