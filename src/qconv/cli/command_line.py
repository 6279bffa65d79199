"""The commands as one group, and the handling of their errors. Large packages are imported only by commands that use
them."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import replace

import click

from qconv.cli import (
    build,
    cache,
    compare,
    database,
    doctor,
    explain,
    export,
    inspect,
    interruption,
    measure,
    quantize,
    report,
    sensitivity,
    study,
    topics,
    tuning,
)
from qconv.cli.failures import failure_of, without_passwords
from qconv.cli.incomplete import asks_for_json, readable
from qconv.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="qconv-tune")
def commands() -> None:
    """Tuned, bit-exact int8 convolution kernels for your layer: generated, timed, remembered, exported.

    A problem is `conv2d` with its flags, `fused` with the keys of two or three, or one canonical key, as the
    other commands print it:

    \b
      qconv-tune tune conv2d --n 1 --h 14 --w 14 --c 64 --k 64 --r 3 --s 3
      qconv-tune lookup conv2d:n=1:h=14:w=14:c=64:k=64:r=3:s=3:x_type=int8:w_type=int8:out_type=int8

    Start with qconv-tune doctor; qconv-tune help lists more topics.
    """


# Short descriptions for the list of commands, which must fit its column.
IN_SHORT = {
    "bench": "Verify and time the kernel that lookup gives.",
    "build": "Compile ahead, for a device that is not here.",
    "cache": "What was compiled: list, clear, verify.",
    "compare": "A quantized model beside its float model.",
    "db": "The tuning database: list, merge, export, prune.",
    "devices": "The devices here, and what can be compiled for.",
    "doctor": "What works here, what is missing, how to get it.",
    "explain": "Where a model's layers run, and why.",
    "export": "Write winners to ship, as sources or a library.",
    "help": "Help by topics: ops, environment, completion.",
    "lookup": "The kernel that would be used, and why.",
    "quantize": "From a float model to integer kernels.",
    "report": "One page of what a device measured.",
    "run": "Run that kernel once, on random data.",
    "sensitivity": "Which layers cost the outputs most.",
    "source": "Print a generated kernel.",
    "space": "Every config of the search space.",
    "study": "The measurements as Optuna studies.",
    "tune": "Measure configs, and remember the fastest.",
}
for command in (
    tuning.tune,
    measure.run,
    measure.bench,
    inspect.lookup,
    inspect.space,
    inspect.source,
    inspect.devices,
    doctor.doctor,
    build.build,
    explain.explain,
    quantize.quantize,
    compare.compare,
    sensitivity.sensitivity,
    export.export,
    cache.cache,
    database.db,
    report.report,
    study.study,
    topics.topics,
):
    command.short_help = IN_SHORT.get(command.name or "")
    commands.add_command(command)


def run(arguments: Sequence[str]) -> None:
    """Run a command. An expected error is one message on stderr and an exit code; only a bug shows a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # Print paths in invalid UTF-8 as they are, instead of failing after the work is done.
        sys.stdout.reconfigure(errors="surrogateescape")
    try:
        with interruption.raised():
            commands.main(list(arguments), standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except (KeyboardInterrupt, click.Abort) as stopped:
        line, code = interruption.line_of(stopped)
        click.echo(readable(line, keeping=""), err=True)
        sys.exit(code)
    except BrokenPipeError:
        # The reader of the output has closed the pipe, as `head` does.
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        failure = replace(failure, message=without_passwords(failure.message, arguments))
        if type(error).__name__ == "NoArgsIsHelpError":  # in click 8.2 and later, with the help as its message
            click.echo(str(error), err=True)
            sys.exit(failure.exit_code)
        if isinstance(error, click.UsageError) and error.ctx is not None:
            click.echo(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.\n", err=True)
        failure.show(asks_for_json(arguments))
        sys.exit(failure.exit_code)
