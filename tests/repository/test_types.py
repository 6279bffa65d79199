"""The types of this installation, which may be an editable one, as checkers see them: the calls of `typed_calls.py`."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

CALLS = Path(__file__).parents[1] / "support/typed_calls.py"
REFUSED = {number for number, line in enumerate(CALLS.read_text().splitlines(), 1) if line.endswith("# refused")}
CHECKERS = {
    "mypy": ["mypy", "--strict", "--no-incremental", "--config-file="],
    "pyright": ["pyright", "--pythonpath", sys.executable],
}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_refuses_the_wrong_lines_and_no_other(checker: str, tmp_path: Path) -> None:
    if find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed: pip install 'qconv-tune[types]'")
    # Run elsewhere: a checker finds the installed package, not its own folder.
    command = [sys.executable, "-m", *CHECKERS[checker], str(CALLS)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = {int(line) for line in re.findall(r"typed_calls\.py:(\d+):.*error", done.stdout)}
    assert said == REFUSED, done.stdout + done.stderr


def test_there_are_lines_to_refuse() -> None:
    assert len(REFUSED) > 10
