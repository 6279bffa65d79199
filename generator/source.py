"""plan -> the generated text and its digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from qconv.epilogue import steps
from qconv.generator.plan import CTYPES, Plan
from qconv.problem import Conv2d

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
            ctypes=CTYPES,
            steps=chosen,
            epilogue_arguments=[argument for step in chosen for argument in step.arguments],
            prelude=PRELUDES[plan.target.vendor],
            dot=f"dot/{plan.target.dot4}.j2",
            half=quantization.out_type == "float16",
            cpu=plan.target.vendor == "cpu",
        )
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return Source(text, digest, SUFFIXES[plan.target.vendor])


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
    q = problem.quantization
    x = "(x - x_zero)" if q.x_zero_point else "x"
    w = "(w - w_zero[k])" if q.w_zero_point and q.per_channel else "(w - w_zero)" if q.w_zero_point else "w"
    acc = f"sum over r, s, c of {x} * {w}"
    bias = {"none": "acc", "int32": "(acc + bias[k])", "float32": "(acc + bias[k])"}[q.bias]
    lines = [f"  acc = {acc}, in int32"]
    value = f"{bias} * multiplier{'[k]' if q.per_channel else ''}" if q.scaled else bias
    if q.activation != "none":
        value = f"{q.activation}({value})"
    if q.requantizes:
        zero = " + y_zero" if q.y_zero_point else ""
        value = f"clamp(round_half_to_even({value}){zero}) as {q.out_type}"
    return [*lines, f"  y   = {value}" + ("" if q.requantizes else f", as {q.out_type}")]
