"""The families of quantize, dequantize, requantize, choose and dynamic, with the constants, arguments and math in words
that they share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from qconv.arithmetic.narrow import NARROW_FLOATS
from qconv.arithmetic.step import Step
from qconv.conversion import Choose, Conversion, Dequantize, Dynamic, Quantize, Requantize
from qconv.conversion.choice import ChoiceStep, choice_real, choice_steps
from qconv.conversion.steps import Prepared, Real, prepared, steps
from qconv.dtypes import ELEMENT_TYPES, FLOAT8
from qconv.generator.plan import ROUNDINGS, Constant, Context, Field, Plan
from qconv.op import Tensor

ALIASES = {"x": "X", "y": "Output", "scale": "Scale", "x_scale": "Scale", "y_scale": "Scale"}
SAYS = {
    "x": "the array",
    "y": "the output",
    "scale": "one per tensor, channel or block",
    "zero_point": "one per tensor, channel or block",
    "x_scale": "of the input, per tensor, channel or block",
    "x_zero": "the zero point of the input, per tensor, channel or block",
    "y_scale": "of the output, per tensor, channel or block",
    "y_zero": "the zero point of the output, per tensor, channel or block",
}


def argument_fields(problem: Conversion, workspace: tuple[Field, ...] = ()) -> tuple[Field, ...]:
    def field(tensor: Tensor, const: str) -> Field:
        ctype = ALIASES.get(tensor.name, ELEMENT_TYPES[tensor.dtype].ctype)
        return Field(tensor.name, f"{const}{ctype}*", tensor.name, SAYS[tensor.name])

    read = [field(tensor, "const ") for tensor in problem.inputs]
    return (*read, *(field(tensor, "") for tensor in problem.outputs), *workspace)


def element_bytes(problem: Conversion) -> dict[str, int]:
    """Return the bytes per element of each of the caller's arrays."""
    return {t.name: ELEMENT_TYPES[t.dtype].bytes for t in (*problem.inputs, *problem.outputs)}


def dimensions(problem: Conversion) -> tuple[Constant, ...]:
    """Return the constants of the array's dimensions. They are unsigned: a tile may begin past 2**31."""
    inner = problem.elements if problem.channels == 1 and not problem.block else problem.inner
    constants = [
        Constant("CHANNELS", problem.channels),
        Constant("INNER", inner, "neighbouring elements of one channel"),
    ]
    if problem.block:
        constants.append(Constant("BLOCK", problem.block, "neighbouring channels per scale"))
        constants.append(Constant("BLOCKS", problem.blocks, "scales along the channels"))
    return tuple(constants)


@dataclass(frozen=True, kw_only=True)
class ConversionContext(Context):
    problem: Conversion


@dataclass(frozen=True, kw_only=True)
class ElementContext(ConversionContext):
    """Values that a page needs to convert elements with given scales."""

    prepared: tuple[Prepared, ...]  # values computed once per scale
    steps: tuple[Step, ...]
    declared: str  # parameters of `prepare`
    loaded: str  # arguments of `prepare`, as loads


@dataclass(frozen=True)
class Chosen:
    """A value that is chosen for a channel: a field of the struct `Choice`."""

    name: str
    ctype: str

    @property
    def declaration(self) -> str:
        return f"{self.ctype} {self.name};"

    @property
    def member(self) -> str:
        return f"choice.{self.name}"

    @property
    def store(self) -> str:
        return f"args.{self.name}[channel] = {self.member};"


@dataclass(frozen=True, kw_only=True)
class ChoiceContext(ConversionContext):
    """Values that a page needs to choose scales."""

    choice: tuple[ChoiceStep, ...]
    chosen: tuple[Chosen, ...]
    real: Real
    as_real: str  # expression that converts an element to a real for comparison


@dataclass(frozen=True, kw_only=True)
class DynamicContext(ElementContext, ChoiceContext):
    """Values that a page needs to choose scales and convert with them."""


