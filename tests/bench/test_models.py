"""Whole models on the CPU device: every layer gets a verdict, and a wrong one is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from current import is_current

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[conformance]'")

CSV = """model,layer,N,C,H,W,K,R,S,stride_h,stride_w,pad_h,pad_w,dil_h,dil_w,groups,OH,OW,kind,macs,bias
m1,a,2,8,5,5,8,3,3,1,1,1,1,1,1,1,5,5,dense,0,0
m1,b,2,8,5,5,8,3,3,2,2,1,1,1,1,8,3,3,dw,0,1
m2,c,2,8,5,5,8,3,3,1,1,1,1,1,1,1,5,5,dense,0,0
"""


def run(folder: Path, *more: str) -> dict[str, Any]:
    from models import main

    (folder / "layers.csv").write_text(CSV)
    main([str(folder / "layers.csv"), "--device", "cpu", "--out", str(folder), *more])
    found: dict[str, Any] = json.loads((folder / "models.json").read_text())
    return found


@pytest.mark.slow
def test_every_layer_is_verified_and_timed(tmp_path: Path) -> None:
    document = run(tmp_path, "--time")
    assert all(is_current(row, "cpu") for row in document["rows"])
    said = document["summary"]
    assert (said["layers"], said["problems"], said["verified"], said["mismatches"]) == (3, 2, 3, 0)
    assert said["families"] == {"simt": 2, "depthwise": 1}
    dense, depthwise = document["rows"]
    assert dense["layers"] == ["m1/a", "m2/c"]
    assert depthwise["layers"] == ["m1/b"]
    assert said["models"]["m1"]["time_us"] == pytest.approx(dense["time_us"] + depthwise["time_us"])
    assert said["models"]["m2"]["layers"] == 1


@pytest.mark.slow
def test_a_difference_is_counted_and_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import models
    import torch_reference

    def off_by_one(*arguments: Any) -> Any:
        y = torch_reference.output(*arguments)
        y[0, 0, 0, 0] ^= 1
        return y

    monkeypatch.setattr(models, "output", off_by_one)
    with pytest.raises(SystemExit):
        run(tmp_path)
    document = json.loads((tmp_path / "models.json").read_text())
    assert document["summary"]["mismatches"] == 3
    assert all(row["mismatch"].startswith("1 of ") for row in document["rows"])
