"""Options that several commands share: the problem, the device, the database, the form of the answer."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

import click

from qconv.conversion import FLAGS
from qconv.conversion import OPS as CONVERSIONS
from qconv.conversion.presets import SYSTEMS
from qconv.conversion.view import view_of
from qconv.keys import chained, parse
from qconv.mode import PRESETS
from qconv.op import Problem, read_key
from qconv.problem import LAYOUTS, Conv2d
from qconv.quantization import ACTIVATIONS, BIASES, RESIDUALS, X_TYPES, Quantization, check_zero_point

Command = Callable[..., Any]

_SIZES = {
    "n": "images",
    "h": "input height",
    "w": "input width",
    "c": "input channels",
    "k": "output channels",
    "r": "filter height",
    "s": "filter width",
}
_ZERO_POINTS = ("x_zero_point", "w_zero_point", "y_zero_point", "residual_zero_point")
_ZERO_POINT_FLAGS = tuple(f"--{name.replace('_', '-')}" for name in _ZERO_POINTS)


class Extents(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """`2` or `2,1` or `2x1`."""

    name = "INT[,INT...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        if not re.fullmatch(r"-?\d{1,10}([,x]-?\d{1,10})*", value, re.ASCII):
            self.fail(f"{value!r} is not an integer, or several with commas between", param, ctx)
        numbers = tuple(int(number) for number in re.split("[,x]", value))
        return numbers[0] if len(numbers) == 1 else numbers


class ProblemCommand(click.Command):
    """Zero points take an optional value. Click reads a negative one as the next option, so it travels in brackets."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spelled: list[str] = []
        for arg in args:
            option, equals, value = arg.partition("=")
            if not equals and spelled and spelled[-1] in _ZERO_POINT_FLAGS:
                option, value = spelled[-1], arg
            if option in _ZERO_POINT_FLAGS and re.fullmatch(r"-\d+", value, re.ASCII):
                if not equals:
                    spelled.pop()
                spelled.append(f"{option}=({value})")
            else:
                spelled.append(arg)
        return super().parse_args(ctx, spelled)


def problem_options(command: Command) -> Command:
    """Passes `problem`, and `fixed`: the zero points given with a value, for the data of run and bench."""

    def wrapped(op: str, **options: Any) -> Any:
        names = (*_SIZES, *_GEOMETRY, *_QUANTIZATION_OPTIONS, *_FUSED_OPTIONS, *_CONVERSION_OPTIONS)
        given = {name: value for name in names if (value := options.pop(name)) not in (None, ())}
        given |= {name: _zero_point(name, given[name]) for name in _ZERO_POINTS if name in given}
        fixed = {name: given[name] for name in _ZERO_POINTS if given.get(name, True) is not True}
        return command(problem=_checked(_problem(op, given), fixed), fixed=fixed, **options)

    decorators: list[Callable[[Command], Command]] = [click.argument("op", metavar="OP|KEY")]
    decorators += [click.option(f"--{name}", type=int, help=says) for name, says in _SIZES.items()]
    decorators += [
        click.option("--stride", type=Extents(), help="One, or vertical,horizontal. Default 1."),
        click.option("--dilation", type=Extents(), help="One, or vertical,horizontal. Default 1."),
        click.option("--pad", type=Extents(), help="One, or top,left,bottom,right. Default 0."),
        click.option("--groups", type=int, help="Default 1; as many as channels for depthwise."),
        click.option(
            "--layout", type=click.Choice(LAYOUTS), help="Of activations; weights are KRSC or KCRS. Default nhwc."
        ),
        click.option(
            "--x-type",
            metavar="TYPE",
            help="What is read. conv2d: int8 (default), uint8. Conversions: these, int16, uint16 and int32, or floats.",
        ),
        click.option("--w-type", type=click.Choice(X_TYPES), help="Weights. Default int8."),
        click.option(
            "--out-type",
            metavar="TYPE",
            help="What is written. conv2d: int8 (default), uint8, int32, float32, float16, bfloat16.",
        ),
        click.option("--per-channel", is_flag=True, default=None, help="Weight scales per output channel."),
        click.option("--bias", is_flag=False, flag_value="int32", type=click.Choice(BIASES), help="Alone: int32."),
        click.option(
            "--mode",
            type=click.Choice(tuple(dict.fromkeys((*PRESETS, *SYSTEMS)))),
            help="The system whose arithmetic it is. Default: ort's.",
        ),
        click.option("--activation", type=click.Choice(ACTIVATIONS), help="Default none."),
        click.option("--residual", type=click.Choice(RESIDUALS), help="Added before the activation. Default none."),
    ]
    decorators += [
        click.option("--first", metavar="KEY", help="fused: the key of the first of two or three convolutions."),
        click.option("--second", metavar="KEY", help="fused: of the second; what it takes follows from the first."),
        click.option("--third", metavar="KEY", help="fused: of the third, where there are three."),
    ]
    decorators += [
        click.option("--shape", type=Extents(), help="Of the array that is converted: INT,INT,..."),
        click.option("--axis", help="Whose indices have a scale each: an axis, or token. Default: one scale in all."),
        click.option("--block", type=int, help="So many neighbours along the axis share a scale."),
        click.option(
            "--set",
            "fields",
            metavar="NAME[=VALUE]",
            multiple=True,
            default=None,
            help="Any other field of a conversion's key.",
        ),
    ]
    for option in _ZERO_POINT_FLAGS:
        says = "The layer has one; its value is for the data of run and bench (default: random)."
        decorators.append(click.option(option, is_flag=False, flag_value="any", metavar="[INT]", help=says))
    made: Command = functools.wraps(command)(wrapped)
    for decorator in reversed(decorators):
        made = decorator(made)
    return made


