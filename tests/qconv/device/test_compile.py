"""Compiling: what this package compiles, the programs that everybody has compile as well."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from qconv.device.compile import command_for
from qconv.target import TARGETS

GOLDEN = Path(__file__).parents[2] / "golden"
CUDA = {path.name: path for path in sorted(GOLDEN.glob("*.cu"))}


@pytest.mark.slow
@pytest.mark.parametrize("name", CUDA)
def test_nvcc_takes_what_nvrtc_does(name: str, tmp_path: Path) -> None:
    """By the command in an export's manifest. NVRTC compiles everything for the device, nvcc only what says so."""
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    shutil.copy(CUDA[name], tmp_path)
    target = TARGETS[CUDA[name].stem.rsplit("-", 1)[1]]
    command = command_for(target, name)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "warning" not in done.stderr, done.stderr[-2000:]
    assert (tmp_path / command[-1]).stat().st_size > 0
