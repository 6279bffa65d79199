"""The generated code of a winner, as the report shows it: in the page itself, and the commands that print it."""

from __future__ import annotations

import base64
import gzip
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from qconv import generator
from qconv.device.disassembly import Form, text_of
from qconv.errors import Infeasible
from qconv.generator.plan import Launch, Plan
from qconv.generator.source import Rendered
from qconv.targets.target import Target, target
from qconv.tune_db.measurement import Measurement


@dataclass(frozen=True)
class Code:
    """Texts are gzip in base64, which browsers unpack, by name: the source, and the machine code if that was asked for.
    There are none, and no launch, where today's templates generate another source than the one that was measured. A
    problem with several kernels has no one launch."""

    source_command: str
    machine_code_command: str
    packed: Mapping[str, str]
    launch: Launch | None


@lru_cache(maxsize=4096)
def code_of(row: Measurement, with_machine_code: bool) -> Code:
    """Return a row's code. The machine code is compiled if it is not in the cache; CompileError says what is missing
    for that."""
    where = target(row.target)
    words = ("qconv-tune", "source", str(row.problem), "--target", where.name, "--config", row.config.as_json())
    command, form = shlex.join(words), _form(where)
    packed: dict[str, str] = {}
    launch = None
    if (measured := _measured(row)) is not None:
        plan, rendered = measured
        launch = plan.main if len(plan.kernels) == 1 else None
        packed["source"] = _packed(source.text for source in rendered.sources)
        if with_machine_code:
            kernels = zip(rendered.sources, plan.kernels, strict=True)
            packed["machine code"] = _packed(text_of(source, kernel, form) for source, kernel in kernels)
    return Code(command, f"{command} --format {form}", packed, launch)


def _form(where: Target) -> Form:
    return "sass" if where.vendor == "nvidia" else "isa"


def _measured(row: Measurement) -> tuple[Plan, Rendered] | None:
    try:
        plan = generator.plan(row.problem, row.config, target(row.target))
    except Infeasible:
        return None
    rendered = generator.render_kernels(plan)
    return (plan, rendered) if rendered.digest == row.digest else None


def _packed(texts: Iterable[str]) -> str:
    return base64.b64encode(gzip.compress("\n\n".join(texts).encode(), mtime=0)).decode()