_GEOMETRY = ("stride", "dilation", "pad", "groups", "layout")
_FUSED_OPTIONS = ("first", "second", "third")
_CONVERSION_OPTIONS = ("shape", "axis", "block", "fields")
_QUANTIZATION_OPTIONS = (
    *("mode", "x_type", "w_type", "out_type", "per_channel", "bias", "activation", "residual"),
    *_ZERO_POINTS,
)


def _problem(op: str, given: dict[str, Any]) -> Problem:
    if op in CONVERSIONS:
        return _conversion(op, given)
    for name in _CONVERSION_OPTIONS:
        if name in given:
            raise click.UsageError(
                f"--{'set' if name == 'fields' else name} belongs to {', '.join(CONVERSIONS)}: leave it out"
            )
    if op == "fused":
        missing = [f"--{name}" for name in ("first", "second") if name not in given]
        others = [f"--{name.replace('_', '-')}" for name in given if name not in _FUSED_OPTIONS]
        if missing or others:
            what = f"needs {', '.join(missing)}" if missing else f"takes no {', '.join(others)}"
            raise click.UsageError(
                f"fused {what}: give --first KEY and --second KEY, of three --third KEY too, which say everything"
            )
        return chained(*(given[name] for name in _FUSED_OPTIONS if name in given))
    if op != "conv2d":
        if given:
            name = next(iter(given)).replace("_", "-")
            raise click.UsageError(
                f"--{name} was given beside the key {op[:80]!r}: a key says everything, leave it out"
            )
        return parse(op)
    missing = [f"--{name}" for name in _SIZES if name not in given]
    if missing:
        raise click.UsageError(f"conv2d needs {', '.join(missing)} (or one canonical key in place of the flags)")
    quantized = {name: given.pop(name) for name in _QUANTIZATION_OPTIONS if name in given}
    quantized |= {name: bool(quantized[name]) for name in _ZERO_POINTS if name in quantized}
    mode = quantized.pop("mode", None)
    quantization = Quantization(**quantized) if mode is None else Quantization.of(mode, **quantized)
    return Conv2d(**given, quantization=quantization)


def _checked(problem: Problem, fixed: dict[str, int]) -> Problem:
    """Whoever gives a zero point its value gives it to every command, also to those that draw no data."""
    if isinstance(problem, Conv2d):
        q = problem.quantization
        types = {"x": q.x_type, "w": q.w_type, "y": q.out_type, "residual": q.residual}
        for name, value in fixed.items():
            check_zero_point(name, value, types[name.removesuffix("_zero_point")])
    return problem


def _conversion(op: str, given: dict[str, Any]) -> Problem:
    """The problem of one of the ops beside the convolution."""
    shape, axis, block = given.pop("shape", None), given.pop("axis", None), given.pop("block", 0)
    if shape is None:
        raise click.UsageError(f"{op} needs --shape (or one canonical key in place of the flags)")
    if axis is not None and axis != "token":
        axis = [_integer("axis", part) for part in axis.split(",")]
    view = view_of((shape,) if isinstance(shape, int) else shape, axis, block)
    mode, fields = given.pop("mode", None), given.pop("fields", ())
    kind = CONVERSIONS[op]
    _, told = read_key(":".join((op, *fields)), FLAGS)
    spec = view.sizes | {name: given.pop(name) for name in ("x_type", "out_type") if name in given} | kind.values(told)
    if given:
        name = next(iter(given)).replace("_", "-")
        raise click.UsageError(f"--{name} does not belong to {op}; --set NAME=VALUE sets any field of its key")
    return kind(**spec) if mode is None else kind.of(mode, **spec)


def _integer(name: str, text: Any) -> int:
    if not re.fullmatch(r"-?\d{1,10}", str(text), re.ASCII):
        raise click.UsageError(f"--{name} {text!r} is not an integer")
    return int(text)


def _zero_point(name: str, text: str) -> int | bool:
    if text == "any":
        return True
    text = text.strip("()")
    if not re.fullmatch(r"-?\d{1,9}", text, re.ASCII):
        raise click.UsageError(f"--{name.replace('_', '-')} {text!r} is not an integer (or leave the value out)")
    return int(text)


device_option = click.option(
    "--device",
    help="cpu, cuda:N, hip:N, or cpu.ARCH, which executes ARCH's matrix instructions on the CPU. "
    "Default: the first GPU, else cpu.",
)
database_option = click.option(
    "--db", "database", help="A SQLite file or SQLAlchemy URL. Default: QCONV_DB, or the cache."
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, nothing else.")


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=1))


def refuse_device(what: str, devices: list[str]) -> NoReturn:
    """A filter that no row passes; the remedy is another filter, unless there is no row at all."""
    there = f"it has rows of {', '.join(devices)}: give one of those" if devices else "it has no rows: tune first"
    raise ValueError(f"{what} matches nothing in the database; {there}")
