"""The suite of untuned layers: which measurements are hidden, the order of the layers, and a run on the CPU device."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from current import is_current

from qconv import Conv2d, Quantization
from qconv.targets.target import target

BENCH = Path(__file__).parents[2] / "bench"
PLACE = ("NVIDIA H200", target("sm_90a"))
# Shipped for an H200, also with per-channel scales, and part of ResNet-50 in the csv below.
SHIPPED = Conv2d(32, 28, 28, 128, 128, 3, 3, pad=1)
COLUMNS = "model,layer,N,C,H,W,K,R,S,stride_h,stride_w,pad_h,pad_w,dil_h,dil_w,groups\n"
LAYERS = f"""{COLUMNS}one,a,1,128,28,28,128,3,3,1,1,1,1,1,1,1
one,b,1,256,14,14,256,3,3,1,1,1,1,1,1,1
two,b,1,256,14,14,256,3,3,1,1,1,1,1,1,1
two,c,1,512,7,7,512,3,3,1,1,1,1,1,1,1
"""
SMALL = f"""{COLUMNS}m,a,1,8,4,4,16,1,1,1,1,0,0,1,1,1
m,b,1,16,4,4,8,1,1,1,1,0,0,1,1,1
m,again,1,16,4,4,8,1,1,1,1,0,0,1,1,1
"""


def read(folder: Path) -> list[Any]:
    from workload import read

    (folder / "layers.csv").write_text(LAYERS)
    return read(folder / "layers.csv", batch=32)


def test_a_network_hides_all_layers_of_the_networks_that_a_layer_is_in(tmp_path: Path) -> None:
    from choices import geometry, hidden_with

    layers = read(tmp_path)
    a, b, _, c = (layer.problem for layer in layers)
    hidden = hidden_with(layers, "network")
    assert hidden == {
        a: {geometry(a), geometry(b)},
        b: {geometry(a), geometry(b), geometry(c)},
        c: {geometry(b), geometry(c)},
    }
    assert hidden_with(layers, "own") == {one: {geometry(one)} for one in (a, b, c)}
    assert hidden_with(layers, "nothing") == dict.fromkeys((a, b, c), frozenset())
    assert geometry(a) == geometry(replace(a, n=7, quantization=Quantization(per_channel=True)))
    assert geometry(a) != geometry(replace(a, stride=(2, 2)))


def test_what_is_hidden_is_not_chosen_by(tmp_path: Path) -> None:
    from choices import Place, choice_without, geometry

    place = Place(*PLACE)
    assert choice_without(SHIPPED, place, frozenset()).origin == "exact"
    hidden = choice_without(SHIPPED, place, frozenset({geometry(SHIPPED)}))
    assert hidden.origin != "exact"
    assert str(SHIPPED) not in hidden.reason


def test_choices_are_written_and_read(tmp_path: Path) -> None:
    from choices import Place, choice_without, read_choices
    from untuned import main

    (tmp_path / "layers.csv").write_text(SMALL)
    written = tmp_path / "old.json"
    place = ["--as", "NVIDIA H200", "--target", "sm_90a"]
    main([str(tmp_path / "layers.csv"), "--write", str(written), "--commit", "c0ffee", *place])
    problems = [Conv2d(1, 4, 4, 8, 16, 1, 1), Conv2d(1, 4, 4, 16, 8, 1, 1)]
    assert read_choices(written) == {str(p): choice_without(p, Place(*PLACE), frozenset()) for p in problems}
    assert json.loads(written.read_text())["commit"] == "c0ffee"


def test_every_class_has_its_turn() -> None:
    from untuned import class_of, in_turns
    from workload import distinct
    from workload import read as read_layers

    problems = list(distinct(read_layers(BENCH / "workloads/untuned.csv")))
    order = in_turns(problems)
    assert sorted(map(str, order)) == sorted(map(str, problems))
    classes = {class_of(problem) for problem in problems}
    assert len(classes) >= 7
    assert {class_of(problem) for problem in order[: len(classes)]} == classes
    assert order == in_turns(problems[::-1])


@pytest.mark.slow
def test_a_run_holds_all_ways_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from untuned import main

    layers, old = tmp_path / "layers.csv", tmp_path / "old.json"
    layers.write_text(SMALL)
    main([str(layers), "--write", str(old), "--as", "NVIDIA H200", "--target", "cpu"])
    out = ["--device", "cpu", "--out", str(tmp_path), "--db", str(tmp_path / "tune.sqlite"), "--commit", "c0ffee"]
    main([str(layers), "--against", str(old), "--trials", "2", "--only", "m/a$", *out])
    (row,) = json.loads((tmp_path / "untuned.json").read_text())["rows"]
    assert set(row["times_us"]) == set(row["configs"]) == set(row["digests"]) == {"before", "now", "tuned"}
    assert is_current(row, "cpu")
    assert row["now_over_tuned"] == pytest.approx(row["times_us"]["tuned"] / row["times_us"]["now"])
    assert row["before_over_tuned"] == pytest.approx(row["times_us"]["tuned"] / row["times_us"]["before"])
    assert (row["verified"], row["origin"], row["failed"]) == (True, "default", {})
    assert set(row["missing"]) == {"cudnn_int8", "cudnn_fp16", "cudnn_bf16"}
    main([str(layers), "--trials", "2", "--resume", "--limit-s", "0", *out])
    assert "go on with --resume" in capsys.readouterr().err
    broken = json.loads(old.read_text())
    broken["choices"][str(Conv2d(1, 4, 4, 16, 8, 1, 1))]["config"]["tile_m"] = 3
    old.write_text(json.dumps(broken))
    with pytest.raises(SystemExit, match="m/b"):
        main([str(layers), "--against", str(old), "--trials", "2", "--resume", *out])
    document = json.loads((tmp_path / "untuned.json").read_text())
    assert [one["name"] for one in document["rows"]] == ["m/a", "m/b"]
    assert document["rows"][0] == row
    assert document["rows"][1]["layers"] == ["m/b", "m/again"]
    assert "tile_m=3" in document["rows"][1]["failed"]["before"]
    assert document["summary"]["rows"] == 2
