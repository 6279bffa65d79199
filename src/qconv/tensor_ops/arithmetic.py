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
from qconv.fma import fma
from qconv.op import Array, Sample
from qconv.step import Argument, Step, Values
from qconv.tensor_ops.binary import Add, Binary, BinaryParameters

Value = Callable[[Binary, BinaryParameters], Any]


def _real(name: str, says: str, value: Value) -> Argument:
    return Argument(name, "float", False, says, value)


def _whole(name: str, says: str, value: Value) -> Argument:
    return Argument(name, "int", False, says, value)


def _offset(problem: Binary, p: BinaryParameters) -> Any:
    """y_zero_point - (a_ratio * a_zero_point + b_ratio * b_zero_point), the first product within the sum."""
    a_ratio, b_ratio = p.a_scale / p.y_scale, p.b_scale / p.y_scale
    zeros = fma(a_ratio, np.float32(p.a_zero_point), b_ratio * np.float32(p.b_zero_point))
    return np.float32(p.y_zero_point) - zeros


def _least(problem: Binary, p: BinaryParameters) -> Any:
    """A relu of the real number is a clamp at its zero."""
    low, _ = RANGES[problem.out_type]
    return max(low, p.y_zero_point) if problem.activation == "relu" else low


A_RATIO = _real("a_ratio", "a_scale / y_scale", lambda problem, p: p.a_scale / p.y_scale)
B_RATIO = _real("b_ratio", "b_scale / y_scale", lambda problem, p: p.b_scale / p.y_scale)
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
ADD = (
    Step(
        "b",
        "float value = tile::fma(static_cast<float>(b), args.b_ratio, args.offset);",
        lambda value, v: fma(v["b"].astype(np.float32), v["b_ratio"], v["offset"]),
        (B_RATIO, OFFSET),
        ("fma",),
    ),
    Step(
        "a",
        "value = tile::fma(static_cast<float>(a), args.a_ratio, value);",
        lambda value, v: fma(v["a"].astype(np.float32), v["a_ratio"], value),
        (A_RATIO,),
        ("fma",),
    ),
    ROUND,
)
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
SAYS = {
    "add": "  y = clamp(round_half_to_even(fma(a, a_ratio, fma(b, b_ratio, offset))), low, high)",
    "mul": "  y = clamp(round_half_to_even((a - a_zero) * (b - b_zero) * ratio + y_zero), low, high)",
}


def steps(problem: Binary) -> tuple[Step, ...]:
    return ADD if isinstance(problem, Add) else MUL


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
