"""Render a plan: the generated source and its digest.

The digest identifies a source by its code and its launches, without comments and layout. A measurement belongs to a
program: a better comment, a wrapped line or another indentation leaves the program as it was and must not make the
measurement stale. When in doubt whether two texts are the same program, they get two digests: measuring again costs
seconds, and a measurement of another program is wrong.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined

from qconv.dtypes import ELEMENT_TYPES
from qconv.generator.coefficients import polynomials, series
from qconv.generator.definitions import used
from qconv.generator.plan import Launch, Plan

PRELUDES = {"nvidia": "prelude/cuda.j2", "amd": "prelude/hip.j2", "cpu": "prelude/cpu.j2"}
ENTRIES = {"nvidia": "nothing.j2", "amd": "nothing.j2", "cpu": "entry/cpu.j2"}
SUFFIXES = {"nvidia": ".cu", "amd": ".hip", "cpu": ".cpp"}


@dataclass(frozen=True)
class Source:
    """The text of a kernel. It includes no file, so its digest identifies it."""

    text: str
    digest: str
    suffix: str


@dataclass(frozen=True)
class Rendered:
    """The sources of a plan, one per entry of `plan.kernels`, and the digest of all their texts."""

    sources: tuple[Source, ...]
    digest: str


class _Pages(BaseLoader):
    """Pages and roles of this package by their paths, those of another package as PACKAGE:path."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        package, _, path = template.rpartition(":")
        return _pages_of(package or "qconv.templates").get_source(environment, path)


@lru_cache(maxsize=16)
def _pages_of(package: str) -> PackageLoader:
    return PackageLoader(package, "")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    # Jinja's default delimiters have other meanings in C++ and in PTX.
    return Environment(
        loader=_Pages(),
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
        cache_size=-1,
        auto_reload=False,
    )


def render(plan: Plan) -> Source:
    """Render the source of a plan. Raises Infeasible where the target does not support the plan's arguments."""
    if plan.parts:
        return joined(plan, [render(kernel) for kernel in plan.kernels])
    _ = plan.tensor_maps
    wants = frozenset(plan.wants)
    texts = [_page(layer, wants) for layer in plan.layers.values()]
    return _source(used(_page(plan, wants, texts)), plan)


def render_kernels(plan: Plan) -> Rendered:
    sources = tuple(render(kernel) for kernel in plan.kernels)
    return Rendered(sources, joined(plan, sources).digest if plan.parts else sources[0].digest)


def joined(plan: Plan, sources: Iterable[Source]) -> Source:
    """Concatenate the sources of a plan's kernels, to be read and compared, not to be compiled together."""
    return _source("\n".join(source.text for source in sources), plan)


def _source(text: str, plan: Plan) -> Source:
    launches = [launch for kernel in plan.kernels for launch in kernel.launches]
    return Source(text, source_digest(text, launches), SUFFIXES[plan.target.vendor])


def _page(plan: Plan, wants: frozenset[str], texts: Sequence[str] = ()) -> str:
    """Render the page of a plan. `texts` are the pages of its layers. The page reads the fields of the roles and of the
    context as variables."""
    return (
        _environment()
        .get_template(plan.page)
        .render(
            plan=plan,
            key_lines=_wrapped(str(plan.problem)),
            config_lines=textwrap.wrap(str(plan.config), 97),
            ctypes={name: element_type.ctype for name, element_type in ELEMENT_TYPES.items()},
            prelude=PRELUDES[plan.target.vendor],
            entry=ENTRIES[plan.target.vendor],
            wants=wants,
            overlap="overlap" if "overlap" in wants else "no_overlap",
            dot=plan.dot,
            sliced=len(plan.call) > 1,
            cpu=plan.target.vendor == "cpu",
            polynomials=polynomials(),
            series=series(),
            texts=texts,
            **vars(plan.roles),
            **vars(plan.context),
        )
    )


def _wrapped(key: str) -> list[str]:
    """Wrap the key to lines of at most 106 characters, broken after its colons."""
    lines = [""]
    for part in key.replace(":", ":\n").split("\n"):
        if len(lines[-1]) + len(part) > 106:
            lines.append("    ")
        lines[-1] += part
    return lines


# The first character is a set, which makes the search fast. An apostrophe between digits opens no character literal,
# and a comment continues after a backslash at the end of its line.
_MARKS = re.compile(
    r"""["'/](?:
    (?P<raw>(?<=R")(?P<delimiter>[^\s()\\"]{0,16})\(.*?\)(?P=delimiter)")
    | (?P<quoted>(?<=")(?:\\.|[^"\\\n])*" | (?<=')(?<!(?<!u8)(?<=[0-9a-fA-F])')(?:\\.|[^'\\\n])+')
    | (?<=/)(?:/(?:\\\n|[^\n])*|\*.*?\*/)
    )""",
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(r"^[ \t]*\#((?:\\\n|[^\n])*)", re.MULTILINE)
# A space beside one of these separates nothing. Beside other marks it could keep two operators apart.
_ALONE = "(){}[];,"
_LITERAL, _CONTINUED = "\x01", "\\\x02"


def source_digest(text: str, launches: Iterable[Launch]) -> str:
    """Return a digest of the code and of its launches: the same kernel takes another time on another grid."""
    shapes = [(one.kernel, one.grid, one.threads, one.smem_bytes, one.cluster) for one in launches]
    return text_digest("\n".join([code_of(text), *map(repr, shapes)]))


def text_digest(text: str) -> str:
    """Return a digest of every byte. It names files, and identifies the text that was compiled."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def code_of(text: str) -> str:
    """Normalize the code for comparison: no comments, runs of white space as single spaces. Literals, the texts of
    `asm` among them, are unchanged and follow the code. A preprocessor directive stays on a line of its own and keeps
    its spaces, because a space decides whether a macro has arguments."""
    literals: list[str] = []

    def without(found: re.Match[str]) -> str:
        if found["raw"] is None and found["quoted"] is None:
            return " "
        literals.append(found[0])
        return _LITERAL

    # Code and directives alternate.
    parts = _DIRECTIVE.split(_MARKS.sub(without, text))
    lines = [f"#{_one_line(part)}" if at % 2 else _close(_one_line(part)) for at, part in enumerate(parts)]
    return "\n".join([*filter(None, lines), *literals])


def _one_line(code: str) -> str:
    # A word that a backslash continues on the next line gets no space inside.
    return " ".join(code.replace("\\\n", _CONTINUED).split())


def _close(code: str) -> str:
    for mark in _ALONE:
        code = code.replace(f" {mark}", mark).replace(f"{mark} ", mark)
    return code
