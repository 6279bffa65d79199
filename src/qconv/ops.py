"""The list of ops: a module that exports one has a row here."""

from __future__ import annotations

from qconv import chain, convolution, pooled_op
from qconv.conversion import ops as conversion
from qconv.op import Op, Problem
from qconv.tensor_ops import ops as tensor_ops

OPS: tuple[Op, ...] = (
    convolution.OP,
    chain.OP,
    pooled_op.OP,
    *conversion.OPS,
    *tensor_ops.OPS,
)


def op_named(name: str) -> Op | None:
    return next((op for op in OPS if op.name == name), None)


def op_of(problem: Problem) -> Op:
    for op in OPS:
        if type(problem) in op.problems:
            return op
    raise ValueError(f"{type(problem).__name__} is no problem of an op: give its op a row in qconv.ops")
