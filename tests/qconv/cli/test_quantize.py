"""The commands quantize and compare, one after the other, as a user types them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from called import document_here, here

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import quantized_networks as networks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("quantize")
    onnx.save(networks.NETWORKS["resnet"](), made / "model.onnx")
    (made / "data").mkdir()
    for seed in range(3):
        np.save(made / f"data/{seed}.npy", networks.images(1, seed)[0])
    return made


def test_from_a_float_model_to_a_comparison(folder: Path) -> None:
    model, data = folder / "model.onnx", folder / "data"
    answer = here("quantize", model, "--data", data, "--limit", 2)
    assert answer.returncode == 0, answer.stderr
    made = folder / "model.int8.onnx"
    assert answer.stdout.splitlines() == [
        f"quantized  7 of 7 layers with weights, in {made}",
        "kernels    9 layers; elsewhere: nothing",
        f"compare    qconv-tune compare {model} {made} --data {data} --limit 2",
    ]
    calibrated = [f"calibrated on {done} of 2 samples" for done in (1, 2)]
    assert answer.stderr.splitlines() == ["2 files of samples", *calibrated]

    answer = here("compare", model, made, "--data", data, "--sort", "error", "-q")
    assert (answer.returncode, answer.stderr) == (0, "")
    lines = answer.stdout.splitlines()
    assert lines[0].split() == ["error", "rounding", "clipped", "op", "layer"]
    errors = [float(line.split()[0]) for line in lines[1:-2]]
    assert errors == sorted(errors)
    assert lines[-2].endswith("the same arg max in 100.0 % of 3 places")
    assert lines[-1].startswith("the largest errors: to keep these layers in floats, qconv-tune quantize with --leave")

    name = lines[-1].split("--leave-out ")[1].strip()
    document = document_here("quantize", model, "--data", data, "--leave-out", name, "--out", folder / "mixed.onnx")
    assert document["path"] == str(folder / "mixed.onnx")
    assert document["quantized"] == document["products"] - 1


def test_the_layers_that_cost_most_are_named(folder: Path) -> None:
    model, out, data = folder / "model.onnx", folder / "sensitive.onnx", folder / "data"
    assert here("quantize", model, "--data", data, "--out", out, "-q").returncode == 0
    answer = here("sensitivity", model, out, "--data", data, "--top", 2)
    assert answer.returncode == 0, answer.stderr
    head, *rows, last = answer.stdout.splitlines()
    assert head.split() == ["outputs", "own", "op", "layer"]
    names = [row.split()[-1] for row in rows]
    assert len(names) == 2
    kept = " ".join(f"--leave-out {name}" for name in names)
    assert last == f"these cost the outputs most: to keep them in floats, qconv-tune quantize with {kept}"
    document = document_here("sensitivity", model, out, "--data", data)
    assert (document["samples"], len(document["layers"])) == (3, 7)
    assert [layer["name"] for layer in document["layers"]][:2] == names
    table = list(csv.DictReader(io.StringIO(here("sensitivity", model, out, "--data", data, "--csv").stdout)))
    assert [float(row["outputs_db"]) for row in table] == [layer["outputs_db"] for layer in document["layers"]]


def test_a_row_per_layer_is_data(folder: Path) -> None:
    model, out, data = folder / "model.onnx", folder / "other.onnx", folder / "data"
    assert here("quantize", model, "--data", data, "--out", out, "-q").returncode == 0
    rows = list(csv.DictReader(io.StringIO(here("compare", model, out, "--data", data, "--csv").stdout)))
    document = json.loads(here("compare", model, out, "--data", data, "--json").stdout)
    assert [row["name"] for row in rows] == [layer["name"] for layer in document["layers"]]
    assert document["samples"] == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--size", "64"], "--size '64' must be a height and a width, such as 224x224"),
        (["--mean", "a,b"], "--mean 'a,b' must be numbers with commas between"),
        (["--std", "1,2"], "std=(1.0, 2.0) must be one finite number, or 3"),
        (["--out", "model.onnx"], "is the float model itself: give another file"),
        (["--leave-out", "conv55"], "no layer and no op 'conv55' (did you mean 'conv5'?)"),
    ],
)
def test_what_is_asked_for_wrongly_is_refused(
    folder: Path, arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    answer = here("quantize", "model.onnx", "--data", "data", *arguments)
    assert answer.returncode == 2
    assert says in answer.stderr
    assert onnx.load(folder / "model.onnx").graph.node[0].op_type == "Conv"


def test_the_size_is_a_height_and_a_width(folder: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    image.new("RGB", (9, 7)).save(tmp_path / "black.png")
    answer = here(
        "quantize", folder / "model.onnx", "--data", tmp_path, "--size", "16x20", "--out", tmp_path / "q.onnx"
    )
    assert "has an array of shape (1, 3, 16, 20); the model takes x float32(?, 3, 16, 16)" in answer.stderr
    assert "images are read as (pixel / 255 - mean) / std with mean 0.485, 0.456, 0.406" in answer.stderr
