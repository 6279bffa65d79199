"""The sum and the product of two elements as data: each line of C++ beside its NumPy line.

It is ONNX Runtime's on x86 with AVX2, operation by operation; the order, and where two are one (fma), were found by
comparing all pairs of bytes. The C++ lines see the elements `a` and `b` as int and the kernel's `args`; they declare
`value`, and the last returns. The NumPy lines see the same by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qconv.dtypes import RANGES
from qconv.op import Array, Sample
from qconv.step import Argument, Step, Values
from qconv.tensor_ops.binary import Add, Binary, BinaryParameters
from qconv.weighted_sum import Linear, Term, offset, ratio

Value = Callable[[Any, BinaryParameters], Any]


def _real(name: str, says: str, value: Value) -> Argument:
    return Argument(name, "float", False, says, value)


def _whole(name: str, says: str, value: Value) -> Argument:
    return Argument(name, "int", False, says, value)


def _offset(problem: Add, p: BinaryParameters) -> Any:
    a, b = Linear(p.a_scale, p.a_zero_point), Linear(p.b_scale, p.b_zero_point)
    first, last = (b, a) if problem.added_first == "b" else (a, b)
    return offset(first, last, Linear(p.y_scale, p.y_zero_point))


def _least(problem: Binary, p: BinaryParameters) -> Any:
    """A relu of the real number is a clamp at its zero."""
    low, _ = RANGES[problem.out_type]
    return max(low, p.y_zero_point) if problem.activation == "relu" else low


A_RATIO = _real("a_ratio", "a_scale / y_scale", lambda problem, p: ratio(p.a_scale, p.y_scale))
B_RATIO = _real("b_ratio", "b_scale / y_scale", lambda problem, p: ratio(p.b_scale, p.y_scale))
OFFSET = _real("offset", "y_zero_point - (a_ratio * a_zero_point + b_ratio * b_zero_point)", _offset)
RATIO = _real("ratio", "a_scale * b_scale / y_scale", lambda problem, p: p.a_scale * p.b_scale / p.y_scale)
A_ZERO = _whole("a_zero", "the zero point of a", lambda problem, p: p.a_zero_point)
B_ZERO = _whole("b_zero", "the zero point of b", lambda problem, p: p.b_zero_point)
Y_ZERO = _real("y_zero", "the zero point of y", lambda problem, p: p.y_zero_point)
LOW = _real("low", "the least output", _least)
HIGH = _real("high", "the largest output", lambda problem, p: RANGES[problem.out_type][1])

ROUND = Step(
    "round",
    "return static_cast<Output>(tile::round_to_int(tile::clamp(value, args.low, args.high)));",
    lambda value, v: np.rint(np.clip(value, v["low"], v["high"])),
    (LOW, HIGH),
)


TERMS = {
    "a": Term("static_cast<float>(a)", lambda value, v: v["a"].astype(np.float32), A_RATIO),
    "b": Term("static_cast<float>(b)", lambda value, v: v["b"].astype(np.float32), B_RATIO),
}


def _add(added_first: str) -> tuple[Step, ...]:
    last_added = "a" if added_first == "b" else "b"
    first, last = TERMS[added_first], TERMS[last_added]
    return (
        Step(
            added_first,
            f"float value = {first.onto('args.offset', 'args')};",
            lambda value, v: first.added(value, v, v["offset"]),
            (first.ratio, OFFSET),
            ("fma",),
        ),
        Step(
            last_added,
            f"value = {last.onto('value', 'args')};",
            lambda value, v: last.added(value, v, value),
            (last.ratio,),
            ("fma",),
        ),
        ROUND,
    )


ADD = {added_first: _add(added_first) for added_first in ("a", "b")}
MUL = (
    Step(
        "product",
        "float value = static_cast<float>((a - args.a_zero) * (b - args.b_zero));",
        lambda value, v: ((v["a"].astype(np.int32) - v["a_zero"]) * (v["b"] - v["b_zero"])).astype(np.float32),
        (A_ZERO, B_ZERO),
    ),
    Step(
        "rescale",
        "value = tile::add(tile::multiply(value, args.ratio), args.y_zero);",
        lambda value, v: value * v["ratio"] + v["y_zero"],
        (RATIO, Y_ZERO),
    ),
    ROUND,
)


def steps(problem: Binary) -> tuple[Step, ...]:
    return ADD[problem.added_first] if isinstance(problem, Add) else MUL


def says(problem: Binary) -> str:
    """What the steps compute, in words."""
    if not isinstance(problem, Add):
        return "  y = clamp(round_half_to_even((a - a_zero) * (b - b_zero) * ratio + y_zero), low, high)"
    first, last = problem.added_first, "a" if problem.added_first == "b" else "b"
    value = f"fma({last}, {last}_ratio, fma({first}, {first}_ratio, offset))"
    return f"  y = clamp(round_half_to_even({value}), low, high)"


def compute(problem: Binary, drawn: Sample) -> tuple[Array, ...]:
    """The oracle: the NumPy lines, one after the other."""
    a, b = drawn.arrays
    p = problem.checked(drawn.parameters)
    values: Values = {"a": a, "b": b.astype(np.int32)[:, np.newaxis, :]}
    for step in steps(problem):
        values |= {one.name: np.asarray(one.value(problem, p), one.dtype) for one in step.arguments}
    value = np.zeros((), np.float32)
    for step in steps(problem):
        value = step.numpy(value, values)
    return (value.astype(problem.out_type),)
