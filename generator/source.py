"""plan -> the generated text and its digest."""

from __future__ import annotations

import hashlib
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from qconv.conversion import Conversion
from qconv.dtypes import DATA_TYPES
from qconv.generator import convert, convolution
from qconv.generator.plan import Plan
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
    text = (
        _environment()
        .get_template(plan.page)
        .render(
            plan=plan,
            key_lines=_wrapped(str(plan.problem)),
            config_lines=textwrap.wrap(str(plan.config), 97),
            ctypes={name: data_type.ctype for name, data_type in DATA_TYPES.items()},
            prelude=PRELUDES[plan.target.vendor],
            dot=f"dot/{plan.target.dot4}.j2",
            sliced=len(plan.each) > 1,
            cpu=plan.target.vendor == "cpu",
            **plan.roles,
            **_context(plan),
        )
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return Source(text, digest, SUFFIXES[plan.target.vendor])


def _context(plan: Plan) -> dict[str, Any]:
    problem = plan.problem
    if isinstance(problem, Conversion):
        return convert.context(problem)
    assert isinstance(problem, Conv2d)
    pieces = convolution.context(problem)
    return pieces | {"wants": {*plan.wants, *pieces["wants"]}}


def _wrapped(key: str) -> list[str]:
    """The key on lines of at most 106 characters, broken behind its colons."""
    lines = [""]
    for part in key.replace(":", ":\n").split("\n"):
        if len(lines[-1]) + len(part) > 106:
            lines.append("    ")
        lines[-1] += part
    return lines
