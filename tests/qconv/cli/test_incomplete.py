"""An installation that lacks any package says so in a sentence, whatever the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from qconv.cli.incomplete import core_packages, failure_of_import
from qconv.version import __version__

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
PACKAGES = [re.split(r"[>=]", one)[0].replace("-", "_") for one in PROJECT["dependencies"]]
KEY = "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3:x_type=int8:w_type=int8:out_type=int8"
# Runs the command in a process in which one package cannot be found.
WITHOUT = """
import importlib.abc
import sys

missing = sys.argv.pop(1)

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from qconv.cli import main
main()
"""


def run(missing: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT, missing, *words], capture_output=True, text=True, check=False)


@pytest.mark.turns
@pytest.mark.parametrize("missing", PACKAGES)
def test_a_package_that_is_not_there_is_a_sentence(missing: str) -> None:
    done = run(missing, "lookup", KEY, "--device", "cpu", "--json")
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        assert missing in ("optuna", "rich", "sqlalchemy"), f"lookup can do without {missing}"
        return
    assert done.returncode == 3
    remedy = (
        rf"qconv-tune itself depends on: .* run {re.escape(sys.executable)} -m pip install qconv-tune again"
        if core_packages()
        else rf"this command needs: pip install {missing}"  # run from its sources, without metadata
    )
    assert re.fullmatch(rf"Error: No module named '{missing}\S*', which {remedy}\n", done.stderr)
    assert json.loads(done.stdout)["error"]["exit_code"] == 3


def test_help_is_no_traceback_where_it_cannot_be_read() -> None:
    done = run("click", "--help")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)


def test_the_version_is_the_one_that_is_built() -> None:
    assert __version__ == PROJECT["version"]


def test_a_module_of_our_own_is_a_bug() -> None:
    assert failure_of_import(ModuleNotFoundError("No module named 'qconv.x'", name="qconv.x")) is None
