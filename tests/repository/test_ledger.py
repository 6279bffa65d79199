"""A test that never ran is reported: one that was skipped, one in a skipped file, and one that no run collected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ledger import NEVER, RAN, SKIPPED, VARIABLE, Collection, missing

HERE = Path(__file__).parent
SETTINGS = f"""[tool.pytest.ini_options]
testpaths = ["tests"]
addopts = "--import-mode=importlib"
pythonpath = [{str(HERE)!r}, {str(HERE.parent / "support")!r}]
markers = ["gpu", "slow", "many"]
"""
PLANTED = {
    "test_hidden.py": """import pytest
def test_runs(): pass
@pytest.mark.gpu
def test_on_a_gpu(): pass
@pytest.mark.slow
def test_later(): pass
@pytest.mark.slow
@pytest.mark.many
@pytest.mark.parametrize("number", range(40))
def test_many(number): pass
@pytest.fixture
def tool(): pytest.skip("no tool here")
def test_with_a_tool(tool): pass
def test_half_way():
    assert True
    pytest.skip("the other half")
""",
    "test_whole.py": 'import pytest\npytest.importorskip("no_such_package", reason="no package")\ndef test_b(): pass\n',
    "test_nothing.py": "def check_nothing(): pass\n",
}


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Create a repository whose fast suite has run once, with its ledger."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    for name, text in {"conftest.py": (HERE.parent / "conftest.py").read_text(), **PLANTED}.items():
        (tmp_path / "tests" / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-m", "not slow", "-p", "no:cacheprovider"]
    environment = os.environ | {VARIABLE: str(tmp_path / "ledger"), "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    # The commit decides what --one-in leaves out; the copy for planted bugs has none.
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    author = ("-c", "user.name=planted", "-c", "user.email=planted@localhost")
    subprocess.run(["git", *author, "-C", tmp_path, "commit", "-q", "--allow-empty", "-m", "planted"], check=True)
    return tmp_path


def said_of(planted: Path, *options: str) -> tuple[int, list[str]]:
    command = [sys.executable, HERE / "ledger.py", planted / "ledger", "--root", planted, *options]
    environment = os.environ | {"GIT_DIR": str(planted / ".git")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_what_hid_itself_is_told_with_its_reason(planted: Path) -> None:
    """From the run itself, workers included, to the exit status."""
    status, (*lines, total) = said_of(planted, "--one-in", "4")
    many = [line for line in lines if "test_many" in line]
    assert 0 < len(many) < 25
    assert status == 1
    assert [line for line in lines if line not in many] == [
        f"tests/test_hidden.py::test_later: {NEVER}",
        "tests/test_hidden.py::test_with_a_tool: no tool here",
        "tests/test_hidden.py::test_half_way: the other half",
        "tests/test_whole.py: no package",
        "tests/test_nothing.py: pytest collects nothing in it",
    ]
    assert total == f"{5 + len(many)} tests: 1 need a GPU, {len(lines)} ran in no run"
    assert said_of(planted, "--one-in", "4", "--out", str(planted / "left"))[0] == 0
    assert (planted / "left").read_text().splitlines() == [line.partition(": ")[0] for line in lines]


def written(ledger: Path, *lines: tuple[str, str, str]) -> Path:
    ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ledger


def test_a_test_that_ran_in_any_run_is_not_missed(tmp_path: Path) -> None:
    found = Collection({"tests/test_a.py::test_one": True, "tests/test_a.py::test_two[x::y]": True})
    one, two = found.tests
    lines = ((one, SKIPPED, "no package"), (two, RAN, ""), (one, RAN, ""), (two, SKIPPED, "-"))
    ran = written(tmp_path / "ledger", *lines)
    assert missing(ran, found, tmp_path) == {}
    assert missing(tmp_path / "none", found, tmp_path) == dict.fromkeys((one, two), NEVER)


def test_a_test_of_a_file_that_was_skipped_has_its_reason(tmp_path: Path) -> None:
    found = Collection({"tests/test_a.py::test_one": True, "tests/test_a.py::test_on_a_gpu": False})
    ledger = written(tmp_path / "ledger", ("tests/test_a.py", SKIPPED, "no package"))
    assert missing(ledger, found, tmp_path) == {"tests/test_a.py::test_one": "no package"}
