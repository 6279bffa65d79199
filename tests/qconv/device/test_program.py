"""Running a compiler: it and its children end with the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from mostly_slow import mostly_slow

from qconv.device import program
from qconv.errors import CompileError, CompileTimeout
from tests.tuner.measure.test_child import ends

# A compiler with a child, whose process id it writes.
HANGS = "sleep 600 & echo $! >pid.new; mv pid.new pid; wait"
RUN = f"from pathlib import Path\nfrom qconv.device import program\nprogram.run(['sh', '-c', {HANGS!r}], Path.cwd())"


def child_in(folder: Path) -> int:
    while not (folder / "pid").exists():
        time.sleep(0.01)
    return int((folder / "pid").read_text())


def test_what_it_says_and_how_it_ends() -> None:
    done = program.run(["sh", "-c", "echo out; echo log >&2; cat; exit 7"])
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "log\n")


@pytest.mark.parametrize("number", mostly_slow(["SIGKILL", "SIGTERM", "SIGINT"], {"SIGKILL"}))
def test_a_compiler_ends_with_the_process_that_started_it(number: str, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", RUN], cwd=tmp_path, stderr=subprocess.DEVNULL) as ours:
        compiling = child_in(tmp_path)
        ours.send_signal(signal.Signals[number])
    assert ends(compiling)


def test_a_compiler_outlives_the_thread_that_started_another(tmp_path: Path) -> None:
    """Linux can tie a process to the thread that started it, which would end too early here."""
    first = threading.Thread(target=program.run, args=(["true"],))
    first.start()
    first.join()
    with pytest.raises(CompileTimeout, match=r"^sh did not end within 0\.5 s, and was ended$"):
        program.run(["sh", "-c", HANGS], tmp_path, 0.5)
    assert ends(child_in(tmp_path))


def children_of_this_process() -> set[str]:
    listed = Path("/proc/self/task").glob("*/children")
    return {child for threads_own in listed for child in threads_own.read_text().split()}


def test_nothing_of_it_is_left_behind(tmp_path: Path) -> None:
    """Neither a child that a compiler did not wait for, nor a watcher of ours remains."""
    before, children = os.listdir("/proc/self/fd"), children_of_this_process()
    program.run(["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $! >pid.new; mv pid.new pid"], tmp_path)
    assert ends(child_in(tmp_path))
    assert os.listdir("/proc/self/fd") == before
    assert children_of_this_process() <= children


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"cannot run .*/none: .*; name a compiler that is installed"):
        program.run([str(tmp_path / "none")])
