"""The entries of the cache are what this package wrote; removing one leaves everything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from filled_cache import fill

from qconv.device import folders
from qconv.device.folders import Layer
from qconv.instances.load.cache_entries import Entry, entries


@pytest.fixture
def layer(tmp_path: Path) -> Layer:
    """Create a cache with one kernel, and foreign files beside it."""
    fill(tmp_path / "cache")
    for name in ("kernels/notes/build.json", "cpu/mine.sha256", "choices/all.jsonl", "tune.sqlite"):
        path = tmp_path / "cache" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("of the user")
    return Layer(tmp_path / "cache", is_user=True)


def of_kind(layer: Layer, kind: str) -> Entry:
    return next(entry for entry in entries(layer) if entry.kind == kind)


def test_there_are_a_kernel_a_library_and_choices(layer: Layer) -> None:
    assert [entry.kind for entry in entries(layer)] == ["kernel", "library", "choices"]
    kernel = of_kind(layer, "kernel")
    assert kernel.target == f"cpu-{folders.machine()}"
    assert [path.name for path in kernel.files] == ["build.json", "kernel.cpp", "kernel.so"]
    assert kernel.bytes == sum(path.stat().st_size for path in kernel.files)
    assert [entry.damage for entry in entries(layer)] == [None, None, None]


def test_a_layer_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert list(entries(Layer(tmp_path / "none"))) == []


def test_what_is_removed_leaves_all_else(layer: Layer) -> None:
    for entry in list(entries(layer)):
        entry.remove()
        entry.remove()
    left = {str(path.relative_to(layer.root)) for path in layer.root.rglob("*") if path.is_file()}
    assert left == {"kernels/notes/build.json", "cpu/mine.sha256", "choices/all.jsonl", "tune.sqlite"}


@pytest.mark.parametrize(
    ("kind", "file", "says"),
    [
        ("kernel", "kernel.so", "the binary's digest is not the recorded one"),
        ("kernel", "build.json", "build.json is not JSON"),
        ("library", "", "the library's digest is not the recorded one"),
    ],
)
def test_a_cut_file_is_damage(layer: Layer, kind: str, file: str, says: str) -> None:
    entry = of_kind(layer, kind)
    path = entry.path / file if file else entry.path
    path.write_bytes(path.read_bytes()[:20])
    assert entry.damage == says


def test_a_file_that_others_may_write_is_damage(layer: Layer) -> None:
    layer.root.chmod(0o755)
    choices = of_kind(layer, "choices")
    choices.path.chmod(0o666)
    assert "others than its owner may write there" in str(choices.damage)


def test_a_folder_with_other_files_is_no_entry(layer: Layer) -> None:
    (of_kind(layer, "kernel").path / "notes.txt").write_text("of the user")
    assert [entry.kind for entry in entries(layer)] == ["library", "choices"]
