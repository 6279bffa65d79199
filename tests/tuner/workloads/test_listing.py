"""Workloads as text, and their refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from qconv import Conv2d, ConvTranspose2d, FusedConv2d, Quantization
from qconv.tuner.workloads.listing import read

BENCH = Path(__file__).parents[3] / "bench/workloads"
COLUMNS = "name,N,H,W,C,K,R,S,stride,pad,groups"
KEY = "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3"


def written(folder: Path, text: str, name: str = "layers.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_equal_layers_are_one_problem_with_a_count() -> None:
    workload = read(BENCH / "layers.csv", batch=2)
    assert (len(workload.entries), sum(entry.count for entry in workload.entries)) == (404, 867)
    first = workload.entries[0]
    assert first.problem == Conv2d(2, 224, 224, 3, 64, 7, 7, stride=2, pad=3)
    assert first.places[0] == "resnet50_v1.5/conv1"
    assert all(len(entry.places) == entry.count for entry in workload.entries)


def test_pairs_bring_their_parts() -> None:
    workload = read(BENCH / "fused_pairs.csv")
    pair, part = (next(e for e in workload.entries if e.role == role) for role in ("layer", "part"))
    assert isinstance(pair.problem, FusedConv2d)
    assert pair.problem.first.quantization == Quantization(per_channel=True, bias="int32", activation="relu")
    assert pair.problem.second.quantization == Quantization(per_channel=True, bias="int32")
    assert part.problem == workload.entries[0].problem
    at = {entry.problem: number for number, entry in enumerate(workload.entries)}
    assert all(at[part] < number for problem, number in at.items() for part in problem.parts)
    assert "stands between the two" in workload.refused[0].reason


def test_columns_say_what_the_numbers_mean(tmp_path: Path) -> None:
    head = "name,N,H,W,C,K,R,S,stride,pad,groups,bias,per_channel,activation,x_type\n"
    rows = "a,1,6,6,8,8,3,3,1,1,1,1,1,ReLU6,uint8\nb,1,6,6,8,8,3,3,1,1,1,0,,,\n"
    a, b = read(written(tmp_path, head + rows)).entries
    said = Quantization("uint8", bias="int32", per_channel=True, activation="relu6")
    assert a.problem == Conv2d(1, 6, 6, 8, 8, 3, 3, pad=1, quantization=said)
    assert b.problem == Conv2d(1, 6, 6, 8, 8, 3, 3, pad=1)


def test_a_column_output_padding_makes_rows_transposed_convolutions(tmp_path: Path) -> None:
    head = "model,layer,N,C,H,W,K,R,S,stride,pad,output_padding,dilation,groups\n"
    (one,) = read(written(tmp_path, head + "unet,up,16,256,32,24,128,3,4,2,1,1,2,1\n")).entries
    made = ConvTranspose2d(16, 32, 24, 256, 128, 3, 4, stride=2, dilation=2, pad=1, output_padding=1)
    assert (str(one), one.problem) == ("unet/up", made.phases)


def test_a_row_that_is_no_problem_is_named(tmp_path: Path) -> None:
    head = "name,N,H,W,C,K,R,S,stride,pad,groups,per_channel\n"
    rows = "good,1,6,6,8,8,3,3,1,1,1,0\nbad,1,6,6,8,8,3,3,1,1,3,0\nempty,1,,6,8,8,3,3,1,1,1,0\n"
    rows += "odd,1,6,6,8,8,3,3,1,1,1,yes\n"
    workload = read(written(tmp_path, head + rows))
    assert [str(entry) for entry in workload.entries] == ["good"]
    said = {refused.place: refused.reason for refused in workload.refused}
    assert set(said) == {"bad", "empty", "odd"}
    assert "groups=3" in said["bad"]
    assert "H='' must be an integer" in said["empty"]
    assert "per_channel='yes' must be 0 or 1" in said["odd"]


def test_a_list_of_keys(tmp_path: Path) -> None:
    text = f"# a network\n{KEY}\n\n{KEY}  # once more\n{KEY}:pad=1,1,1,1\n"
    workload = read(written(tmp_path, text, "keys.txt"), batch=3)
    assert [(entry.count, entry.problem) for entry in workload.entries] == [
        (2, Conv2d(3, 6, 6, 8, 8, 3, 3)),
        (1, Conv2d(3, 6, 6, 8, 8, 3, 3, pad=1)),
    ]
    assert workload.entries[0].places == ("line 2", "line 4")


def test_what_a_spreadsheet_writes_before_the_first_name_is_none_of_it(tmp_path: Path) -> None:
    (entry,) = read(written(tmp_path, f"\N{ZERO WIDTH NO-BREAK SPACE}{COLUMNS}\na,1,6,6,8,8,3,3,1,0,1\n")).entries
    assert entry.places == ("a",)
    (entry,) = read(written(tmp_path, f"\N{ZERO WIDTH NO-BREAK SPACE}{KEY}\n", "keys.txt")).entries
    assert entry.problem == Conv2d(1, 6, 6, 8, 8, 3, 3)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("keys.txt", f"{KEY}\nconv9d:n=1\n", r"keys.txt:2: .*names the op 'conv9d'"),
        ("keys.txt", "# nothing\n", "has no convolution to tune: give it at least one"),
        ("a.csv", "N,H,W\n1,2,3\n", "names no column C, K, R, S, groups"),
        (
            "a.csv",
            "N,H,W,C,K,R,S,groups,stride_h,pad_h,pad_w\n1,6,6,8,8,3,3,1,1,0,0\n",
            r"names no column stride \(or stride_h and stride_w\); a layer needs N, .*groups, stride \(or",
        ),
        ("a.csv", "N,H,W,C,K1,R1,S1,K2,R2,S2\n", "names no column stride1, .*; a pair needs N, H, W, C, K1"),
        ("a.csv", "", "names no column N, H"),
        (
            "a.csv",
            f"{COLUMNS}\nx,1,2,2,1,1,3,3,1,0,1\n",
            "the first of 1 that are none, x: the",
        ),
    ],
)
def test_files_that_are_no_workload(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read(written(tmp_path, text, name))


def test_an_array_has_no_batch(tmp_path: Path) -> None:
    path = written(tmp_path, f"{KEY}\nquantize:outer=1:channels=4:inner=4:x_type=float32:out_type=int8\n", "keys.txt")
    assert [len(read(path, batch=2).entries), len(read(path, batch=2).refused)] == [1, 1]
