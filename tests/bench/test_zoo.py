"""The suite `zoo` on the CPU device: processes, rows, and what a second run measures."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from current import is_current

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import zoo

ASKED = ("--device", "cpu", "--no-peers", "--processes", "2", "--commit", "c0ffee")


def rows_of(folder: Path, *more: str) -> list[dict[str, Any]]:
    zoo.main([*ASKED, "--out", str(folder), *more])
    found: list[dict[str, Any]] = json.loads((folder / "zoo.json").read_text())["rows"]
    return found


def worker(folder: Path, says: str) -> zoo.Worker:
    return zoo.Worker([sys.executable, "-c", says], folder / "log")


def state_of(one: zoo.Worker) -> str:
    return Path(f"/proc/{one._process.pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.many
@pytest.mark.slow
def test_a_network_is_measured_once_per_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("--only", "^unet$", "--size", "32", "--batch", "1,2")
    rows = rows_of(tmp_path, *asked)
    assert [(row["name"], row["batch"], row["kind"], row["commit"]) for row in rows] == [
        ("unet", 1, "segmentation", "c0ffee"),
        ("unet", 2, "segmentation", "c0ffee"),
    ]
    for row in rows:
        assert row["ms"] > 0
        assert row["missing"] == {}
        assert row["agreement"]["largest"] < 0.1
        assert row["agreement"]["equal"] > 0.5
        assert row["creation_s"] > 0
        assert row["digests"]
        assert is_current(row, "cpu")
    assert capsys.readouterr().out.count("unet") == 2

    monkeypatch.setattr(zoo, "Worker", None)  # no other process starts
    assert rows_of(tmp_path, *asked) == rows


def given(folder: Path, **more: Any) -> zoo.Zoo:
    options = {"device": "cpu", "out": folder, "suite": "zoo", "commit": "c0ffee", "activations": "uint8"}
    options |= {"size": None, "processes": 1, "limit_s": 1e9, "batch": "1,8", "no_peers": True, "frames": False}
    return zoo.Zoo(argparse.Namespace(**options | more))


def test_rows_of_another_commit_are_measured_again(tmp_path: Path) -> None:
    own = given(tmp_path)._own
    rows = [
        {"name": "unet", "batch": batch, **own, "ms": 1.0, "commit": commit, "elsewhere": {}}
        for batch, commit in ((1, "c0ffee"), (8, "01d"))
    ]
    (tmp_path / "zoo.json").write_text(json.dumps({"rows": rows}))
    assert given(tmp_path).left("unet") == [8]
    assert given(tmp_path).left("detector") == [1, 8]
    assert given(tmp_path, activations="int8").left("unet") == [1, 8]


def test_no_network_starts_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "Worker", None)
    given(tmp_path, limit_s=-1.0).run("unet", tmp_path)


def test_a_crash_is_a_row_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crash = 'import sys; print(\'{"row": {"batch": 1, "ms": 2.0, "elsewhere": {}}}\', flush=True); sys.exit(\'gone\')'
    monkeypatch.setattr(zoo.Zoo, "_command", lambda *_: [sys.executable, "-c", crash])
    found = given(tmp_path)
    found.run("unet", tmp_path)
    timed, crashed = json.loads((tmp_path / "zoo.json").read_text())["rows"]
    assert (timed["batch"], timed["ms"]) == (1, 2.0)
    assert (crashed["batch"], crashed["missing"]) == (8, {"ours": "its process ended with 1: gone"})
    assert found.left("unet") == [8]


def test_all_others_stand_still_while_one_is_timed(tmp_path: Path) -> None:
    floor, wait = zoo.Floor(), "import sys; sys.stdin.read()"
    mine, other = (floor.start([sys.executable, "-c", wait], tmp_path / name) for name in ("mine", "other"))
    with floor.alone(mine):
        while state_of(other) != "T":  # the signal is on its way
            pass
        assert state_of(mine) != "T"
    while state_of(other) == "T":
        pass
    for one in (mine, other):
        assert one.line(0.0) is None
        assert floor.end(one) == "it took too long"


def test_a_worker_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    one = worker(tmp_path, "import sys; sys.stdin.read()")
    assert one.line(0.01) is None
    assert one.end() == "it took too long"


def test_the_summary_has_the_means_and_the_least() -> None:
    rows = [
        {"batch": 1, "ms": 1.0, "elsewhere": elsewhere, "over_inductor_fp16": ratio}
        for ratio, elsewhere in ((2.0, {}), (8.0, {"Resize": 1}))
    ]
    rows.append({"batch": 8, "missing": {"ours": "gone"}})
    assert zoo.summary(rows) == {
        "rows": 3,
        "timed": 2,
        "over_inductor_fp16_n1": {"mean": pytest.approx(4.0), "least": 2.0},
        "whole_n1": 1,
        "whole_n8": 0,
    }
