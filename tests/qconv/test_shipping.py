"""qconv.export, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import qconv

PROBLEM = qconv.Conv2d(1, 6, 6, 8, 8, 3, 3, pad=1)
OTHER = qconv.Conv2d(1, 6, 6, 16, 8, 1, 1)


def test_sources_of_several_problems(tmp_path: Path) -> None:
    made = qconv.export([PROBLEM, OTHER.key], tmp_path / "kernels", origins=["default"], targets=["sm_80", "gfx942"])
    assert (made.folder, made.form) == (tmp_path / "kernels", "sources")
    assert made.problems == (PROBLEM, OTHER)
    assert {path.name for path in made.folder.iterdir()} == set(made.files)
    assert {name.rpartition(".")[2] for name in made.files} == {"cu", "hip", "h", "json"}


def test_one_origin_and_one_target_need_no_list(tmp_path: Path) -> None:
    made = qconv.export(PROBLEM, tmp_path, origins="default", targets="sm_80")
    assert made.problems == (PROBLEM,)
    with pytest.raises(ValueError, match="origin='defaults' is not one of user, shipped, default"):
        qconv.export(PROBLEM, tmp_path, origins="defaults", targets="sm_80")  # type: ignore[arg-type]


def test_a_library_of_one_problem(tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    made = qconv.export(
        PROBLEM, tmp_path, form="library", origins=["default"], targets=["cpu"], watch=lambda *now: heard.append(now)
    )
    assert made.problems == (PROBLEM,)
    assert {"CMakeLists.txt", "include/qconv_kernels.h"} <= set(made.files)
    assert all((tmp_path / name).is_file() for name in made.files)
    assert heard == [(1, 1)]


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="form='wheel' is not one of sources, library"):
        qconv.export(PROBLEM, tmp_path, form="wheel")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs a target"):
        qconv.export(PROBLEM, tmp_path, origins=["default"])
    with pytest.raises(ValueError, match="has no winner of origin shipped"):
        qconv.export(PROBLEM, tmp_path, origins=["shipped"])
    for given in (None, 3, [PROBLEM, None]):
        with pytest.raises(ValueError, match=r"(None|'3'|3) is no problem and no key of one; give \[\] to export"):
            qconv.export(given, tmp_path)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
