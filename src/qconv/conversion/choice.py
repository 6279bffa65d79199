"""The choice of a scale and a zero point from a range, as data: C++ lines beside NumPy lines. 8-bit floats have a scale
alone.

The C++ lines read and may change `smallest` and `largest`, which are `double` for a float64 array and `float`
otherwise. They set `scale` (of type `Scale`) and `zero_point` (int), which are declared before. The reduction that
computes the range ignores NaNs: it starts at +inf and -inf, or at 0 for rules that include it, and calls
`tile::minimum(element, smallest)` in this order, which returns `smallest` where the element is a NaN.

A NumPy line takes the variables by name and returns those that it sets. A scale is capped at the largest finite number
of the narrower of its types, so that an infinite or overflowing range gives a finite result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from qconv.conversion.problem import Choose
from qconv.conversion.steps import Array, Real, Values, clamped
from qconv.dtypes import ELEMENT_TYPES, FLOAT8


@dataclass(frozen=True)
class ChoiceStep:
    name: str
    cxx: str
    numpy: Callable[[Values], Values]


@dataclass(frozen=True)
class _Range:
    """The parts of the problem that every rule reads: the type of its arithmetic, the output's range, bounds of the
    scale."""

    real: Real
    low: int
    high: int
    eps: float
    largest_scale: float

    @property
    def steps(self) -> int:
        return self.high - self.low

    def number(self, value: float) -> Array:
        return np.asarray(value, self.real.dtype)


def choice_real(problem: Choose) -> Real:
    """Return the type in which `smallest` and `largest` are computed."""
    return Real("float64" if problem.x_type == "float64" else "float32")


def choice_steps(problem: Choose) -> tuple[ChoiceStep, ...]:
    """Return the steps from `smallest` and `largest` to `scale` and `zero_point`, in order."""
    real = choice_real(problem)
    low, high = _ends(problem)
    assert problem.eps is not None
    doubles = (
        problem.scale_type == "float64"
        and (real if problem.rule != "fbgemm" else Real("float64")).precision == "float64"
    )
    most = float(np.finfo(np.float64 if doubles else np.float32).max)
    of = _Range(real, low, high, float(np.float32(problem.eps)), most)
    return (_extend(of), *_rule(problem, of))


def _ends(problem: Choose) -> tuple[int, int]:
    """Return the ends of the output's range: of an 8-bit float, its largest finite numbers."""
    if problem.out_type in FLOAT8:
        largest = int(ELEMENT_TYPES[problem.out_type].largest_finite)
        return -largest, largest
    assert problem.low is not None
    assert problem.high is not None
    return problem.low, problem.high


def _rule(problem: Choose, of: _Range) -> Iterator[ChoiceStep]:
    if problem.rule == "fbgemm":
        yield from _fbgemm(of, problem.scale_type)
        return
    ctype = of.real.ctype
    if problem.mapping != "asymmetric":
        yield _symmetric(of) if problem.mapping == "symmetric" else _no_clip(of)
        yield _bound(of, floor=True)
        if problem.has_zero_point:
            yield _middle(of)
    else:
        steps = of.real.literal(of.steps)
        ratio = f"tile::divide(tile::add(largest, -smallest), {steps})"
        if problem.rule == "onnx":
            yield ChoiceStep(
                "unit",
                f"{ctype} unit = largest == smallest ? {of.real.literal(of.eps)}\n        : {ratio};",
                lambda v: {
                    "unit": np.where(
                        v["largest"] == v["smallest"],
                        of.number(of.eps),
                        (v["largest"] - v["smallest"]) / of.number(of.steps),
                    )
                },
            )
        else:
            yield ChoiceStep(
                "unit",
                f"{ctype} unit = {ratio};",
                lambda v: {"unit": (v["largest"] - v["smallest"]) / of.number(of.steps)},
            )
        yield _bound(of, floor=problem.rule != "onnx")
        zeros = {"torch": _zero_torch, "onnx": _zero_onnx, "xnnpack": _zero_xnnpack}
        yield zeros[str(problem.rule)](of)
    yield _scale(problem.scale_type)


def _extend(of: _Range) -> ChoiceStep:
    """Widen the range to include zero."""
    zero = of.real.literal(0)
    return ChoiceStep(
        "extend",
        f"smallest = tile::minimum(smallest, {zero});\n    largest = tile::maximum(largest, {zero});",
        lambda v: {
            "smallest": np.fmin(v["smallest"], of.number(0)),
            "largest": np.fmax(v["largest"], of.number(0)),
        },
    )


