"""The `qconv-tune` command: parses, calls, prints.

Exit codes: 0 done; 1 done, but the answer is no (a wrong output, no config worked); 2 the request is wrong; 3 this
machine lacks something (a device, a compiler, a cached kernel); 4 the database cannot be used; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from qconv.cli.incomplete import asks_for_json, failure_of_import


def main(arguments: Sequence[str] | None = None) -> None:
    """Without arguments, those of the command line."""
    words = sys.argv[1:] if arguments is None else arguments
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
