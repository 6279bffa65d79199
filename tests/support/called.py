"""The command line, called in this process: without the imports of a new one, which take longer than most commands."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
from typing import Any

from qconv.cli import main


def here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command that prints in Python only. A traceback fails the test."""
    words = [str(argument) for argument in arguments]
    code: Any = 0
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main(words)
        except SystemExit as done:
            code = done.code
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def document_here(*arguments: object) -> Any:
    """Return the JSON document that a command prints."""
    answer = here(*arguments, "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)
