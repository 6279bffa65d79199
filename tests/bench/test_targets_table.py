"""The tables of targets: from the table of targets, the names of GPUs and the records, and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import targets_table

from qconv.targets.gpu_names import GPU_NAMES
from qconv.targets.target import TARGETS


def row(target: str, family: str, **more: Any) -> dict[str, Any]:
    return {"target": target, "family": family, "toolchain": "nvrtc 13.0", "spill_bytes": 0, "refused": [], **more}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Objects of three targets, and a run on one GPU."""
    rows = [
        *(row("sm_86", "simt"), row("sm_87", "simt"), row("sm_87", "mma", spill_bytes=8)),
        row("gfx950", "mma", toolchain="clang 22.1.8", refused=["v_mfma under a narrowed EXEC"]),
    ]
    files = {
        "machine-code/objects.json": {"rows": rows},
        "orin/suite.json": {
            "device": {"name": "Orin", "target": "sm_87"},
            "tests": {"passed": 700, "failed": {"test_a": "wrong"}},
            "sanitizer": {"memcheck": {"clean": True}, "racecheck": {"clean": False}},
        },
    }
    for name, document in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(document))
    return tmp_path


def cells(table: str, start: str) -> list[str]:
    (line,) = (line for line in table.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_targets_of_the_same_products_have_one_line(results: Path) -> None:
    table = targets_table.what_runs_where(results)
    by_mma, by_mfma, by_wmma = (line_with(table, name) for name in ("`sm_87`", "`gfx950`", "`gfx1151`"))
    assert by_mma[0].startswith("`sm_75` (t4, ")
    assert "`sm_87` (orin, agx-orin, ...), `sm_88`, `sm_89` (rtx4090, " in by_mma[0]
    assert by_mma[1:3] == ["`mma.sync`, `dp4a`", "3 by nvrtc 13.0: none refused"]
    orin = "**Orin** ([700 GPU tests](ROOT/docs/performance.md#exactness-on-the-gpu), 1 failed)"
    emulated = "emulated as `cpu.sm_75`, `cpu.sm_80`, `cpu.sm_90a`"
    assert by_mma[3] == f"{orin}, others never on hardware; {emulated}"
    assert by_mfma[1:3] == ["MFMA, `sdot4`", "1 by clang 22.1.8: 1 refused"]
    assert by_mfma[3] == "never on hardware; emulated as `cpu.gfx908`, `cpu.gfx942`, `cpu.gfx950`"
    assert by_wmma[0].count("`gfx1") == 5
    assert by_wmma[2] == targets_table.NOTHING


def line_with(table: str, name: str) -> list[str]:
    (line,) = (line for line in table.splitlines() if name in line)
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_target_is_in_both_tables_once(results: Path) -> None:
    for table in (targets_table.what_runs_where(results), targets_table.devices(results)):
        for name, entry in TARGETS.items():
            if entry.vendor != "cpu":
                assert table.count(f"`{name}`") == 1, name
                assert f"`{name}`" in line_with(table, f"`{name}`")[0]


def test_a_target_has_its_gpus_its_extra_and_the_verdict(results: Path) -> None:
    table = targets_table.devices(results)
    orin = cells(table, "`sm_87`")
    assert orin[1] == "`orin`, `agx-orin`, `orin-nx`, `orin-nano`"
    assert orin[2:5] == ["`cuda` or `cuda12`", "2 by nvrtc 13.0: none refused", "1"]
    assert orin[5].startswith("**Orin**")
    assert cells(table, "`sm_88`")[1:3] == ["no product is known", "`cuda`"]
    assert cells(table, "`sm_121`")[5] == "never on hardware; emulated as `cpu.sm_90a`"
    assert cells(table, "`gfx950`")[2:5] == ["`rocm`", "1 by clang 22.1.8: 1 refused", "0"]


def test_a_clean_run_on_a_gpu_with_winners_says_so(results: Path) -> None:
    path = results / "orin/suite.json"
    record = json.loads(path.read_text())
    record["device"] = {"name": "NVIDIA H200", "target": "sm_90a"}
    record["tests"]["failed"] = {}
    record["sanitizer"]["racecheck"]["clean"] = True
    path.write_text(json.dumps(record))
    said = line_with(targets_table.what_runs_where(results), "`sm_90a` (")[3]
    assert said.startswith("**NVIDIA H200** ([700 GPU tests]")
    assert said.endswith("), compute-sanitizer clean, tuned winners are shipped)")


def test_without_records_nothing_is_claimed(tmp_path: Path) -> None:
    table = targets_table.devices(tmp_path)
    assert all(cells(table, f"`{name}`")[3] == targets_table.NOTHING for name in GPU_NAMES if name in TARGETS)
    assert "**" not in table
