"""C++ expressions for the run-time values of these ops, for programs that launch kernels without Python. They mirror
the NumPy lines of the ops and the limits in each problem's `checked`.

An expression reads `p`, the scalars of a call: `p.scale(NAME)` is a float, `p.zero_point(NAME)` an int.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from qconv.arithmetic.parameter import LEAST_RATIO, MOST_OF_ADD, MOST_OF_MUL
from qconv.arithmetic.step import Argument
from qconv.dtypes import RANGES
from qconv.tensor_ops.binary import Add, Binary, BinaryParameters, Mul
from qconv.tensor_ops.pooling import (
    LEAST_OF_GLOBAL,
    MOST_OF_AVERAGE,
    MOST_OF_GLOBAL,
    MOST_SCALE,
    AveragePool,
    GlobalAveragePool,
    PoolParameters,
)

# Problems with run-time numbers.
Scaled = Binary | AveragePool | GlobalAveragePool


@dataclass(frozen=True)
class Scalar:
    """A number for a whole tensor: a scale, or the zero point of the type `zero_of`."""

    name: str
    zero_of: str | None


@dataclass(frozen=True)
class Limit:
    """The range of a float: `least` to `most`."""

    says: str
    value: str
    least: float
    most: float


def scalars(problem: Scaled) -> tuple[Scalar, ...]:
    """Return the scalars of a call, in Python's order."""
    kind = BinaryParameters if isinstance(problem, Binary) else PoolParameters
    return tuple(Scalar(one.name, problem.zero_points.get(one.name)) for one in fields(kind))


def limits(problem: Scaled) -> tuple[Limit, ...]:
    """Return the limits that `checked` enforces."""
    if isinstance(problem, Add):
        ratios = ((f"{name}_scale / y_scale", _ratio(name)) for name in ("a", "b"))
        return tuple(Limit(says, value, LEAST_RATIO, MOST_OF_ADD) for says, value in ratios)
    if isinstance(problem, Mul):
        return (Limit("a_scale * b_scale / y_scale", _product(), LEAST_RATIO, MOST_OF_MUL),)
    if isinstance(problem, AveragePool):
        return (
            Limit("x_scale", _scale("x"), 0.0, MOST_SCALE),
            Limit("x_scale / y_scale", _ratio("x"), LEAST_RATIO, MOST_OF_AVERAGE),
        )
    if isinstance(problem, GlobalAveragePool):
        below = float(np.nextafter(np.float32(MOST_OF_GLOBAL), np.float32(0)))
        return (Limit("x_scale / (y_scale * pixels)", _of_image(problem), LEAST_OF_GLOBAL, below),)
    raise ValueError(f"{problem} has no limits in C++: add them to src/qconv/tensor_ops/host_values.py")


def host_value(problem: Scaled, argument: Argument) -> str:
    """Return the C++ expression of an argument. It rounds where NumPy rounds, so compile it without contraction."""
    values = _binary(problem) if isinstance(problem, Binary) else _average(problem)
    if argument.name not in values:
        raise ValueError(
            f"the value {argument.name!r} of {problem.op} has no C++ line: add it to "
            "src/qconv/tensor_ops/host_values.py, as its NumPy line has it"
        )
    return values[argument.name]()


Lines = dict[str, Callable[[], str]]


def _binary(problem: Binary) -> Lines:
    low, high = RANGES[problem.out_type]
    y_zero = _real_zero("y")
    return {
        "a_ratio": lambda: _ratio("a"),
        "b_ratio": lambda: _ratio("b"),
        "offset": lambda: _offset(problem),
        "ratio": _product,
        "a_zero": lambda: _zero("a"),
        "b_zero": lambda: _zero("b"),
        "y_zero": lambda: y_zero,
        "low": lambda: f"std::fmax({low}.0f, {y_zero})" if problem.activation == "relu" else f"{low}.0f",
        "high": lambda: f"{high}.0f",
    }


def _average(problem: AveragePool | GlobalAveragePool) -> Lines:
    low, high = RANGES[problem.out_type]
    of_both: Lines = {"y_zero": lambda: _real_zero("y"), "low": lambda: f"{low}.0f", "high": lambda: f"{high}.0f"}
    if isinstance(problem, AveragePool):
        return of_both | {
            "x_scale": lambda: _scale("x"),
            "x_zero": lambda: _zero("x"),
            "y_scale": lambda: _scale("y"),
        }
    return of_both | {
        "offset": lambda: f"-{_zero('x')} * {problem.pixels}",
        "scale": lambda: _of_image(problem),
        "lowest": lambda: f"static_cast<float>({low} - {_zero('y')})",
        "highest": lambda: f"static_cast<float>({high} - {_zero('y')})",
        "zero": lambda: _zero("y"),
    }


def _scale(of: str) -> str:
    return f'p.scale("{of}_scale")'


def _zero(of: str) -> str:
    return f'p.zero_point("{of}_zero_point")'


def _real_zero(of: str) -> str:
    return f"static_cast<float>({_zero(of)})"


def _ratio(of: str) -> str:
    return f"{_scale(of)} / {_scale('y')}"


def _product() -> str:
    return f"{_scale('a')} * {_scale('b')} / {_scale('y')}"


def _of_image(problem: GlobalAveragePool) -> str:
    return f"{_scale('x')} / ({_scale('y')} * {problem.pixels}.0f)"


def _offset(problem: Binary) -> str:
    """Return the C++ form of `qconv.arithmetic.quantized_sum.offset`."""
    first, last = ("a", "b") if isinstance(problem, Add) and problem.added_first == "a" else ("b", "a")
    product = f"({_ratio(first)}) * {_real_zero(first)}"
    return f"{_real_zero('y')} - std::fma({_ratio(last)}, {_real_zero(last)}, {product})"
