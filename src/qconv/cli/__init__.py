"""The `qconv-tune` command: it parses, calls and prints.

Exit codes: 0 done; 1 done, but the answer is no (a wrong output, no config worked); 2 the request is wrong; 3 this
machine lacks something (a device, a compiler, a cached kernel); 4 the database cannot be used; 130 interrupted; 143
ended by SIGTERM.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from qconv.cli import interruption


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. Without arguments, those of the command line; the process then belongs to the command."""
    if arguments is None:
        interruption.end_at_once()
    words = sys.argv[1:] if arguments is None else arguments
    # Imported here, where an interruption is already reported in one line.
    from qconv.cli.incomplete import asks_for_json, failure_of_import

    try:
        from qconv.cli import command_line
    except ModuleNotFoundError as missing:
        # A package that every command needs, also to parse the arguments.
        failure = failure_of_import(missing)
        if failure is None:
            raise
        failure.show(asks_for_json(words))
        sys.exit(failure.exit_code)
    command_line.run(words)
