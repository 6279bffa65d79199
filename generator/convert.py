"""What the families of quantize, dequantize, requantize, choose and dynamic share: constants, arguments, the math in
words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from qconv.conversion import Choose, Conversion, Dequantize, Dynamic, Quantize, Requantize
from qconv.conversion.choice import choice_real, choice_steps
from qconv.conversion.steps import prepared, steps
from qconv.dtypes import DATA_TYPES
from qconv.generator.plan import ROUNDINGS, Constant, Field
from qconv.op import Tensor

ALIASES = {"x": "X", "y": "Output", "scale": "Scale", "x_scale": "Scale", "y_scale": "Scale"}
SAYS = {
    "x": "the array",
    "y": "the output",
    "scale": "one a granule",
    "zero_point": "one a granule",
    "x_scale": "of the input, one a granule",
    "x_zero": "the zero point of the input, one a granule",
    "y_scale": "of the output, one a granule",
    "y_zero": "the zero point of the output, one a granule",
}


def aliases(problem: Conversion) -> dict[str, str]:
    return {ALIASES[t.name]: t.dtype for t in (*problem.inputs, *problem.outputs) if t.name in ALIASES}


def argument_fields(problem: Conversion, workspace: tuple[Field, ...] = ()) -> tuple[Field, ...]:
    def field(tensor: Tensor, const: str) -> Field:
        ctype = ALIASES.get(tensor.name, DATA_TYPES[tensor.dtype].ctype)
        return Field(tensor.name, f"{const}{ctype}*", tensor.name, SAYS[tensor.name])

    read = [field(tensor, "const ") for tensor in problem.inputs]
    return (*read, *(field(tensor, "") for tensor in problem.outputs), *workspace)


def element_bytes(problem: Conversion) -> dict[str, int]:
    """The size of an element, for each of the caller's arrays."""
    return {t.name: DATA_TYPES[t.dtype].bytes for t in (*problem.inputs, *problem.outputs)}


def dimensions(problem: Conversion) -> tuple[Constant, ...]:
    """The array as the problem sees it. Counts are unsigned: a tile may begin past 2**31."""
    inner = problem.elements if problem.channels == 1 and not problem.block else problem.inner
    constants = [
        Constant("CHANNELS", problem.channels),
        Constant("INNER", inner, "neighbours of one channel"),
    ]
    if problem.block:
        constants.append(Constant("BLOCK", problem.block, "neighbouring channels of one scale"))
        constants.append(Constant("BLOCKS", problem.blocks, "scales along the channels"))
    return tuple(constants)


def context(problem: Conversion) -> dict[str, Any]:
    """What the pages read beside the plan."""
    pieces: dict[str, Any] = {"problem": problem, "says": _what_it_computes(problem)}
    wants: set[str] = set()
    if not isinstance(problem, Choose) or isinstance(problem, Dynamic):
        assert isinstance(problem, Quantize | Dequantize | Requantize | Dynamic)
        pieces |= {"granule": prepared(problem), "steps": steps(problem)}
        wants |= _wants(pieces["granule"]) | _wants(pieces["steps"])
        elementwise = problem.quantize if isinstance(problem, Dynamic) else problem
        scales = [tensor for tensor in elementwise.inputs if tensor.name != "x"]
        pieces["declared"] = ",\n    ".join(f"[[maybe_unused]] {DATA_TYPES[t.dtype].ctype} {t.name}" for t in scales)
        pieces["loaded"] = ",\n        ".join(f"tile::load(args.{tensor.name} + index)" for tensor in scales)
    if isinstance(problem, Choose):
        pieces |= {"choice": choice_steps(problem), "real": choice_real(problem)}
        wants |= _wants(pieces["choice"]) | set(pieces["real"].wide)
        # The element as a real, to be compared.
        pieces["as_real"], needs = _as_real(problem)
        wants |= needs
    return pieces | {"wants": wants}


def _wants(pieces: Iterable[Any]) -> set[str]:
    return {want for piece in pieces for want in piece.wants}


def _as_real(problem: Choose) -> tuple[str, set[str]]:
    if problem.x_type == "float16":
        return "tile::half_to_float(element)", {"from_half", "bits"}
    if problem.x_type == "bfloat16":
        return "tile::bfloat16_to_float(element)", {"from_bfloat16", "bits"}
    return "element", set()


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
    return [f"  scale and zero_point of {of}, {problem.mapping}, by the rule of {problem.rule}"]
