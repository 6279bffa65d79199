"""The library of shipped networks is compiled once, and says what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from qconv.errors import CompileError, DeviceError, KernelMissing
from qconv.network.ship import cpp_library

pytestmark = pytest.mark.thirds


def test_a_missing_header_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cpp_library, "_includes", lambda kind: iter([tmp_path]))
    monkeypatch.setattr(cpp_library.cpu_runtime, "build", lambda *_: tmp_path / "built")
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path / "cache"))
    with pytest.raises(
        DeviceError, match=r"there is no cuda\.h, .*: install the toolkit, or set CUDA_PATH to its folder"
    ):
        cpp_library.built("cuda")
    with pytest.raises(DeviceError, match=r"there is no hip/hip_runtime_api\.h.* set ROCM_PATH"):
        cpp_library.built("hip")


def test_a_toolkit_is_found_by_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include/cuda.h").touch()
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert cpp_library._include_of("cuda") == tmp_path / "include"


@pytest.mark.slow
def test_nothing_is_compiled_where_that_is_forbidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path))
    monkeypatch.setenv("QCONV_NO_COMPILE", "1")
    with pytest.raises(KernelMissing, match=r"QCONV_NO_COMPILE forbids .* open the folder once without it"):
        cpp_library.built("cpu")
    monkeypatch.delenv("QCONV_NO_COMPILE")
    try:
        path = cpp_library.built("cpu")
    except CompileError as missing:
        pytest.skip(str(missing))
    monkeypatch.setenv("QCONV_NO_COMPILE", "1")
    assert cpp_library.built("cpu") == path


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cuda", "hip"])
def test_engines_of_gpus_are_compiled(kind: str) -> None:
    try:
        assert cpp_library.library(kind).qconv_network_abi_version() == 1
    except DeviceError as missing:
        pytest.skip(str(missing))
