"""`import qconv` and `qconv-tune --help` load nothing heavy: a user who only wants help does not wait for CUDA."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("cupy", "cupy_backends", "distributed", "onnx", "onnxruntime", "optuna", "sqlalchemy", "torch")
TELL = f"\nimport sys\nprint('loaded:', *(name for name in {HEAVY} if name in sys.modules))\n"


def loaded_by(program: str) -> tuple[str, list[str]]:
    """Return the program's output, and the heavy packages that it loaded."""
    run = subprocess.run([sys.executable, "-c", program + TELL], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    printed, _, loaded = run.stdout.rpartition("loaded:")
    return printed, loaded.split()


def test_import_qconv() -> None:
    assert loaded_by("import qconv")[1] == []


def test_dir_lists_the_interface() -> None:
    printed, loaded = loaded_by("import qconv\nprint(*dir(qconv))")
    assert {"conv2d", "lookup", "tune", "Instance"} <= set(printed.split())
    assert loaded == []


def test_problems_plans_and_sources() -> None:
    program = (
        "import qconv\n"
        "from qconv import generator\n"
        "from qconv.targets.target import TARGETS\n"
        "problem = qconv.parse('conv2d:n=1:h=4:w=4:c=4:k=4:r=1:s=1')\n"
        "for target in TARGETS.values():\n"
        "    print(generator.render(generator.default(problem, target)).digest)\n"
    )
    printed, loaded = loaded_by(program)
    assert len(printed.split()) > 10
    assert loaded == []


@pytest.mark.turns
@pytest.mark.parametrize("command", [["--help"], ["tune", "--help"], ["lookup", "--help"], ["db", "--help"]])
def test_help(command: list[str]) -> None:
    program = (
        "import sys\n"
        f"sys.argv = ['qconv-tune', *{command}]\n"
        "from qconv.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as done:\n"
        "    assert not done.code\n"
    )
    printed, loaded = loaded_by(program)
    assert "Usage: qconv-tune" in printed
    assert loaded == []


@pytest.mark.parametrize("module", ["qconv", "qconv.cli"])
def test_the_module_is_the_command(module: str) -> None:
    run = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "Usage:" in run.stdout


# Modules of this package: 2 and 85 when this was written. Their number does not depend on the machine, as seconds do.
@pytest.mark.parametrize(("program", "limit"), [("import qconv", 5), ("import qconv.cli.command_line", 120)])
def test_it_loads_few_modules(program: str, limit: int) -> None:
    count = "print(sum(name.partition('.')[0] == 'qconv' for name in sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\n{count}"], capture_output=True, text=True, check=True
    )
    assert 0 < int(run.stdout) <= limit


@pytest.mark.parametrize("command", [["--help"], ["tune", "--help"], ["help", "ops"]])
def test_no_plugin_is_looked_for_at_the_start(command: list[str]) -> None:
    program = (
        "import sys\n"
        "from importlib import metadata\n"
        "def refuse(**_):\n"
        "    raise AssertionError('it reads the entry points of every package')\n"
        "metadata.entry_points = refuse\n"
        f"sys.argv = ['qconv-tune', *{command}]\n"
        "from qconv.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as done:\n"
        "    assert not done.code\n"
    )
    assert loaded_by(program)[1] == []


# Modules that the command imports for its help: of this project, and with those of Python and of packages. A new one
# makes every command slower, so that a higher number needs a reason.
MOST_OWN, MOST = 102, 450


@pytest.mark.parametrize("start", ["qconv", "qconv.cli"])
def test_the_help_imports_no_more_than_it_did(start: str) -> None:
    program = (
        "import runpy, sys\n"
        "sys.argv = ['qconv-tune', '--help']\n"
        "try:\n"
        f"    runpy.run_module({start!r}, run_name='__main__')\n"
        "except SystemExit as done:\n"
        "    assert not done.code\n"
        "print('counts:', sum(name.startswith('qconv') for name in sys.modules), len(sys.modules))\n"
    )
    printed, _ = loaded_by(program)
    own, every = map(int, printed.rpartition("counts:")[2].split())
    assert own <= MOST_OWN
    assert every <= MOST
