"""The suite of pairs on the CPU device, from the csv to the document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from current import is_current

from qconv.errors import Infeasible

pytestmark = pytest.mark.thirds

HEAD = (
    "model,layer1,layer2,fusion_class,pattern,kind1,kind2,act1,between,N,C,H,W,K1,R1,S1,stride1,pad1,dil1,groups1,"
    "OH1,OW1,K2,R2,S2,stride2,pad2,dil2,groups2,OH2,OW2"
)
PAIRS = (
    "m,a,b,dw+pw,dw3x3+pw1x1,dw,pw,ReLU6,none,1,16,6,6,16,3,3,1,1,1,16,6,6,24,1,1,1,0,1,1,6,6",
    "m,c,d,dw+pw,dw3x3+pw1x1,dw,pw,ReLU6,none,1,16,6,6,16,3,3,1,1,1,16,6,6,24,1,1,1,0,1,1,6,6",
    "m,e,f,pw+dw,pw1x1+dw3x3,pw,dw,SiLU,none,1,8,6,6,16,1,1,1,0,1,1,6,6,16,3,3,2,1,1,16,3,3",
    "m,g,h,dw+pw,dw3x3+pw1x1,dw,pw,ReLU6,pool,1,16,6,6,16,3,3,1,1,1,16,6,6,24,1,1,1,0,1,1,6,6",
    "m,f,i,dw+pw,dw3x3+pw1x1,dw,pw,ReLU6,none,1,16,6,6,16,3,3,2,1,1,16,3,3,8,1,1,1,0,1,1,3,3",
    "m,large,i,pw+pw,pw1x1+pw1x1,pw,pw,ReLU6,none,1,65536,512,512,16,1,1,1,0,1,1,512,512,24,1,1,1,0,1,1,512,512",
)


def document(tmp_path: Path, *options: str) -> dict[str, Any]:
    from pairs import main

    (tmp_path / "pairs.csv").write_text("\n".join((HEAD, *PAIRS)) + "\n")
    given = ["--device", "cpu.sm_80", "--commit", "c0ffee", "--out", str(tmp_path / "out")]
    main([str(tmp_path / "pairs.csv"), *given, *options])
    found: dict[str, Any] = json.loads((tmp_path / "out/pairs.json").read_text())
    return found


@pytest.mark.slow
def test_every_pair_is_verified_both_ways(tmp_path: Path) -> None:
    found = document(tmp_path, "--verify", "--batch", "2")
    assert (found["summary"]["rows"], found["summary"]["pairs"], found["summary"]["verified"]) == (3, 4, 3)
    for row in found["rows"]:
        assert row["verified"] is True
        assert set(row["configs"]) == {"unfused", "fused"}
        assert is_current(row, "cpu.sm_80")
    assert found["rows"][0]["pairs"] == ["m/a+b", "m/c+d"]
    assert "at most 2147479551 are supported" in found["summary"]["refused"]["m/large+i"]


@pytest.mark.slow
def test_a_row_holds_both_times_and_what_is_chosen(tmp_path: Path) -> None:
    found = document(
        tmp_path, "--kinds", "^dw.pw$", "--only", "a.b", "--trials", "2", "--db", str(tmp_path / "tune.sqlite")
    )
    (row,) = found["rows"]
    assert row["verified"] is True
    assert is_current(row, "cpu.sm_80")
    assert row["over_unfused"] == pytest.approx(row["unfused_us"] / row["fused_us"])
    assert row["time_us"] in (row["unfused_us"], row["fused_us"])
    assert row["chosen"] in ("unfused", "fused")
    # cuDNN needs a GPU, so it is missing, with a reason.
    assert set(row["missing"]) == {"cudnn_fp16 first", "cudnn_fp16 second"}


@pytest.mark.slow
def test_rows_that_follow_each_other_are_a_block(tmp_path: Path) -> None:
    options = ("--blocks", "--trials", "2", "--db", str(tmp_path / "tune.sqlite"))
    (row,) = document(tmp_path, *options)["rows"]
    assert row["name"] == "m/e+f+i"
    assert row["kind"] == "pw+dw+pw"
    assert row["verified"] is True
    assert set(row["configs"]) == {"unfused", "fused"}
    assert row["configs"]["fused"]["family"] == "block"
    assert set(row["missing"]) == {f"cudnn_fp16 {layer}" for layer in ("first", "second", "third")}


@pytest.mark.slow
def test_a_pair_that_no_kernel_serves_is_a_row_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pairs

    def refuse(*_: object) -> None:
        raise Infeasible("made up")

    monkeypatch.setattr(pairs, "verified", refuse)
    with pytest.raises(SystemExit, match="differ"):
        document(tmp_path, "--verify", "--kinds", "^dw.pw$", "--only", "a.b")
    found = json.loads((tmp_path / "out/pairs.json").read_text())
    assert [row["mismatch"] for row in found["rows"]] == [{"plan": "made up"}]


def test_a_database_is_needed_to_tune(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        document(tmp_path)
    assert "--verify" in capsys.readouterr().err
