"""Temporary build folders: removed when the build is done, and eventually after an aborted one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from qconv.device import cpu_runtime, folders

HOUR_S = 3600.0


def left_in(place: Path, name: str, age_s: float) -> Path:
    left = place / f"{folders.BUILDING}{name}"
    left.mkdir()
    (left / "kernel.cpp").write_text("int half")
    os.utime(left, times=(time.time() - age_s,) * 2)
    return left


def test_it_is_gone_however_it_ends(tmp_path: Path) -> None:
    with folders.building(tmp_path) as folder:
        (folder / "built").write_text("")
        assert folder.parent == tmp_path
    with pytest.raises(KeyboardInterrupt), folders.building(tmp_path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_what_killed_processes_left_is_removed_by_its_age(tmp_path: Path) -> None:
    young, old = left_in(tmp_path, "young", 12 * HOUR_S), left_in(tmp_path, "old", 25 * HOUR_S)
    (tmp_path / "kernels").mkdir()
    os.utime(tmp_path / "kernels", times=(0, 0))
    with folders.building(tmp_path) as folder:
        assert sorted(tmp_path.iterdir()) == sorted([young, folder, tmp_path / "kernels"])
    assert not old.exists()


def test_one_in_use_is_not_removed_by_another_build(tmp_path: Path) -> None:
    with folders.building(tmp_path) as one, folders.building(tmp_path) as other:
        assert one != other
        assert one.is_dir()


def test_every_build_removes_them(tmp_path: Path) -> None:
    old = left_in(tmp_path, "old", 25 * HOUR_S)
    cpu_runtime.build({"kernel.cpp": "int answer = 42;\n"}, ["-c"], ".o", tmp_path)
    assert not old.exists()
    assert not list(tmp_path.glob(f"{folders.BUILDING}*"))
