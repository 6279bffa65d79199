"""Options that several commands share: the problem, the device, the database, the output format."""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import click

from qconv.op import Op, Option, Problem, quoted
from qconv.ops.registry import OPS, op_named, parse

Command = Callable[..., Any]
_QUIET = "qconv.cli.quiet"


def _shared(options: list[Option]) -> Option:
    """Merge the options of this name from all ops into one."""
    first = options[0]
    assert {option.kind for option in options} == {first.kind}, f"{first.spelled} is of one kind"
    says = " ".join(dict.fromkeys(option.says for option in options))
    choices = tuple(dict.fromkeys(choice for option in options for choice in option.choices))
    return replace(first, says=says, choices=choices)


_NAMES = dict.fromkeys(option.name for op in OPS for option in op.options)
OPTIONS = tuple(_shared([option for op in OPS for option in op.options if option.name == name]) for name in _NAMES)
_ZERO_POINTS = {option.name: option.spelled for option in OPTIONS if option.kind == "zero_point"}


class Extents(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """One or several integers: `2`, `2,1` or `2x1`."""

    name = "INT[,INT...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        if not re.fullmatch(r"-?\d{1,10}([,x]-?\d{1,10})*", value, re.ASCII):
            self.fail(f"{quoted(value)} is not an integer, or several with commas between, such as 2,1", param, ctx)
        numbers = tuple(int(number) for number in re.split("[,x]", value))
        return numbers[0] if len(numbers) == 1 else numbers


MOST_CHOICES = 24  # characters of choices shown beside an option
# The options that describe most layers. The help of an op lists the others.
COMMON = ("n", "h", "w", "c", "k", "r", "s", "stride", "pad", "groups", "x_zero_point", "bias", "activation")


class ProblemCommand(click.Command):
    """A command with a problem. Its help has its own options and the most common ones of a problem.

    Zero points take an optional value. Click would read a negative one as an option, so it is passed in brackets."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        described = {param.name: param.get_help_record(ctx) for param in self.get_params(ctx)}
        common = [record for name in COMMON if (record := described.get(name)) is not None]
        own = [record for name, record in described.items() if record is not None and name not in (*_NAMES, "op")]
        with formatter.section("A conv2d, in short"):
            formatter.write_dl(common)
        with formatter.section("Options"):
            formatter.write_dl(own)
        formatter.write_paragraph()
        names = ", ".join(op.name for op in OPS)
        formatter.write_text(f"qconv-tune help OP lists every option of an op: {names}.")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spelled: list[str] = []
        for arg in args:
            option, equals, value = arg.partition("=")
            if not equals and spelled and spelled[-1] in _ZERO_POINTS.values():
                option, value = spelled[-1], arg
            if option in _ZERO_POINTS.values() and re.fullmatch(r"-\d+", value, re.ASCII):
                if not equals:
                    spelled.pop()
                spelled.append(f"{option}=({value})")
            else:
                spelled.append(arg)
        if not ctx.resilient_parsing:
            self._refuse_options(ctx, spelled)
        return super().parse_args(ctx, spelled)

    def _refuse_options(self, ctx: click.Context, args: list[str]) -> None:
        """Reject options that no op has, or that the named op lacks, before any value is read."""
        try:
            given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        except click.NoSuchOption as unknown:
            raise self._unknown(ctx, args, unknown) from None
        names = [name for name in _NAMES if name in given]
        if not names or not set(ctx.help_option_names).isdisjoint(args):
            return
        words = given.get("words", given.get("op"))  # a tuple, a word, or click's default for none
        if isinstance(words, tuple) and len(words) > 1:
            raise click.UsageError(
                f"{_option(names[0]).spelled} was given beside {len(words)} words: give one op alone with its options",
                ctx,
            )
        word = words[0] if isinstance(words, tuple) and words else words
        if not isinstance(word, str):
            raise click.UsageError(f"{_option(names[0]).spelled} was given without an op, such as conv2d", ctx)
        _check_belongs(word, names, ctx)

    def _unknown(self, ctx: click.Context, args: list[str], unknown: click.NoSuchOption) -> click.NoSuchOption:
        op = next((op for op in OPS if op.name in args), None)
        own = [spelled for param in self.params if param.name not in _NAMES for spelled in param.opts]
        its = [option.spelled for option in (OPTIONS if op is None else op.options)]
        near = difflib.get_close_matches(unknown.option_name, [*own, *its], n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        who, where = (ctx.info_name, f"{ctx.command_path} --help") if op is None else (op.name, _all_options(op))
        return click.NoSuchOption(
            unknown.option_name, f"{who} has no option {unknown.option_name}{hint}: {where} lists those it has", ctx=ctx
        )


def problem_options(command: Command) -> Command:
    """Pass `problem`, and `fixed`: the zero points given with a value, for the data of run and bench."""

    return _with_problem(command, required=True)


def problem_or_file_options(command: Command) -> Command:
    """Pass the same to a command that also reads problems from a file; then `problem` is None."""
    return _with_problem(command, required=False)


def problem_or_words_options(command: Command) -> Command:
    """Pass `words`, which are keys or parts of keys. An op with its options becomes the key of that problem."""

    def wrapped(words: tuple[str, ...], **options: Any) -> Any:
        given, _ = _taken(options)
        if given:
            words = (str(_problem(words[0], given)),)
        return command(words=words, **options)

    return _with_options(functools.wraps(command)(wrapped))


def _with_problem(command: Command, required: bool) -> Command:
    def wrapped(op: str | None, **options: Any) -> Any:
        given, fixed = _taken(options)
        return command(problem=None if op is None else _problem(op, given), fixed=fixed, **options)

    metavar = "OP|KEY" if required else "[OP|KEY]"
    return click.argument("op", metavar=metavar, required=required)(_with_options(functools.wraps(command)(wrapped)))


def _with_options(command: Command) -> Command:
    for option in reversed(OPTIONS):
        command = _clicked(option)(command)
    return command


def _taken(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """Remove the options that describe a problem. Return those given, and the zero points with a value."""
    given = {name: value for name in _NAMES if (value := options.pop(name)) not in (None, ())}
    given |= {name: _zero_point(name, given[name]) for name in _ZERO_POINTS if name in given}
    return given, {name: given[name] for name in _ZERO_POINTS if given.get(name, True) is not True}


def _clicked(option: Option) -> Callable[[Command], Command]:
    return click.option(option.spelled, option.name, **_described(option))


def clicked(option: Option) -> click.Option:
    """Return an option as one op has it, with its own description and choices."""
    return click.Option([option.spelled, option.name], **_described(option))


def _described(option: Option) -> dict[str, Any]:
    kinds: dict[str, dict[str, Any]] = {
        "integer": {"type": int},
        "extents": {"type": Extents()},
        "text": {"type": click.Choice(option.choices) if option.choices else None},
        "texts": {"multiple": True, "default": None},
        "switch": {"is_flag": True, "default": None},
        "zero_point": {"is_flag": False, "flag_value": "any", "metavar": "[INT]"},
    }
    given = kinds[option.kind]
    if option.metavar is not None:
        given["metavar"] = option.metavar
    if option.alone is not None:
        given |= {"is_flag": False, "flag_value": option.alone}
    says = option.says
    if len("|".join(option.choices)) > MOST_CHOICES:  # click prints choices as one word, which terminals do not wrap
        given["metavar"] = option.metavar or option.name.upper()
        says = f"{says} One of {', '.join(option.choices)}."
    return given | {"help": says}


def _problem(name: str, given: dict[str, Any]) -> Problem:
    op = op_named(name)
    if op is None:
        if ":" not in name:
            ops = ", ".join(op.name for op in OPS)
            raise click.UsageError(
                f"{quoted(name)} is no op, and no key of a problem: give one of {ops}; a file of problems is given to "
                "tune, as --workload FILE"
            )
        return parse(name)
    missing = [option.spelled for option in op.options if option.required and option.name not in given]
    if missing:
        raise click.UsageError(f"{op.name} needs {', '.join(missing)} (or one canonical key in place of the flags)")
    return op.ask(given)


def _check_belongs(word: str, names: list[str], ctx: click.Context) -> None:
    """Reject options beside a word that is no op, and options that only other ops have."""
    op = op_named(word)
    if op is None:
        spelled = _option(names[0]).spelled
        if ":" in word:
            rule = f"was given beside the key {quoted(word[:80])}: a key says everything, leave it out"
        else:
            rule = f"was given beside {quoted(word[:80])}, which is no op: give one of {', '.join(o.name for o in OPS)}"
        raise click.UsageError(f"{spelled} {rule}", ctx)
    for name in names:
        owners = [other.name for other in OPS if any(option.name == name for option in other.options)]
        if op.name in owners:
            continue
        remedy = op.instead or f"leave it out, {_all_options(op)} lists those it has"
        raise click.UsageError(
            f"{op.name} has no option {_option(name).spelled}, which belongs to {', '.join(owners)}: {remedy}", ctx
        )


def _all_options(op: Op) -> str:
    return f"qconv-tune help {op.name}"


def _option(name: str) -> Option:
    return next(option for option in OPTIONS if option.name == name)


def _zero_point(name: str, text: str) -> int | bool:
    if text == "any":
        return True
    text = text.strip("()")
    if not re.fullmatch(r"-?\d{1,9}", text, re.ASCII):
        raise click.UsageError(f"{_ZERO_POINTS[name]} {quoted(text)} is not an integer (or leave the value out)")
    return int(text)


device_option = click.option(
    "--device",
    help="cpu, cuda:N, hip:N, or cpu.ARCH, which executes ARCH's matrix instructions on the CPU. "
    "Default: the first GPU, else cpu.",
)


# The arguments `floats` and `keep` of a session; none where neither option is given.
Computed = dict[str, Any]


def floats_options(command: Command) -> Command:
    """Pass `computed`: what a session takes of --floats and --keep."""

    @click.option(
        "--floats",
        type=click.Choice(["float32", "float16", "bfloat16"]),
        help="For a model: the type in which its float layers multiply. float32 (default) has the same bits "
        "everywhere; the others run on tensor cores.",
    )
    @click.option("--keep", multiple=True, metavar="LAYER", help="With --floats: a layer that stays float32.")
    @functools.wraps(command)
    def wrapped(floats: str | None, keep: tuple[str, ...], **options: Any) -> Any:
        return command(computed={"floats": floats, "keep": keep or None} if floats or keep else {}, **options)

    return wrapped


def refuse_floats(computed: Computed) -> None:
    """Reject --floats and --keep beside what is no model."""
    if computed:
        raise click.UsageError("--floats and --keep belong to a MODEL.onnx: a problem has its types, leave them out")


def _database(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Reject an empty value, which a shell passes for an unset variable, instead of using the default."""
    if value is not None and not value.strip():
        raise click.UsageError(f"--db {value!r} names no database: give a path or a URL, or leave it out", ctx)
    return value


database_option = click.option(
    "--db",
    callback=_database,
    help="A SQLite file (one folder is made for it) or SQLAlchemy URL. Default: QCONV_DB, or the cache.",
)


def quiet_option(command: Command) -> Command:
    """Add -q, which suppresses progress on stderr. Commands query it by `is_quiet`."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.meta[_QUIET] = value

    return click.option(
        *("-q", "--quiet"), is_flag=True, expose_value=False, callback=remember, help="No progress on stderr."
    )(command)


def is_quiet() -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(_QUIET))


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, nothing else.")


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=1))


@contextmanager
def needing_onnx() -> Iterator[None]:
    """Say what to install where an import within the context fails."""
    try:
        yield
    except ImportError as missing:
        raise ValueError(f"a model needs onnx and onnxruntime ({missing}): pip install 'qconv-tune[onnx]'") from None


def refuse_device(what: str, devices: list[str]) -> NoReturn:
    """Reject a filter that no row passes, and name the existing devices, if there are rows at all."""
    there = f"it has rows of {', '.join(devices)}: give one of those" if devices else "it has no rows: tune first"
    raise ValueError(f"{what} matches nothing in the database; {there}")
