"""An export replaces an older one as a whole, and is written into no folder that holds anything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qconv.instances.library.folder import MANIFEST, check_free, replace

FORMAT = {"format": "qconv-export-1"}


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_nothing_of_an_older_export_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    assert replace(folder, {"a.cu": "a", "old/b.cu": b"b"}, FORMAT) == ("a.cu", "old/b.cu", MANIFEST)
    (folder / "build").mkdir()
    (folder / "build/made").write_text("by cmake")
    replace(folder, {"a.cu": "new", "c.cu": "c"}, FORMAT)
    assert files_in(folder) == {"a.cu", "c.cu", MANIFEST, "build/made"}
    assert not (folder / "old").exists()
    assert (folder / "a.cu").read_text() == "new"
    assert json.loads((folder / MANIFEST).read_text())["files"] == ["a.cu", "c.cu", MANIFEST]


def test_a_file_beside_those_of_an_older_folder_keeps_it(tmp_path: Path) -> None:
    replace(tmp_path, {"old/b.cu": "b"}, FORMAT)
    (tmp_path / "old/mine").write_text("of the user")
    replace(tmp_path, {}, FORMAT)
    assert files_in(tmp_path) == {MANIFEST, "old/mine"}


@pytest.mark.parametrize(
    "manifest",
    [
        None,
        "no JSON",
        "[]",
        '{"format": "other-1", "files": []}',
        '{"format": "qconv-export-1"}',
        '{"format": "qconv-export-1", "files": ["../thesis.tex"]}',
        '{"format": "qconv-export-1", "files": ["/etc/passwd"]}',
        '{"format": "qconv-export-1", "files": [""]}',
        '{"format": "qconv-export-1", "files": [3]}',
    ],
)
def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path, manifest: str | None) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "thesis.tex").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    if manifest is not None:
        (folder / MANIFEST).write_text(manifest)
    before = files_in(tmp_path)
    with pytest.raises(
        ValueError, match=r"work is not empty \(.*\) and has no export, .*: give a new folder, or empty"
    ):
        replace(folder, {"a.cu": "a"}, FORMAT)
    assert files_in(tmp_path) == before


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ValueError, match="out is a file: give the name of a folder"):
        check_free(tmp_path / "out")


def test_a_new_and_an_empty_folder_are_free(tmp_path: Path) -> None:
    assert check_free(tmp_path) == check_free(tmp_path / "new") == ()
