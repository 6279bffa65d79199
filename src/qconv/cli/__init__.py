"""The `qconv-tune` command: parses, calls, prints.

Exit codes: 0 done; 1 done, but the answer is no (a wrong output, no config worked); 2 the request is wrong; 3 this
machine lacks something (a device, a compiler, a cached kernel); 4 the database cannot be used; 130
interrupted; 143 ended by SIGTERM.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from qconv.cli import interruption


def main(arguments: Sequence[str] | None = None) -> None:
    """Without arguments, those of the command line, of a process that is this command's."""
    if arguments is None:
        interruption.end_at_once()
    words = sys.argv[1:] if arguments is None else arguments
    # Imported here, where an interruption is one line already.
    from qconv.cli.incomplete import asks_for_json, failure_of_import

    try:
        from qconv.cli import command_line
    except ModuleNotFoundError as missing:
        # A package that every command needs: there is nothing to parse the words with, or to compute in.
        failure = failure_of_import(missing)
        if failure is None:
            raise
        failure.show(asks_for_json(words))
        sys.exit(failure.exit_code)
    command_line.run(words)
