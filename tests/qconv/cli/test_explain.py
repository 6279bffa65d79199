"""The command explain, on the CPU device."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import quantized_networks as networks
from click.testing import CliRunner

from qconv.cli.explain import explain


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("explain") / "model.onnx"
    onnx.save(networks.quantized(networks.NETWORKS["resnet"](), "QDQ", "s8s8", False), made)
    return made


def run(*arguments: str | Path) -> str:
    done = CliRunner().invoke(explain, [*map(str, arguments), "--device", "cpu"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_it_is_text_with_the_causes(path: Path) -> None:
    said = run(path)
    assert "elsewhere: nothing" in said
    assert "multiplications on qconv's kernels: 100.0 %; subgraphs elsewhere: 0" in said
    assert "cause: " not in said
    said = run(path, "--bits", "onnxruntime")
    assert "cause: Conv" in said
    assert 'bits="integers" makes it an integer layer' in said


def test_it_is_data_for_a_batch_or_a_shape(path: Path) -> None:
    bytes_of: dict[str, Any] = {}
    for given in (("--batch", "2"), ("--shape", "x=2,3,16,16"), ()):
        data = json.loads(run(path, "--json", *given))
        assert {"model", "device", "layers", "causes", "share", "advice"} <= data.keys()
        bytes_of[given[0] if given else ""] = data["crossing_bytes"]
    assert bytes_of["--batch"] == bytes_of["--shape"] == 2 * bytes_of[""]


def test_it_is_csv_with_a_row_per_layer(path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run(path, "--csv"))))
    assert [row["name"] for row in rows] == [layer["name"] for layer in json.loads(run(path, "--json"))["layers"]]
    assert {row["runs_on"] for row in rows} == {"qconv"}


def test_it_measures_when_asked(path: Path) -> None:
    data = json.loads(run(path, "--json", "--profile"))
    assert all(layer["measured_us"] > 0 for layer in data["layers"])
    assert data["memory"]["recordings"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--shape", "x"), "must be a name and extents"),
        (("--shape", "x=1,a"), "must be a name and extents"),
        (("--shape", "x=1,3,16,16", "--batch", "2"), "give one"),
    ],
)
def test_what_is_misspelled_is_named(path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(explain, [str(path), *arguments])
    assert done.exit_code == 2
    assert said in done.output