def _symmetric(of: _Range) -> ChoiceStep:
    return ChoiceStep(
        "unit",
        f"{of.real.ctype} unit = tile::divide(tile::maximum(-smallest, largest), {of.real.literal(of.steps / 2)});",
        lambda v: {"unit": np.fmax(-v["smallest"], v["largest"]) / of.number(of.steps / 2)},
    )


def _no_clip(of: _Range) -> ChoiceStep:
    low, high = of.real.literal(of.low), of.real.literal(of.high)
    return ChoiceStep(
        "unit",
        f"{of.real.ctype} unit = tile::maximum(tile::divide(smallest, {low}),\n        tile::divide(largest, {high}));",
        lambda v: {"unit": np.fmax(v["smallest"] / of.number(of.low), v["largest"] / of.number(of.high))},
    )


def _middle(of: _Range) -> ChoiceStep:
    middle = (of.low + of.high + 1) // 2
    return ChoiceStep(
        "zero_point",
        f"zero_point = {middle};",
        lambda v: {"zero_point": np.full(v["unit"].shape, middle, np.int32)},
    )


def _bound(of: _Range, floor: bool) -> ChoiceStep:
    most, eps = of.real.literal(of.largest_scale), of.real.literal(of.eps)
    floored = f"tile::maximum(unit, {eps})" if floor else "unit"
    return ChoiceStep(
        "bound",
        f"unit = tile::minimum({floored}, {most});",
        lambda v: {
            "unit": np.fmin(np.fmax(v["unit"], of.number(of.eps)) if floor else v["unit"], of.number(of.largest_scale))
        },
    )


def _scale(scale_type: str) -> ChoiceStep:
    return ChoiceStep(
        "scale", "scale = static_cast<Scale>(unit);", lambda v: {"scale": v["unit"].astype(np.dtype(scale_type))}
    )


def _zero_torch(of: _Range) -> ChoiceStep:
    """Return PyTorch's zero point: the quotient is rounded before it is subtracted."""
    return ChoiceStep(
        "zero_point",
        f"zero_point = {of.low} - tile::round_to_int(tile::clamp(\n        tile::divide(smallest, unit), "
        f"{of.real.literal(-of.steps)}, {of.real.literal(0)}));",
        lambda v: {
            "zero_point": (
                of.low
                - np.rint(clamped(v["smallest"] / v["unit"], of.number(-of.steps), of.number(0))).astype(np.int64)
            ).astype(np.int32)
        },
    )


def _rounded(of: _Range, value: Array) -> Array:
    return np.rint(clamped(value, np.asarray(of.low, value.dtype), np.asarray(of.high, value.dtype))).astype(np.int32)


def _zero_onnx(of: _Range) -> ChoiceStep:
    low, high = of.real.literal(of.low), of.real.literal(of.high)
    return ChoiceStep(
        "zero_point",
        f"zero_point = tile::round_to_int(tile::clamp(\n        tile::add({low}, -tile::divide(smallest, unit)), "
        f"{low}, {high}));",
        lambda v: {"zero_point": _rounded(of, of.number(of.low) - v["smallest"] / v["unit"])},
    )


def _zero_xnnpack(of: _Range) -> ChoiceStep:
    """Return the zero point derived from the end of the range that has the smaller error."""
    low, high, ctype = of.real.literal(of.low), of.real.literal(of.high), of.real.ctype

    def chosen(v: Values) -> Values:
        below, above = v["smallest"] / v["unit"], v["largest"] / v["unit"]
        low, high = of.number(of.low), of.number(of.high)
        return {"zero_point": _rounded(of, np.where((low + below) + (high + above) > 0, low - below, high - above))}

    return ChoiceStep(
        "zero_point",
        f"const {ctype} below = tile::divide(smallest, unit);\n"
        f"    const {ctype} above = tile::divide(largest, unit);\n"
        f"    const bool from_low = tile::add(tile::add({low}, below), tile::add({high}, above)) "
        f"> {of.real.literal(0)};\n"
        "    zero_point = tile::round_to_int(tile::clamp(\n"
        f"        from_low ? tile::add({low}, -below) : tile::add({high}, -above), {low}, {high}));",
        chosen,
    )


