"""What click refuses of a command line, in the form of all other messages: value, rule, remedy."""

from __future__ import annotations

import difflib
import re

import click

# Letters of a value that a message repeats.
LONGEST = 160


def message_of(error: click.ClickException) -> str:
    if isinstance(error, click.MissingParameter) and error.param is not None:
        missing = error.param.get_error_hint(error.ctx)
        return f"{missing} is missing, and the command needs it: --help says what it is"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return _of_value(error, error.param)
    if isinstance(error, click.UsageError):
        if error.message == "Missing command.":
            return "no command was given, and there is nothing to do without one: --help lists them"
        if (unknown := re.fullmatch(r"No such command '(.*)'\.?", error.message)) and error.ctx is not None:
            return _of_command(unknown[1], error.ctx)
    return error.format_message()


def _of_value(error: click.BadParameter, param: click.Parameter) -> str:
    """Click's words begin with the value, and do not say what would do."""
    name = param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
    value = re.match(r"(.*?) is not (?:a valid|in the range|one of)", error.message, re.DOTALL)
    if value is None:
        return f"{name} {error.message}"
    given = value[1] if len(value[1]) <= LONGEST else f"{value[1][: LONGEST - 3]}..."
    kind = param.type
    if isinstance(kind, click.Choice):
        near = difflib.get_close_matches(given.strip("'\""), kind.choices, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{name} {given} is not one of {', '.join(kind.choices)}{hint}: give one of them"
    what = "an integer" if isinstance(kind, type(click.INT) | click.IntRange) else "a number"
    least = getattr(kind, "min", None)
    rule = what if least is None else f"{what} of at least {least}"
    return f"{name} {given} is not {rule}: give one, as in {name} {1 if least is None else least}"


def _of_command(given: str, ctx: click.Context) -> str:
    known = ctx.command.list_commands(ctx) if isinstance(ctx.command, click.Group) else []
    near = difflib.get_close_matches(given, known, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    # Click has escaped it.
    given = given if len(given) <= LONGEST else f"{given[: LONGEST - 3]}..."
    return f"'{given}' is no command of {ctx.command_path}{hint}: give one of {', '.join(known)}"
