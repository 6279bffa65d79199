"""Ctrl-C and SIGTERM at any moment end a command with one line, which says how to go on, and with their exit code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from filled_cache import fill
from mostly_slow import mostly_slow

from qconv.cli import interruption, main
from qconv.tune_db.text import dump
from tests.tuner.measure.test_child import ends

KEY = "conv2d:n=1:h=4:w=4:c=4:k=4:r=1:s=1:x_type=int8:w_type=int8:out_type=int8"

# Runs the command, and sends it a signal when it imports the named module.
AT_IMPORT = """
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
    assert code == 130
    assert said.strip() in ("interrupted", f"interrupted: {interruption.GOES_ON}")


def test_ctrl_c_once_the_work_is_done_is_one_line() -> None:
    """During Python's shutdown, threads are joined, and exceptions are printed as ignored."""
    late = "import atexit, os, signal; atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
    program = late + "from qconv.cli import main\nimport sys\nsys.argv[1:] = ['help', 'exit-codes']\nmain()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_sigterm_is_one_line(tmp_path: Path) -> None:
    code, said = stopped_at("sqlalchemy", "SIGTERM", tmp_path)
    assert (code, said.strip()) == (143, f"terminated: {interruption.GOES_ON}")


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
*) sleep 300 & echo $! >PID.new; mv PID.new PID; wait ;;
esac
"""


def ended_with_the_compiler(folder: Path, *arguments: object) -> tuple[int, list[str]]:
    """Run a command whose first kernel is never compiled, and press Ctrl-C."""
    compiler, pid = folder / "g++", folder / "pid"
    compiler.write_text(HANGS.replace("PID", str(pid)))
    compiler.chmod(0o755)
    environment = {**os.environ, "CXX": str(compiler), "QCONV_CACHE": str(folder / "cache")}
    command = [sys.executable, "-c", "from qconv.cli import main\nmain()", *map(str, arguments)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as run:
        wait_until(pid.exists)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert ends(int(pid.read_text()))
    return run.returncode, [line for line in said.splitlines() if line]


COMPILING = {
    "bench": ([KEY, "--device", "cpu"], interruption.GOES_ON),
    "build": ([KEY, "--target", "cpu", "--out", "OUT"], "0 problems are compiled, in the cache: the same command goes"),
    "export": (
        [KEY, "--target", "cpu", "--origin", "default", "--format", "library", "--out", "OUT"],
        "0 kernels are compiled, in the cache: the same command goes on",
    ),
    "lookup": ([KEY, "--device", "cpu"], interruption.GOES_ON),
    "run": ([KEY, "--device", "cpu", "--seed", "7"], "it had no output yet: --seed 7 draws the same data again"),
}


@pytest.mark.parametrize("name", mostly_slow(COMPILING, {"export", "run"}))
def test_ctrl_c_while_a_kernel_is_compiled(name: str, tmp_path: Path) -> None:
    given, says = COMPILING[name]
    words = [str(tmp_path / "out") if word == "OUT" else word for word in given]
    code, said = ended_with_the_compiler(tmp_path, name, *words)
    assert code == 130
    assert len(said) == 1, said
    assert said[0].startswith(f"interrupted: {says}")


# Runs the command, and sends it Ctrl-C when it opens a file of this name.
AT_OPEN = """
import os, signal, sys
from qconv.cli import main

name = sys.argv[1]

def at_open(event, arguments):
    global name
    if event == "open" and name and str(arguments[0]).endswith(name):
        name = ""
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(at_open)
sys.argv[1:] = sys.argv[2:]
main()
"""


def stopped_when_opening(name: str, *arguments: object) -> tuple[int, list[str]]:
    command = [sys.executable, "-c", AT_OPEN, name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, [line for line in done.stderr.splitlines() if line]


def test_ctrl_c_between_samples_says_how_many_were_used(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    import onnx
    import quantized_networks as networks

    model, data, out = tmp_path / "model.onnx", tmp_path / "data", tmp_path / "out.onnx"
    onnx.save(networks.NETWORKS["resnet"](), model)
    data.mkdir()
    for seed in range(3):
        np.save(data / f"{seed}.npy", networks.images(1, seed)[0])
    code, said = stopped_when_opening("/2.npy", "quantize", model, "--data", data, "--out", out, "-q")
    assert (code, out.exists()) == (130, False)
    assert said == [
        f"interrupted: calibrated on 2 of 3 samples, and {out} is not written: --limit N takes fewer samples"
    ]
    made = tmp_path / "made.onnx"
    onnx.save(networks.quantized(networks.NETWORKS["resnet"](), "QDQ", "u8s8", per_channel=True), made)
    code, said = stopped_when_opening("/1.npy", "compare", model, made, "--data", data, "-q")
    assert code == 130
    assert said == ["interrupted: compared on 1 of 3 samples, and nothing is printed: --limit N takes fewer samples"]


def test_ctrl_c_in_the_database_says_what_is_kept(tmp_path: Path) -> None:
    one, other, ours = tmp_path / "one.txt", tmp_path / "other.txt", tmp_path / "ours.sqlite"
    for path in (one, other):
        path.write_text(dump([]))
    code, said = stopped_when_opening("other.txt", "db", "merge", "--db", ours, one, other)
    assert (code, said) == (130, ["interrupted: 0 of 2 are merged: the same command goes on"])


def test_a_cache_says_how_far_it_is(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    fill(root)
    command = [sys.executable, "-c", AT_OPEN, ".so", "cache", "verify"]
    environment = {**os.environ, "QCONV_CACHE": str(root)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 130
    assert re.search(r"^interrupted: \d of 3 entries are verified, 0 are damaged$", done.stderr, re.M), done.stderr


def test_an_incomplete_folder_is_to_be_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert interruption.again(out, "last") == "the same command goes on"
    out.mkdir()
    assert interruption.again(out, "last") == "the same command goes on"
    (out / "first").touch()
    assert interruption.again(out, "last") == f"remove {out}, which is incomplete, and the same command goes on"
    (out / "last").touch()
    assert interruption.again(out, "last") == "the same command goes on"


CODES = {"SIGTERM": 143, "SIGINT": 130, "SIGKILL": -9}


@pytest.mark.parametrize("number", mostly_slow(CODES, {"SIGTERM"}))
def test_a_tuner_that_is_ended_ends_its_worker_and_its_compilers(number: str, tmp_path: Path) -> None:
    compiler, pid = tmp_path / "g++", tmp_path / "pid"
    compiler.write_text(HANGS.replace("PID", str(pid)))
    compiler.chmod(0o755)
    environment = {**os.environ, "CXX": str(compiler), "QCONV_CACHE": str(tmp_path / "cache")}
    arguments = ["tune", KEY, "--device", "cpu", "--trials", "3", "-q"]
    command = [sys.executable, "-c", "from qconv.cli import main\nmain()", *arguments]
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
