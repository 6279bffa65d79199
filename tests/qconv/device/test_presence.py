"""A GPU that is present but unusable is reported before anything runs on the CPU device."""

from __future__ import annotations

import builtins
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qconv import device
from qconv.device import default_spec, open_device, why_unused
from qconv.device.presence import SeenGpu, seen_gpus
from qconv.errors import DeviceError


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    for each in (default_spec, device._open):
        each.cache_clear()
    yield
    for each in (default_spec, device._open):
        each.cache_clear()


@pytest.fixture
def without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0].startswith("cupy")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "qconv.device.gpu", raising=False)
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0].startswith("cupy"):
            raise RuntimeError("half of CuPy\nis here")  # the error of a broken installation
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)


def machine(root: Path, *files: str, pci: tuple[str, str] | None = None) -> Path:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    if pci is not None:
        folder = root / "sys/bus/pci/devices/0000:01:00.0"
        folder.mkdir(parents=True)
        for name, text in zip(("vendor", "class"), pci, strict=True):
            (folder / name).write_text(f"{text}\n")
    return root


def test_a_gpu_is_seen_by_its_device_or_on_the_bus(tmp_path: Path) -> None:
    assert seen_gpus(machine(tmp_path / "none")) == ()
    nvidia = machine(tmp_path / "nvidia", "dev/nvidia0", pci=("0x10de", "0x030200"))
    assert seen_gpus(nvidia) == (SeenGpu("NVIDIA", str(nvidia / "dev/nvidia0")),)
    both = machine(tmp_path / "both", "dev/kfd", "proc/driver/nvidia/version")
    assert [gpu.vendor for gpu in seen_gpus(both)] == ["NVIDIA", "AMD"]
    bus = machine(tmp_path / "bus", pci=("0x10de", "0x030000"))
    assert [gpu.vendor for gpu in seen_gpus(bus)] == ["NVIDIA"]
    # Its audio device, and another vendor's display.
    assert seen_gpus(machine(tmp_path / "sound", pci=("0x10de", "0x040300"))) == ()
    assert seen_gpus(machine(tmp_path / "laptop", pci=("0x1002", "0x030000"))) == ()


def test_what_lacks_is_told_once_before_the_cpu_serves(
    without_cupy: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(device, "seen_gpus", lambda: (SeenGpu("NVIDIA", "/dev/nvidia0"),))
    with caplog.at_level(logging.WARNING):
        assert open_device().spec == "cpu"
        assert open_device().spec == "cpu"
    assert [record.message for record in caplog.records] == [
        "an NVIDIA GPU is here (/dev/nvidia0), but CuPy cannot be imported (half of CuPy): to use it, pip install "
        "'qconv-tune[cuda]'; using the CPU device, which is slow (--device cpu says that it is meant)"
    ]


def test_without_a_gpu_nothing_is_said(
    without_cupy: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(device, "seen_gpus", lambda: ())
    assert open_device().spec == "cpu"
    assert not caplog.records


def test_a_gpu_that_is_asked_for_is_refused_whatever_the_import_raises(without_cupy: None) -> None:
    with pytest.raises(DeviceError, match=r"needs CuPy, which cannot be imported \(half of CuPy\); install it"):
        open_device("cuda:0")


def test_a_driver_that_gives_no_device_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = pytest.importorskip("qconv.device.gpu")
    monkeypatch.setattr(device, "seen_gpus", lambda: (SeenGpu("AMD", "/dev/kfd"),))
    monkeypatch.setattr(gpu, "failure", lambda: "hipErrorNoDevice")
    assert why_unused() == (
        "an AMD GPU is here (/dev/kfd), but its driver gives no device (hipErrorNoDevice): install or update the AMD "
        "driver"
    )
    monkeypatch.setattr(gpu, "failure", lambda: None)
    assert why_unused() is None
