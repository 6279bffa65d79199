"""The options --floats and --keep of the commands that take a model, on the CPU device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import float_networks as networks
import onnx
from click.testing import CliRunner

from qconv.cli.command_line import commands

ONE = ["conv2d", *["--n", "1", "--h", "4", "--w", "4", "--c", "4", "--k", "4", "--r", "1", "--s", "1"]]
BELONG = "--floats and --keep belong to a MODEL.onnx: a problem has its types, leave them out"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    net = networks.FloatNetwork()
    outputs = networks.products(net)
    path = tmp_path_factory.mktemp("floats") / "model.onnx"
    onnx.save(net.made(*outputs), path)
    return str(path)


def run(*arguments: str | Path, fails: bool = False) -> str:
    done = CliRunner().invoke(commands, [*map(str, arguments)], catch_exceptions=True)
    assert (done.exit_code != 0) == fails, done.output
    return done.output if not fails or done.exception is None else f"{done.output}{done.exception}"


@pytest.mark.slow
def test_a_report_has_the_type_of_each_layer(model: str) -> None:
    rows = json.loads(run("explain", model, "--device", "cpu", "--floats", "float16", "--json"))["layers"]
    assert [row["floats"] for row in rows if row["op"] == "Gemm"] == ["float16", "float16"]
    kept = run("explain", model, "--device", "cpu", "--floats", "float16", "--keep", "gemm0", "--json")
    assert sorted(row["floats"] for row in json.loads(kept)["layers"] if row["operations"]) == ["float16", "float32"]


@pytest.mark.parametrize(
    "command",
    [
        ("build", *ONE, "--target", "cpu"),
        ("export", *ONE, "--out", "there"),
        ("tune", *ONE),
    ],
)
def test_a_problem_has_types_of_its_own(command: tuple[str, ...]) -> None:
    for more in (("--floats", "float16"), ("--keep", "fc")):
        assert BELONG in run(*command, *more, fails=True)


def test_a_type_that_there_is_not(model: str) -> None:
    assert "'int4' is not one of 'float32', 'float16', 'bfloat16'" in run(
        "explain", model, "--floats", "int4", fails=True
    )


@pytest.mark.slow
def test_a_self_test_compares_bits(model: str, tmp_path: Path) -> None:
    exported = ("export", model, "--format", "library", "--target", "cpu", "--out", tmp_path / "there")
    said = run(*exported, "--floats", "float16", "--vectors", fails=True)
    assert "vectors with floats='float16': the self-test compares bits" in said
    run(*exported, "--floats", "float16", "-q")
    assert not (tmp_path / "there" / "vectors.txt").exists()


def test_tuning_measures_what_such_a_session_runs(model: str, tmp_path: Path) -> None:
    tune = (
        "tune",
        "--workload",
        model,
        "--device",
        "cpu",
        "--db",
        tmp_path / "rows.db",
        "--trials",
        "1",
        "-q",
        "--json",
    )
    found = json.loads(run(*tune, "--floats", "bfloat16"))
    keys = [each["problem"] for each in found["problems"]]
    assert sum("x_type=bfloat16:w_type=bfloat16:out_type=bfloat16" in key for key in keys) == 2
    assert "before_ms" in str(found["network"]) or "not_raced" in found["network"]
