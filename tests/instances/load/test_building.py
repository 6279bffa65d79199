"""Lookups find kernels that were compiled ahead, on a machine where nothing can be compiled or written."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from read_only import python_without_disk

import qconv
from qconv import Conv2d
from qconv.device import cache, cpu, folders, open_device
from qconv.errors import CacheError, KernelMissing
from qconv.instances.load import building, serving
from qconv.targets.target import target
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement

PROBLEM = Conv2d(1, 4, 4, 5, 6, 3, 3, pad=1)
CPU = target("cpu")
HERE = open_device("cpu").name


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a layer as a user with a compiler: one kernel, the runtime, and a measurement of that problem."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    folder = tmp_path_factory.mktemp("layer") / "built"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("QCONV_PATH", raising=False)
        (built,) = building.build([str(PROBLEM)], building.Place(HERE, CPU))
        assert building.copy_to(folder, built.binaries, building.runtime_for(CPU)) == 5
        with pytest.raises(ValueError, match="is the cache itself"):
            building.copy_to(folders.cache_root(), built.binaries, [])
        with Database.open(folder / "tune.sqlite") as rows:
            rows.add(
                Measurement(
                    problem=PROBLEM,
                    config=built.choice.plan.config,
                    device=HERE,
                    target="cpu",
                    toolchain=built.binaries[0].toolchain,
                    digest=built.choice.sources[0].digest if built.choice.sources else "0" * 32,
                    outcome="correct",
                    times_us=(12.5,),
                    median_us=12.5,
                )
            )
    return folder


@pytest.fixture
def elsewhere(layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate another user's session, with that layer and no compiler."""
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("QCONV_PATH", os.pathsep.join(("/nowhere", str(layer))))
    monkeypatch.setenv("QCONV_NO_COMPILE", "1")
    monkeypatch.delenv("QCONV_DB", raising=False)
    serving.forget()
    yield layer
    serving.forget()


def test_a_layer_is_readable_for_all_and_writable_for_its_owner(layer: Path) -> None:
    for path in (layer, *layer.rglob("*")):
        if path.suffix != ".sqlite":
            assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


def test_a_lookup_finds_the_kernel_and_the_measurement_of_a_layer(elsewhere: Path, tmp_path: Path) -> None:
    instance = qconv.lookup(PROBLEM, "cpu")
    assert instance.origin == "exact"
    assert "12.50 us" in instance.reason
    assert instance.binary.path.is_relative_to(elsewhere)
    assert not (tmp_path / "own").exists(), "something was written"
    assert not list(elsewhere.glob("tune.sqlite-*")), "a file beside the database"


def test_nothing_is_written_beside_a_layer_s_database_while_it_is_read(elsewhere: Path) -> None:
    with serving.open_layers(None, open_device("cpu")) as layers:
        assert layers.best(PROBLEM, HERE, "cpu") is not None
        assert not list(elsewhere.glob("tune.sqlite-*"))


def test_what_is_damaged_in_a_layer_is_passed_over_and_left(
    elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(elsewhere, copy)
    (binary,) = copy.rglob("kernel.so")
    binary.write_bytes(binary.read_bytes()[:-1] + b"!")
    monkeypatch.setenv("QCONV_PATH", str(copy))
    with pytest.raises(KernelMissing, match=r"is in .*own, .*copy, and QCONV_NO_COMPILE"):
        qconv.lookup(PROBLEM, "cpu")
    assert binary.exists()


def test_a_layer_that_others_can_write_is_refused(
    elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(elsewhere, copy)
    next(copy.rglob("kernel.so")).parent.chmod(0o777)
    monkeypatch.setenv("QCONV_PATH", str(copy))
    with pytest.raises(CacheError, match="others than its owner may write there"):
        qconv.lookup(PROBLEM, "cpu")


def test_what_is_compiled_is_what_such_a_device_would_look_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They are the shipped winners for a GPU that is not present; nothing is compiled twice."""
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path))
    compiled: list[str] = []

    def compile_source(source: object, to: object, kernels: tuple[str, ...], compiler: object) -> cache.Binary:
        compiled.append(kernels[-1])
        return cache.Binary(b"", tmp_path / "kernel.cubin", "nvrtc", 1.0, {})

    monkeypatch.setattr(building, "compile_source", compile_source)
    monkeypatch.setattr(building, "compiler_ahead", lambda _: None)
    (place,) = building.places(target("sm_90a"), None)
    assert place.name == "NVIDIA H200"
    assert building.places(target("gfx90a"), None) == [building.Place("", target("gfx90a"))]
    found = list(building.build(["n=1:h=56"], place))
    assert len(found) > 2
    assert {one.choice.origin for one in found} == {"exact"}
    assert len(compiled) == sum(one.compiled for one in found) == sum(len(one.binaries) for one in found)


SESSION = """
import json, sys
import numpy as np
import qconv
x = np.ones((1, 4, 4, 5), np.int8)
w = np.ones((6, 3, 3, 5), np.int8)
instance = qconv.lookup(qconv.parse(sys.argv[1]), "cpu")
y = qconv.conv2d(x, w, pad=1, device="cpu")
print(json.dumps([instance.origin, int(y[0, 1, 1, 0]), str(instance.binary.path)]))
"""


@pytest.mark.slow
def test_in_a_container_that_nobody_can_write(elsewhere: Path) -> None:
    """Everything is mounted read-only; no compiler is on PATH, there is no HOME, and the user is another one."""
    run = python_without_disk(f"QCONV_PATH={elsewhere}", "QCONV_NO_COMPILE=1")
    session = run("-c", SESSION, str(PROBLEM))
    assert session.returncode == 0, session.stderr
    origin, first, path = json.loads(session.stdout)
    assert (origin, first) == ("exact", 45)
    assert Path(path).is_relative_to(elsewhere)
    verified = run("-m", "qconv.cli", "run", str(PROBLEM), "--device", "cpu", "--verify", "--json")
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)["verified"] is True
    other = run("-m", "qconv.cli", "lookup", str(Conv2d(1, 3, 3, 4, 4, 1, 1)), "--device", "cpu")
    assert (other.returncode, "Traceback" in other.stderr) == (3, False)
    assert "qconv-tune build --target cpu --device NAME" in other.stderr
    tuned = run("-m", "qconv.cli", "tune", str(PROBLEM), "--device", "cpu")
    assert (tuned.returncode, "Traceback" in tuned.stderr) == (3, False)
    assert "set QCONV_CACHE to a folder of your own" in tuned.stderr


def test_what_was_compiled_is_not_compiled_again(elsewhere: Path) -> None:
    (built,) = building.build([str(PROBLEM)], building.Place(HERE, CPU))
    assert (built.compiled, built.choice.origin) == (0, "exact")


def test_the_runtime_is_of_a_layer_as_well(elsewhere: Path) -> None:
    found = cpu.find_runtime()
    assert found is not None
    assert found.is_relative_to(elsewhere)


def test_a_runtime_that_is_missing_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("QCONV_NO_COMPILE", "1")
    monkeypatch.delenv("QCONV_PATH", raising=False)
    with pytest.raises(KernelMissing, match=r"runtime is not in .*own, and .*: qconv-tune build --target cpu"):
        cpu.found_runtime()
    assert not (tmp_path / "own").exists()


def test_without_a_home_a_cache_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("QCONV_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", none)
    with pytest.raises(CacheError, match=r"no home folder .*: set QCONV_CACHE to a folder of your own"):
        folders.cache_root()
    monkeypatch.setenv("QCONV_PATH", str(tmp_path))
    assert [layer.root for layer in folders.layers()] == [tmp_path]
