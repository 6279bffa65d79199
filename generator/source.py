"""plan -> the generated text and its digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from qconv.activation import POLYNOMIALS
from qconv.dtypes import DATA_TYPES
from qconv.epilogue import steps
from qconv.generator.plan import Plan
from qconv.problem import Conv2d
from qconv.quantization import ACTIVATION_PARAMETERS, Quantization

PRELUDES = {"nvidia": "prelude/cuda.j2", "amd": "prelude/hip.j2", "cpu": "prelude/cpu.j2"}
SUFFIXES = {"nvidia": ".cu", "amd": ".hip", "cpu": ".cpp"}


@dataclass(frozen=True)
class Source:
    """Self-contained, so that its digest is its identity."""

    text: str
    digest: str
    suffix: str


@lru_cache(maxsize=1)
def _environment() -> Environment:
    # Jinja's own delimiters mean something else in C++ and in PTX.
    return Environment(
        loader=PackageLoader("qconv.templates", ""),
        undefined=StrictUndefined,
        line_statement_prefix="//%",
        variable_start_string="${",
        variable_end_string="}",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(plan: Plan) -> Source:
    quantization = plan.problem.quantization
    chosen = steps(quantization)
    text = (
        _environment()
        .get_template(plan.page)
        .render(
            plan=plan,
            quantization=quantization,
            key_lines=_wrapped(str(plan.problem)),
            says=_what_it_computes(plan.problem),
            ctypes={name: data_type.ctype for name, data_type in DATA_TYPES.items()},
            steps=chosen,
            epilogue_arguments=[argument for step in chosen for argument in step.arguments],
            prelude=PRELUDES[plan.target.vendor],
            dot=f"dot/{plan.target.dot4}.j2",
            polynomials={name: _literals(terms) for name, terms in POLYNOMIALS.items()},
            wants={want for step in chosen for want in step.wants},
            cpu=plan.target.vendor == "cpu",
        )
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return Source(text, digest, SUFFIXES[plan.target.vendor])


def _literals(terms: tuple[float, ...]) -> str:
    """As arguments of a C++ call, four on a line: each is the shortest text that is that fp32 number."""
    spelled = [f"{np.float32(term)!s}f" for term in terms]
    return ",\n".join(", ".join(spelled[at : at + 4]) for at in range(0, len(spelled), 4))


def _wrapped(key: str) -> list[str]:
    """The key on lines of at most 106 characters, broken behind its colons."""
    lines = [""]
    for part in key.replace(":", ":\n").split("\n"):
        if len(lines[-1]) + len(part) > 106:
            lines.append("    ")
        lines[-1] += part
    return lines


def _what_it_computes(problem: Conv2d) -> list[str]:
    """The math, for the reader of the generated source."""
    q, mode = problem.quantization, problem.quantization.mode
    x = "(x - x_zero)" if q.x_zero_point else "x"
    w = "(w - w_zero[k])" if q.w_zero_point and q.per_channel else "(w - w_zero)" if q.w_zero_point else "w"
    lines = [f"  acc = sum over r, s, c of {x} * {w}, in int32"]
    value = _scaled(q) if q.scaled else "(acc + bias[k])" if q.bias_at else "acc"
    if q.activation != "none":
        given = "".join(f", {name}" for name in ACTIVATION_PARAMETERS.get(q.activation, ()))
        value = f"{q.activation}({value}{given})"
    if not q.requantizes:
        return [*lines, f"  y   = {value}, as {q.out_type}"]
    if mode.order != "multiply" or q.sees_real:
        value += " / y_scale" if mode.order == "multiply_divide" else " * inverse"
    zero = " + y_zero" if q.y_zero_point else ""
    inside, outside = (zero, "") if mode.zero_point_add == "before_round" else ("", zero)
    return [*lines, f"  y   = clamp({ROUNDINGS[mode.rounding]}({value}{inside}){outside}) as {q.out_type}"]


ROUNDINGS = {"rne": "round_half_to_even", "half_away": "round_half_away_from_zero", "rtz": "truncate"}


def _scaled(q: Quantization) -> str:
    channel = "[k]" if q.per_channel else ""
    if q.mode.order == "multiply":
        return f"{'(acc + bias[k])' if q.bias_at else 'acc'} * multiplier{channel}"
    if q.bias_at is None:
        return f"(acc * scale{channel})"
    return f"fma(acc, scale{channel}, bias[k])" if q.mode.fma == "on" else f"(acc * scale{channel} + bias[k])"