def _fbgemm(of: _Range, scale_type: str) -> Iterator[ChoiceStep]:
    """Return FBGEMM's choice: fp32 ends, fp64 arithmetic. A scale without a finite reciprocal becomes 0.1. A small
    scale is raised to the cut-off, and the ends grow in proportion."""
    yield _fbgemm_unit(of)
    yield _fbgemm_cut_off(of)
    yield _fbgemm_zero_point(of)
    yield _scale(scale_type)


def _fbgemm_unit(of: _Range) -> ChoiceStep:
    wide, single = Real("float64"), Real("float32")
    most = float(np.finfo(np.float32).max)

    def unit(v: Values) -> Values:
        low, high = v["smallest"].astype(np.float32), v["largest"].astype(np.float32)
        unit = (high.astype(np.float64) - low.astype(np.float64)) / np.float64(of.steps)
        near = unit.astype(np.float32)
        usable = (near > 0) & (np.float32(1) / near <= np.float32(most))
        return {"low": low, "high": high, "unit": np.where(usable, unit, 0.1)}

    return ChoiceStep(
        "unit",
        f"float low = {single.cast('smallest')};\n"
        f"    float high = {single.cast('largest')};\n"
        "    double unit = tile::divide(tile::add(static_cast<double>(high), -static_cast<double>(low)), "
        f"{wide.literal(of.steps)});\n"
        f"    const float near = {single.cast('unit')};\n"
        f"    if (!(near > 0.0f && tile::divide(1.0f, near) <= {single.literal(most)})) unit = 0.1;",
        unit,
    )


def _fbgemm_cut_off(of: _Range) -> ChoiceStep:
    wide, single = Real("float64"), Real("float32")
    eps = np.float32(of.eps)
    end = eps * np.float32(of.steps)

    def cut_off(v: Values) -> Values:
        small = v["unit"] < np.float64(eps)
        low, high = v["low"], v["high"]
        one_sided = (low == 0) | (high == 0)
        factor = np.where(one_sided, np.float32(1), eps / v["unit"].astype(np.float32))
        grown_high = np.where(low == 0, end, high * factor)
        grown_low = np.where(low == 0, low, np.where(high == 0, -end, low * factor))
        return {
            "low": np.where(small, grown_low, low),
            "high": np.where(small, grown_high, high),
            "unit": np.where(small, np.float64(eps), v["unit"]),
        }

    cut = wide.literal(of.eps)
    return ChoiceStep(
        "cut_off",
        f"if (unit < {cut}) {{\n"
        f"        const float factor = tile::divide({single.literal(of.eps)}, {single.cast('unit')});\n"
        f"        if (low == 0.0f) {{\n            high = {single.literal(float(end))};\n"
        f"        }} else if (high == 0.0f) {{\n            low = {single.literal(-float(end))};\n"
        "        } else {\n            low = tile::multiply(low, factor);\n"
        "            high = tile::multiply(high, factor);\n        }\n"
        f"        unit = {cut};\n    }}\n"
        f"    unit = tile::minimum(unit, {wide.literal(of.largest_scale)});",
        lambda v: {**(cut := cut_off(v)), "unit": np.fmin(cut["unit"], of.largest_scale)},
    )


def _fbgemm_zero_point(of: _Range) -> ChoiceStep:
    wide = Real("float64")

    def zero_point(v: Values) -> Values:
        below, above = v["low"].astype(np.float64) / v["unit"], v["high"].astype(np.float64) / v["unit"]
        from_low = abs(of.low) - np.abs(below) < abs(of.high) - np.abs(above)
        return {"zero_point": _rounded(of, np.where(from_low, of.low - below, of.high - above))}

    low, high = wide.literal(of.low), wide.literal(of.high)
    # Each end has its sign by definition: |low| is -low.
    return ChoiceStep(
        "zero_point",
        "const double below = tile::divide(static_cast<double>(low), unit);\n"
        "    const double above = tile::divide(static_cast<double>(high), unit);\n"
        f"    const bool from_low = tile::add({wide.literal(abs(of.low))}, below) "
        f"< tile::add({wide.literal(abs(of.high))}, -above);\n"
        "    zero_point = tile::round_to_int(tile::clamp(\n"
        f"        from_low ? tile::add({low}, -below) : tile::add({high}, -above), {low}, {high}));",
        zero_point,
    )
