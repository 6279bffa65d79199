"""A folder of kernels answers lookups by itself, and refuses anything that was changed since it was built."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import qconv
from qconv import Conv2d
from qconv.device import folders, open_device
from qconv.errors import KernelMissing
from qconv.instances.load import building
from qconv.instances.load.deployed import Collected, Deployed
from qconv.instances.load.manifest import Manifest, files_in, read_manifest
from qconv.instances.load.serving import answered_by
from qconv.targets.target import target

PROBLEM = Conv2d(1, 4, 4, 5, 6, 3, 3, pad=1)
CPU = open_device("cpu")


class OfATest(Manifest):
    SCHEMA: ClassVar[str] = "of-a-test-1"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployed") / "built"
    collected = Collected(building.Place(CPU.name, CPU.target))
    with answered_by(collected):
        assert qconv.lookup(PROBLEM, "cuda:7").pack(np.zeros(3)) is None  # no device is opened
        assert qconv.lookup(PROBLEM, "cpu").why.startswith("simt, default")
    folder.mkdir()
    choices = collected.write(folder)
    assert [one.problem for one in choices] == [str(PROBLEM)]
    OfATest("cpu", choices, files_in(folder)).write(folder)
    return folder


@pytest.fixture
def built(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "copy"))


def test_nothing_but_the_folder_is_asked(built: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "missing.sqlite"))
    deployed = Deployed(built, read_manifest(built, OfATest, CPU).choices, CPU)
    with deployed.answering():
        assert [layer.root for layer in folders.layers()] == [built]
        instance = qconv.lookup(PROBLEM, "cpu")
        assert instance is qconv.lookup(PROBLEM, "cpu")
        assert instance.binary.path.is_relative_to(built)
        assert "built: " in instance.reason
        y = qconv.conv2d(np.ones((1, 4, 4, 5), np.int8), np.ones((6, 3, 3, 5), np.int8), pad=1, device="cpu")
        assert y[0, 1, 1, 0] == 45
        with pytest.raises(KernelMissing, match="was not built for conv2d:n=2"):
            qconv.lookup(Conv2d(2, 4, 4, 5, 6, 3, 3, pad=1), "cpu")
    assert not (tmp_path / "own").exists()
    assert [layer.root for layer in folders.layers()] == [tmp_path / "own"]
    monkeypatch.delenv("QCONV_DB")
    assert not qconv.lookup(PROBLEM, "cpu").reason.startswith("built: ")


def test_another_version_s_kernels_are_refused(built: Path) -> None:
    choices = read_manifest(built, OfATest, CPU).choices
    older = Deployed(built, [replace(choices[0], digest="0" * 32)], CPU)
    with older.answering(), pytest.raises(KernelMissing, match="built by another version of qconv"):
        qconv.lookup(PROBLEM, "cpu")
    other = replace(choices[0], config={**choices[0].config, "tile_m": 3})
    with Deployed(built, [other], CPU).answering(), pytest.raises(KernelMissing, match="built by another version"):
        qconv.lookup(PROBLEM, "cpu")
    shutil.rmtree(built / "kernels")
    with Deployed(built, choices, CPU).answering(), pytest.raises(KernelMissing, match="another version"):
        qconv.lookup(PROBLEM, "cpu")


def test_for_a_gpu_that_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice of a lookup on an H200 is compiled."""
    asked: list[tuple[str, ...]] = []

    monkeypatch.setattr(building, "compiler_ahead", lambda _: None)
    monkeypatch.setattr(building, "copy_to", lambda folder, binaries, runtimes: len(list(binaries)))
    monkeypatch.setattr(building.cache, "find", lambda *_: None)
    monkeypatch.setattr(building, "compile_source", lambda source, to, kernels, compiler: Compiled(asked, to, kernels))
    collected = Collected(building.Place("NVIDIA H200", target("sm_90a")))
    with answered_by(collected):
        qconv.lookup(Conv2d(32, 56, 56, 64, 64, 3, 3, pad=1))
    (chosen,) = collected.choices.values()
    (choice,) = collected.write(tmp_path)
    assert choice.config == chosen.plan.config.as_dict()
    assert [names[0] for names in asked] == ["sm_90a"]


class Compiled:
    """A stand-in for a binary."""

    path = Path("kernel.cubin")

    def __init__(self, asked: list[tuple[str, ...]], to: Any, kernels: tuple[str, ...]) -> None:
        asked.append((to.name, *kernels))
