"""Ctrl-C and SIGTERM at any moment end a command with one line and their exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mostly_slow import mostly_slow

from qconv.cli import interruption, main
from tests.tuner.measure.test_child import ends

KEY = "conv2d:n=1:h=4:w=4:c=4:k=4:r=1:s=1:x_type=int8:w_type=int8:out_type=int8"

# A test run in a shell's background ignores Ctrl-C, and its child processes would inherit that.
HEEDS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
# Runs the command, and sends it a signal when it imports the named module.
AT_IMPORT = f"""{HEEDS}
import os, signal, sys
from qconv.cli import main

name, number = sys.argv[1], signal.Signals[sys.argv[2]]

def at_import(event, arguments):
    global name
    if event == "import" and arguments[0] == name:
        name = ""
        os.kill(os.getpid(), number)

sys.addaudithook(at_import)
sys.argv[1:] = sys.argv[3:]
main()
"""
# Needed by the commands or by lookup.
IMPORTS = ("json", "click", "numpy", "ml_dtypes", "qconv.ops.registry", "qconv.device.cpu", "sqlalchemy", "_ctypes")


def stopped_at(name: str, number: str, folder: Path) -> tuple[int, str]:
    """Return the exit code and the output on stderr."""
    command = [sys.executable, "-c", AT_IMPORT, name, number, "lookup", KEY, "--device", "cpu"]
    environment = {**os.environ, "QCONV_CACHE": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", mostly_slow(IMPORTS, {"json", "numpy", "sqlalchemy"}))
def test_ctrl_c_at_an_import_is_one_line(name: str, tmp_path: Path) -> None:
    code, said = stopped_at(name, "SIGINT", tmp_path)
    assert (code, said.split()) == (130, ["interrupted"])


def test_ctrl_c_once_the_work_is_done_is_one_line() -> None:
    """During Python's shutdown, threads are joined, and exceptions are printed as ignored."""
    late = "import atexit, os, signal; atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
    program = HEEDS + late + "from qconv.cli import main\nimport sys\nsys.argv[1:] = ['help', 'exit-codes']\nmain()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_sigterm_is_one_line(tmp_path: Path) -> None:
    code, said = stopped_at("sqlalchemy", "SIGTERM", tmp_path)
    assert (code, said.split()) == (143, ["terminated"])


def test_a_caller_keeps_its_handlers() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    main(["help", "exit-codes"])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    with interruption.raised(), pytest.raises(interruption.Terminated):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before[1]


def test_what_is_ignored_stays_ignored() -> None:
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "from qconv.cli import interruption\n"
        "interruption.end_at_once()\n"
        "with interruption.raised():\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "print('went on')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr


# Answers like g++, and then waits for a child that does not end.
HANGS = """#!/bin/sh
case $1 in
--version) echo g++ ;;
-dump*) echo 9.9.9 ;;
*) sleep 600 & echo $! >PID.new; mv PID.new PID; wait ;;
esac
"""


CODES = {"SIGTERM": 143, "SIGINT": 130, "SIGKILL": -9}


@pytest.mark.parametrize("number", mostly_slow(CODES, {"SIGTERM"}))
def test_a_tuner_that_is_ended_ends_its_worker_and_its_compilers(number: str, tmp_path: Path) -> None:
    compiler, pid = tmp_path / "g++", tmp_path / "pid"
    compiler.write_text(HANGS.replace("PID", str(pid)))
    compiler.chmod(0o755)
    environment = {**os.environ, "CXX": str(compiler), "QCONV_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "qconv.cli", "tune", KEY, "--device", "cpu", "--trials", "3", "-q"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as tuner:
        wait_until(pid.exists)
        tuner.send_signal(signal.Signals[number])
        _, said = tuner.communicate(timeout=300)
    assert tuner.returncode == CODES[number]
    assert "Traceback" not in said
    compiling = int(pid.read_text())
    assert ends(compiling)


def wait_until(is_true: Callable[[], bool]) -> None:
    """Wait as long as the machine takes; a hanging test is reported by its own time-out."""
    end = time.monotonic() + 300
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)
