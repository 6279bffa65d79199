"""The command help: topics that exceed the help of one command, such as each op with its options."""

from __future__ import annotations

import click

from qconv.cli.options import clicked
from qconv.op import Op
from qconv.ops.registry import OPS, op_named

ENVIRONMENT = (
    ("QCONV_CACHE", "The folder of compiled kernels and of the database. Default: ~/.cache/qconv."),
    ("QCONV_DB", "The database: a SQLite file or an SQLAlchemy URL. Default: tune.sqlite in the cache."),
    ("QCONV_PATH", "Folders that qconv-tune build --out made, with colons between: they are only read."),
    ("QCONV_NO_COMPILE", "1: nothing is compiled; what no folder has is an error that says how to build it."),
    ("QCONV_PROCESSES", "How many processes choose kernels at once; 1: none. Default: the cores, at most 16."),
    ("CXX", "The C++ compiler of the CPU device. Default: g++."),
    (
        "QCONV_CLANG",
        "The clang of the AMD targets. Default: the first of clang-19, clang-22 and clang that knows the target.",
    ),
)
COMPLETION = (
    ("bash", 'eval "$(_QCONV_TUNE_COMPLETE=bash_source qconv-tune)"    in ~/.bashrc'),
    ("zsh", 'eval "$(_QCONV_TUNE_COMPLETE=zsh_source qconv-tune)"    in ~/.zshrc'),
    ("fish", "_QCONV_TUNE_COMPLETE=fish_source qconv-tune | source    in ~/.config/fish/config.fish"),
)
EXIT_CODES = (
    ("0", "done"),
    ("1", "done, but the answer is no: a wrong output, no config that works"),
    ("2", "the request is wrong"),
    ("3", "this machine lacks something: a device, a compiler, a package, a cached kernel, room on the disk"),
    ("4", "the database cannot be used"),
    ("130", "interrupted; the last line says what is kept, and how to go on"),
    ("143", "ended by SIGTERM; what was measured is kept"),
)
GENERAL = {
    "environment": ("The variables that qconv reads.", ENVIRONMENT),
    "completion": ("Names of commands and options, completed by the shell.", COMPLETION),
    "exit-codes": ("What the exit code says. With --json, an error is a document with the same code.", EXIT_CODES),
}
OPS_TOPIC = "ops"


@click.command("help")
@click.argument("topic", required=False)
@click.pass_context
def topics(ctx: click.Context, topic: str | None) -> None:
    """Help by TOPIC: ops, an op with all of its options, a command, environment, completion or exit-codes."""
    formatter = ctx.make_formatter()
    if topic is None:
        _all(formatter)
    elif topic in GENERAL:
        says, rows = GENERAL[topic]
        formatter.write_text(says)
        formatter.write_paragraph()
        formatter.write_dl(rows)
    elif topic == OPS_TOPIC:
        formatter.write_text("qconv-tune help OP lists all options of one.")
        formatter.write_paragraph()
        formatter.write_dl([(op.name, op.says) for op in OPS])
    elif (op := op_named(topic)) is not None:
        _of_op(op, formatter)
    else:
        assert ctx.parent is not None
        assert isinstance(ctx.parent.command, click.Group)
        command = ctx.parent.command.get_command(ctx.parent, topic)
        if command is None:
            known = ", ".join((*GENERAL, OPS_TOPIC, *(op.name for op in OPS), *ctx.parent.command.commands))
            raise click.UsageError(f"{topic!r} is no topic; there are {known}")
        with command.make_context(topic, [], parent=ctx.parent, resilient_parsing=True) as of_command:
            click.echo(command.get_help(of_command))
        return
    click.echo(formatter.getvalue().rstrip())


def _all(formatter: click.HelpFormatter) -> None:
    rows = [(name, says) for name, (says, _) in GENERAL.items()]
    rows.append((OPS_TOPIC, "What each op computes."))
    rows.append(("OP", f"All options of an op: {', '.join(op.name for op in OPS)}."))
    rows.append(("COMMAND", "The same as qconv-tune COMMAND --help."))
    formatter.write_text("qconv-tune help TOPIC")
    formatter.write_paragraph()
    formatter.write_dl(rows)


def _of_op(op: Op, formatter: click.HelpFormatter) -> None:
    """Write the help of one op: its own options, with its own choices."""
    needed = [option.spelled for option in op.options if option.required]
    formatter.write_text(f"{op.name} needs {', '.join(needed)}; all else has a default.")
    formatter.write_paragraph()
    records = [clicked(option).get_help_record(click.Context(topics)) for option in op.options]
    formatter.write_dl([record for record in records if record is not None])
    if op.instead:
        formatter.write_paragraph()
        formatter.write_text(f"For all else, {op.instead}.")
