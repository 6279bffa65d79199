"""The `qconv-tune` command: parses, calls, prints. Nothing heavy is imported before a command needs it.

Exit codes: 0 done; 1 done, but the answer is no (a wrong output, no config worked); 2 the request is wrong; 3 this
machine lacks something (a device, a compiler, a cached kernel); 4 the database cannot be used; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from qconv.cli import build, database, export, look, measure, tuning
from qconv.errors import (
    CacheError,
    CompileError,
    DatabaseError,
    DeviceError,
    Infeasible,
    KernelMissing,
    LaunchError,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="qconv-tune", prog_name="qconv-tune")
def commands() -> None:
    """Tuned, bit-exact int8 convolution kernels for your layer: generated, timed, remembered, exported.

    A problem is `conv2d` with its flags, `fused` with the keys of two or three, or one canonical key, as the
    other commands print it:

    \b
      qconv-tune tune conv2d --n 1 --h 14 --w 14 --c 64 --k 64 --r 3 --s 3 --pad 1 --device cpu
      qconv-tune tune conv2d:n=1:h=14:w=14:c=64:k=64:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8
    """


for command in (
    tuning.tune,
    measure.run,
    measure.bench,
    look.lookup,
    look.space,
    look.source,
    look.devices,
    build.build,
    export.export,
    database.db,
):
    commands.add_command(command)

EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (ValueError, 2),
    (Infeasible, 2),
    (DeviceError, 3),
    (CompileError, 3),
    (CacheError, 3),
    (KernelMissing, 3),
    (LaunchError, 1),
    (DatabaseError, 4),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """An expected error is one message on stderr and an exit code; only a bug shows a traceback. Without arguments,
    those of the command line."""
    try:
        commands.main(arguments, standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as refused:
        refused.show()
        sys.exit(refused.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has left, as `head` does.
        sys.stderr.close()
        sys.exit(0)
    except tuple(kind for kind, _ in EXIT_CODES) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(next(code for kind, code in EXIT_CODES if isinstance(error, kind)))
    except MemoryError as error:
        click.echo(f"Error: this machine has too little memory for the problem: {error}; make n smaller", err=True)
        sys.exit(3)
    except OSError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(3)
