"""What the program says of itself: docs/conf.py writes these pages of the reference when the site is built."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from qconv.cli.command_line import commands
from qconv.conversion import Quantize
from qconv.errors import Infeasible
from qconv.expression import FUNCTIONS
from qconv.generator import FAMILIES
from qconv.generator.families import Family
from qconv.op import Problem
from qconv.problem.chain import FusedConv2d
from qconv.problem.convolution import Conv2d
from qconv.problem.pooled import PooledConv2d
from qconv.targets.target import TARGETS, Target
from qconv.tensor_ops import Add, MaxPool

COLUMNS = 84


def pages() -> dict[str, str]:
    return {"commands.md": commands_page(), "targets.md": targets_table(), "functions.md": functions_table()}


def commands_page() -> str:
    parts = [
        "# Commands\n\nWhat `--help` says, of the version that this site was built from. [Tune](../tasks/tune.md) "
        "and the other tasks show them in use.\n",
        EXIT_CODES,
    ]
    for path, command in every(commands, ("qconv-tune",)):
        context = click.Context(command, info_name=" ".join(path), terminal_width=COLUMNS, max_content_width=COLUMNS)
        said = textwrap.dedent(command.get_help(context)).strip()
        parts.append(f"## {' '.join(path)}\n\n```text\n{said}\n```\n")
    return "\n".join(parts)


EXIT_CODES = """`--json` prints one document on stdout, and `--csv` the whole table as csv; progress is on stderr. An
error is a sentence with a remedy on stderr; with `--json` it is a document too, `{"schema": "qconv-error-1", "error":
{"kind", "message", "exit_code"}}`.

| exit code | means |
|---|---|
| 0 | done |
| 1 | the answer is no: a wrong output, no config worked |
| 2 | the request is wrong |
| 3 | something is missing here: a device, a compiler, a cached kernel |
| 4 | the database cannot be used |
| 130 | interrupted; the last line says what is kept, and how to go on |
| 143 | ended by SIGTERM |
"""


def every(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from every(one, (*path, name))


def _conv(*shape: int, **more: int) -> Conv2d:
    return Conv2d(*shape, **more)  # type: ignore[arg-type]


# A layer that each family is for.
LAYERS: dict[str, Problem] = {
    "simt": _conv(1, 14, 14, 5, 7, 3, 3),
    "mma": _conv(8, 28, 28, 64, 64, 3, 3, pad=1),
    "wgmma": _conv(32, 28, 28, 128, 128, 3, 3, pad=1),
    "halo": _conv(32, 56, 56, 64, 64, 3, 3, pad=1),
    "halo_split": _conv(1, 7, 7, 512, 512, 3, 3, pad=1),
    "tcgen05": _conv(32, 28, 28, 128, 128, 3, 3, pad=1),
    "pointwise": _conv(8, 28, 28, 64, 64, 1, 1),
    "depthwise": _conv(8, 28, 28, 64, 64, 3, 3, pad=1, groups=64),
    "direct": _conv(8, 28, 28, 64, 64, 3, 3, pad=1, groups=16),
    "stem_wgmma": _conv(32, 224, 224, 3, 64, 7, 7, stride=2, pad=3),
    "stem_pool": PooledConv2d.over(
        _conv(32, 224, 224, 3, 64, 7, 7, stride=2, pad=3), window=3, window_stride=2, window_pad=1
    ),
    "stem": _conv(1, 64, 64, 3, 32, 3, 3, pad=1),
    "gemv": _conv(1, 1, 1, 256, 64, 1, 1),
    "fused": FusedConv2d(_conv(1, 28, 28, 64, 64, 3, 3, pad=1), _conv(1, 28, 28, 64, 64, 1, 1)),
    "binary": Add.of((8, 28, 28, 64), (8, 28, 28, 64)),
    "pooling": MaxPool.of((8, 28, 28, 64), 2),
    "elementwise": Quantize(1, 1, 4096),
}


def targets_table() -> str:
    """By the planner: whether it takes any config of the family for a layer that the family is for."""
    lines = ["| target | " + " | ".join(f"`{name}`" for name in LAYERS) + " |", "|---" * (len(LAYERS) + 1) + "|"]
    for target in TARGETS.values():
        if target.vendor != "cpu":
            cells = ("yes" if serves(FAMILIES[name], layer, target) else "" for name, layer in LAYERS.items())
            lines.append(f"| {target.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def functions_table() -> str:
    """Of the scalar functions of expressions: the types of their arguments, and that of the result."""
    lines = ["| function | of | makes |", "|---|---|---|"]
    for one in FUNCTIONS.values():
        made = one.result or (one.takes[0] if len(one.takes) == 1 else "the same type")
        names = ", ".join("cab" if one.name == "select" else "abc"[: one.arity])
        lines.append(f"| `{one.name}({names})` | {', '.join(one.takes)} | {made} |")
    return "\n".join(lines) + "\n"


def serves(family: Family, problem: Problem, target: Target) -> bool:
    for config in family.configs(problem, target):
        try:
            family.plan(problem, config, target)
        except Infeasible:
            continue
        return True
    return False