@dataclass(frozen=True)
class ConversionPlan(Plan):
    problem: Conversion

    @cached_property
    def aliases(self) -> dict[str, str]:
        tensors = (*self.problem.inputs, *self.problem.outputs)
        return {ALIASES[tensor.name]: tensor.dtype for tensor in tensors if tensor.name in ALIASES}

    @property
    def context(self) -> Context:
        return context(self.problem)


def context(problem: Conversion) -> ConversionContext:
    if not isinstance(problem, Choose):
        assert isinstance(problem, Quantize | Dequantize | Requantize)
        return _of_elements(problem)
    if not isinstance(problem, Dynamic):
        return _of_choice(problem)
    elements, choice = _of_elements(problem.quantize), _of_choice(problem)
    return DynamicContext(
        says=choice.says,
        problem=problem,
        prepared=elements.prepared,
        steps=elements.steps,
        declared=elements.declared,
        loaded=elements.loaded,
        choice=choice.choice,
        chosen=choice.chosen,
        real=choice.real,
        as_real=choice.as_real,
    )


def _of_elements(problem: Quantize | Dequantize | Requantize) -> ElementContext:
    entries, chosen = prepared(problem), steps(problem)
    scales = [tensor for tensor in problem.inputs if tensor.name != "x"]
    return ElementContext(
        says=_what_it_computes(problem),
        problem=problem,
        prepared=entries,
        steps=chosen,
        declared=",\n    ".join(f"[[maybe_unused]] {ELEMENT_TYPES[t.dtype].ctype} {t.name}" for t in scales),
        loaded=",\n        ".join(f"args.{tensor.name}[index]" for tensor in scales),
    )


def _of_choice(problem: Choose) -> ChoiceContext:
    narrow_float = NARROW_FLOATS.get(problem.x_type)
    return ChoiceContext(
        says=_what_it_computes(problem),
        problem=problem,
        choice=choice_steps(problem),
        chosen=tuple(
            Chosen(tensor.name, ALIASES.get(tensor.name, ELEMENT_TYPES[tensor.dtype].ctype))
            for tensor in problem.outputs
            if tensor.name != "y"
        ),
        real=choice_real(problem),
        as_real=narrow_float.read.format("element") if narrow_float else "element",
    )


def _what_it_computes(problem: Conversion) -> list[str]:
    if isinstance(problem, Dynamic):
        return [*_chosen(problem), *_what_it_computes(problem.quantize)]
    if isinstance(problem, Choose):
        return _chosen(problem)
    if isinstance(problem, Dequantize):
        x = "(x - zero_point)" if problem.zero_point else "x"
        return [f"  y = {x} * scale in {problem.precision}, as {problem.out_type}"]
    assert isinstance(problem, Quantize | Requantize)
    if isinstance(problem, Quantize):
        value = "x * (1 / scale)" if problem.quotient == "reciprocal" else "x / scale"
        if problem.out_type in FLOAT8:
            return [f"  y = {value} in {problem.precision}, as {problem.out_type}, saturated"]
        zero = " + zero_point" if problem.zero_point else ""
    else:
        x = "(x - x_zero)" if problem.x_zero_point else "x"
        value = {
            "multiply": f"{x} * (x_scale / y_scale)",
            "multiply_divide": f"{x} * x_scale / y_scale",
            "multiply_reciprocal": f"{x} * x_scale * (1 / y_scale)",
        }[problem.order]
        zero = " + y_zero" if problem.y_zero_point else ""
    inside, outside = (zero, "") if problem.zero_point_add == "before_round" else ("", zero)
    rounded = f"{ROUNDINGS[problem.rounding]}({value}{inside}){outside}"
    return [
        f"  y = clamp({rounded},",
        f"            {problem.low}, {problem.high}) in {problem.precision}, as {problem.out_type}",
    ]


def _chosen(problem: Choose) -> list[str]:
    of = "the whole array" if problem.channels == 1 else "each channel"
    if not problem.has_zero_point:
        most = ELEMENT_TYPES[problem.out_type].largest_finite
        return [f"  scale of {of}: its largest magnitude / {most:g}"]
    return [f"  scale and zero_point of {of}, {problem.mapping}, by the rule of {problem.rule}"]
