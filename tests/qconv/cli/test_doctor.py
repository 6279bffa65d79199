"""The doctor reports working and missing parts, and runs a kernel."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qconv import device
from qconv.cli import doctor, main
from qconv.device.presence import SeenGpu
from qconv.instances.load import serving

Findings = dict[str, dict[str, Any]]


@pytest.fixture
def examined(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, Findings]]:
    monkeypatch.delenv("QCONV_NO_COMPILE", raising=False)
    serving.forget()

    def run(*arguments: str) -> tuple[int, Findings]:
        codes: list[object] = []
        monkeypatch.setattr(sys, "exit", codes.append)
        main(["doctor", "--json", "--device", "cpu", *arguments])
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == doctor.SCHEMA
        return 3 if 3 in codes else 0, {finding["what"]: finding for finding in document["findings"]}

    return run


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_all_is_well_where_a_kernel_runs(examined: Callable[..., tuple[int, Findings]]) -> None:
    code, found = examined()
    assert code == 0
    assert found["a kernel"]["state"] == "ok"
    assert "every output is right" in found["a kernel"]["says"]
    assert found["CPU kernels"]["says"].startswith("compiled by ")
    assert {"qconv-tune", "NVIDIA kernels", "AMD kernels", "cache"} <= set(found)
    assert all(finding["remedy"] for finding in found.values() if finding["state"] == "missing")


def test_a_kernel_that_cannot_run_is_told_with_its_remedy(
    examined: Callable[..., tuple[int, Findings]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path))
    monkeypatch.setenv("QCONV_NO_COMPILE", "1")
    code, found = examined()
    assert (code, found["a kernel"]["state"]) == (3, "wrong")
    assert "qconv-tune lookup" in found["a kernel"]["says"]


def test_a_gpu_that_cannot_be_used_is_wrong(
    examined: Callable[..., tuple[int, Findings]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "gpu_specs", list)
    monkeypatch.setattr(device, "seen_gpus", lambda: (SeenGpu("NVIDIA", "/dev/nvidia0"),))
    monkeypatch.setattr(device, "why_no_cupy", lambda: "No module named 'cupy'")
    code, found = examined()
    assert (code, found["GPU"]["state"]) == (3, "wrong")
    assert found["GPU"]["says"].startswith("an NVIDIA GPU is here (/dev/nvidia0), but CuPy cannot be imported")
    assert found["GPU"]["remedy"] == "to use it, pip install 'qconv-tune[cuda]'"


def test_a_layer_that_is_not_there_and_a_cache_of_all_are_wrong(
    examined: Callable[..., tuple[int, Findings]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    open_to_all = tmp_path / "cache"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("QCONV_CACHE", str(open_to_all))
    monkeypatch.setenv("QCONV_PATH", str(tmp_path / "gone"))
    code, found = examined()
    assert code == 3
    assert (found["cache"]["state"], found["layer"]["state"]) == ("wrong", "wrong")
    assert found["cache"]["remedy"].startswith("chmod go-w")
    assert found["layer"]["remedy"] == "correct QCONV_PATH"
