"""Sources that this package compiles also compile with the usual command-line compilers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import golden_files
import pytest
from compiler_log import has_warning

from qconv.device.compile import command_for, compiler_for, find_clang
from qconv.errors import CompileError
from qconv.targets.target import TARGETS, target

CUDA = {name: text for name, text in golden_files.read().items() if name.endswith(".cu")}


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", CUDA)
def test_nvcc_takes_what_nvrtc_does(name: str, tmp_path: Path) -> None:
    """By the command in an export's manifest. NVRTC compiles everything for the device, nvcc only marked functions."""
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    (tmp_path / name).write_text(CUDA[name])
    target = TARGETS[Path(name).stem.rsplit("-", 1)[1]]
    command = command_for(target, name)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not has_warning(done.stderr), done.stderr[-2000:]
    assert (tmp_path / command[-1]).stat().st_size > 0


def clang_in(folder: Path, name: str, version: str, knows: str) -> None:
    """Write a program that answers like a clang which knows one architecture."""
    program = folder / name
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "clang version {version}" && exit\n'
        f'case "$*" in *--offload-arch={knows}*) exit 0;; esac\necho "error: invalid target ID" >&2\nexit 1\n'
    )
    program.chmod(0o755)


def test_the_first_clang_that_knows_the_target_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clang_in(tmp_path, "clang-19", "19.1.7", "gfx942")
    clang_in(tmp_path, "clang-22", "22.1.8", "gfx9")
    clang_in(tmp_path, "clang", "30.0.0", "gfx")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("QCONV_CLANG", raising=False)
    assert find_clang("gfx942").version == "19.1.7"
    assert find_clang("gfx950").version == "22.1.8"
    assert find_clang("gfx1151").version == "30.0.0"


def test_a_target_that_no_clang_knows_is_refused_with_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, version in (("clang-19", "19.1.7"), ("clang-22", "22.1.8"), ("clang", "19.1.7")):
        clang_in(tmp_path, name, version, "gfx942")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("QCONV_CLANG", raising=False)
    says = r"clang 19.1.7 does not know gfx950 \(error: invalid target ID\); install a newer one .*clang-22 lld-22"
    with pytest.raises(CompileError, match=says):
        find_clang("gfx950")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(CompileError, match="compiling for gfx950 needs clang with lld; install them"):
        find_clang("gfx950")


# Several threads that reach the compiler first, as in an export on a machine whose GPU was not used yet.
THREADS = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from qconv import Conv2d, generator
from qconv.device.compile import compiler_for
from qconv.generator.source import render
from qconv.targets.target import target
source = render(generator.default(Conv2d(1, 4, 4, 8, 8, 1, 1), target("sm_80")))
together = Barrier(8)
def compile(number):
    together.wait()
    return len(compiler_for(target("sm_80")).run(source)[0])
with ThreadPoolExecutor(8) as pool:
    print(set(map(type, pool.map(compile, range(8)))))
"""


def test_threads_may_compile_at_once_from_the_first_call_on() -> None:
    try:
        compiler_for(target("sm_80"))
    except CompileError as missing:
        pytest.skip(str(missing))
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "{<class 'int'>}\n", done.stderr[-2000:]
