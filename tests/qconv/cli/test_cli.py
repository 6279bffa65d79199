"""The command line: the forms that scripts rely on, one JSON document on stdout, exit codes, and no tracebacks."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from called import document_here, here
from stored_times import store

from qconv import generator, parse
from qconv.cli import main
from qconv.device import compile, open_device
from qconv.errors import CompileError
from qconv.targets.target import TARGETS, Target

SHAPE = ["--n", "1", "--h", "6", "--w", "6", "--c", "8", "--k", "8", "--r", "3", "--s", "3"]
CONV = ["conv2d", *SHAPE, "--pad", "1"]
KEY = "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8"


def cli(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "qconv.cli", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("db") / "tune.sqlite"
    assert document_here("tune", *CONV, "--device", "cpu", "--trials", 3, "--db", path)["measured"] == 3
    return path


def test_flags_and_key_name_the_same_problem(db: Path) -> None:
    answer = cli("lookup", *CONV, "--device", "cpu", "--db", db, "--json")
    assert answer.returncode == 0, answer.stderr
    by_flags = json.loads(answer.stdout)
    by_key = document_here("lookup", KEY, "--device", "cpu", "--db", db)
    assert by_flags == by_key
    assert by_key["problem"] == KEY
    assert by_key["origin"] == "exact"
    assert Path(by_key["binary"]).is_file()


def test_every_flag_reaches_the_problem() -> None:
    flags = shlex.split(
        "--stride 2,1 --dilation 1,2 --pad 1,2,3,4 --groups 2 --x-type uint8 --w-type int8 --out-type uint8 "
        "--per-channel --bias float32 --activation relu6 --x-zero-point 3 --w-zero-point --y-zero-point 0 "
        "--residual int8 --residual-zero-point -5"
    )
    key = document_here("space", "conv2d", *SHAPE, *flags, "--target", "sm_80")["problem"]
    assert key == (
        "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3:stride=2,1:dilation=1,2:pad=1,2,3,4:groups=2:x_type=uint8:w_type=int8:"
        "out_type=uint8:per_channel:x_zero_point:w_zero_point:residual_zero_point:bias=float32:activation=relu6:residual=int8"
    )
    key = document_here("space", "conv2d", *SHAPE, "--table", "--y-zero-point", "4", "--target", "sm_80")["problem"]
    assert key.endswith(":out_type=int8:y_zero_point:table")
    sums = ["--residual", "int8", "--residual-add", "requantized_last", "--inner-zero-point", "4"]
    key = document_here("space", "conv2d", *SHAPE, *sums, "--target", "sm_80")["problem"]
    assert key.endswith(":out_type=int8:inner_zero_point:residual=int8:residual_add=requantized_last")


@pytest.mark.parametrize("more", [[], ["--verify"], ["--verify", "--x-zero-point", "-7", "--bias", "--per-channel"]])
def test_run(more: list[str]) -> None:
    answer = document_here("run", *CONV, *more, "--device", "cpu", "--seed", 5)
    assert answer["seed"] == 5
    assert answer.get("verified", True) is True
    assert ("output_sha256" in answer) is not bool(more)


def test_a_cpu_device_that_emulates_is_looked_up_tuned_and_sanitized(tmp_path: Path) -> None:
    flags = ["--device", "cpu.gfx942", "--db", tmp_path / "t.sqlite"]
    assert document_here("tune", *CONV, *flags, "--trials", 1)["measured"] == 1
    found = document_here("lookup", *CONV, *flags)
    assert (found["target"], found["origin"]) == ("cpu.gfx942", "exact")
    assert found["device"].startswith("cpu.gfx942 ")
    answer = document_here("run", *CONV, *flags, "--verify", "--sanitize", "address")
    assert (answer["verified"], answer["clean"]) == (True, True)


def test_bench_reports_what_it_verified(db: Path) -> None:
    answer = document_here("bench", *CONV, "--device", "cpu", "--db", db)
    assert answer["verified"] is True
    assert answer["time_us"] > 0
    assert answer["protocol"]["repeats"] == len(answer["times_us"])


def test_space_says_why_a_config_is_rejected() -> None:
    answer = document_here("space", *CONV, "--target", "gfx90a")
    assert len(answer["feasible"]) > 0
    assert all(any(c.isdigit() for c in r["reason"]) for r in answer["rejected"])
    assert {r["config"]["family"] for r in answer["rejected"]} == {"simt"}


@pytest.mark.parametrize("target", ["sm_80", "gfx90a", "cpu"])
def test_source_prints_the_kernel(target: str) -> None:
    answer = here("source", *CONV, "--target", target)
    assert answer.returncode == 0
    assert f"// {KEY[:60]}" in answer.stdout
    family = generator.default(parse(KEY), TARGETS[target]).config.family
    assert f"conv2d_{family}(const Arguments args)" in answer.stdout
    config = json.dumps(document_here("space", *CONV, "--target", target)["feasible"][-1])
    other = here("source", *CONV, "--target", target, "--config", config)
    assert other.returncode == 0
    assert other.stdout != answer.stdout


def test_devices() -> None:
    answer = document_here("devices")
    assert answer["devices"][-1]["target"] == "cpu"
    assert answer["targets"]["cpu"].startswith(("g++", "clang"))


def test_targets_that_lack_the_same_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(target: Target) -> None:
        raise CompileError(f"compiling for {target.name} needs {target.vendor}'s compiler; install it")

    monkeypatch.setattr(compile, "compiler_ahead", refuse)
    main(["devices"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("targets")]
    assert len(lines) == 3
    assert re.match(r"targets sm_75, sm_80, .*: no: compiling for them needs nvidia's compiler; install it", lines[0])


def test_no_time_is_expected_of_the_cpu_device() -> None:
    """The models are of GPUs: a CPU takes a hundred times as long."""
    assert "the cost model's own best; nothing near" in document_here("lookup", KEY, "--device", "cpu")["reason"]


def test_the_default_database_is_qconv_db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.sqlite"
    monkeypatch.setenv("QCONV_DB", str(path))
    assert document_here("tune", *CONV, "--device", "cpu", "--trials", 1)["database"] == str(path)
    assert len(document_here("db", "list")) == 1


def test_db_list_merge_export_prune(tmp_path: Path) -> None:
    """Prune keeps the best row and the row 0.9 % slower, which ties with it; the row 2 % slower is removed."""
    db, cpu = tmp_path / "tune.sqlite", open_device("cpu")
    plans, _ = generator.space(parse(KEY), cpu.target)
    store(db, cpu, zip(plans, (10.0, 10.09, 10.2), strict=False))
    rows = document_here("db", "list", "--db", db)
    assert [row["outcome"] for row in rows] == ["correct"] * 3
    assert len(document_here("db", "list", "--best", "--db", db)) == 1
    other = tmp_path / "other.sqlite"
    merged = document_here("db", "merge", db, "--db", other)
    assert merged[str(db)]["added"] == 3
    assert document_here("db", "merge", db, "--db", other)[str(db)]["unchanged"] == 3
    assert here("db", "export", "--db", other, "--out", tmp_path / "t4.json").returncode == 0
    assert len(json.loads((tmp_path / "t4.json").read_text())["results"]) == 3
    best = ["--format", "text", "--best", "--db", other, "--out", tmp_path / "w.json"]
    assert here("db", "export", *best).returncode == 0
    assert len(json.loads((tmp_path / "w.json").read_text())) == 1
    assert "1 rows would be deleted" in here("db", "prune", "--slower-than", 1, "--dry-run", "--db", other).stdout
    assert here("db", "prune", "--slower-than", 1, "--db", other).returncode == 0
    assert [row["median_us"] for row in document_here("db", "list", "--db", other)] == [10.0, 10.09]


def test_export_compiles_alone(db: Path, tmp_path: Path) -> None:
    answer = document_here("export", "--db", db, "--out", tmp_path / "out")
    assert sorted(answer["files"]) == sorted(path.name for path in (tmp_path / "out").iterdir())
    sources = [name for name in answer["files"] if name.startswith("conv2d") and name.endswith(".cpp")]
    assert len(sources) == 1
    host = shutil.which("g++")
    assert host is not None
    for file in sources:
        subprocess.run([host, "-std=c++17", "-c", tmp_path / "out" / file, "-o", tmp_path / "k.o"], check=True)
    (tmp_path / "use.c").write_text('#include "qconv_kernels.h"\n')
    subprocess.run(
        ["gcc", "-std=c99", "-c", "-I", tmp_path / "out", tmp_path / "use.c", "-o", tmp_path / "u.o"], check=True
    )
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["kernels"][0]["problem"] == KEY
    assert manifest["kernels"][0]["measured_on_this_source"] is True


def test_progress_goes_to_stderr_and_json_alone_to_stdout(tmp_path: Path) -> None:
    answer = cli("tune", *CONV, "--device", "cpu", "--trials", 2, "--db", tmp_path / "t.sqlite", "--json")
    json.loads(answer.stdout)
    assert "2/2" in answer.stderr


def _garbage(path: Path) -> None:
    path.write_bytes(os.urandom(5000))


def _text(path: Path) -> None:
    path.write_text("not a database\n" * 100)


def _other_schema(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("create table measurements (x)")


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:3000])


def _evil_config(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as rows:
        rows.execute("delete from qconv_config where id > 1")
        rows.execute('update qconv_config set json = \'__import__("os").system("touch pwned")\'')
        rows.execute("update or ignore qconv_measurement set config_id = 1")


def _negative_time(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as rows:
        rows.execute("update qconv_measurement set median_us = -1")


@pytest.mark.parametrize(
    "spoil", [_garbage, _text, _other_schema, _truncated, _evil_config, _negative_time], ids=lambda f: f.__name__[1:]
)
def test_a_bad_database_is_refused_by_name_and_left_as_it_is(
    db: Path, tmp_path: Path, spoil: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Only lookups continue without a truncated one, and say so."""
    bad = tmp_path / "bad.sqlite"
    if spoil in (_truncated, _evil_config, _negative_time):
        # A copy by merge is one file, whatever the journal mode.
        assert here("db", "merge", db, "--db", bad).returncode == 0
    spoil(bad)
    before = bad.read_bytes()
    for command in (["db", "list"], ["lookup", *CONV, "--device", "cpu"], ["export", "--out", str(tmp_path / "out")]):
        answer = here(*command, "--db", bad)
        goes_on = spoil is _truncated and command[0] == "lookup"
        assert answer.returncode == (0 if goes_on else 4), (command, answer.stderr)
        assert "bad.sqlite" in (caplog.text if goes_on else answer.stderr)
        assert "Traceback" not in answer.stderr
    assert bad.read_bytes() == before
    assert not Path("pwned").exists()


CONVERSIONS = [
    (
        "quantize --shape 8,16,7 --axis 1 --set zero_point --mode torch-fbgemm",
        "channels=16:inner=7",
        "zero_point_add=before_round",
    ),
    ("dequantize --shape 64,32 --axis 1 --block 8 --x-type uint8 --out-type float16", "block=8", "out_type=float16"),
    ("requantize --shape 64 --set order=multiply_divide", "inner=64", "order=multiply_divide"),
    ("choose --shape 64,32 --axis token --set eps=0.001", "channels=64:inner=32", "eps=0.001"),
    ("dynamic --shape 64,32 --axis token --mode ort", "channels=64:inner=32", "rule=onnx"),
]


@pytest.mark.parametrize(("flags", "sizes", "flag"), CONVERSIONS, ids=[flags.split()[0] for flags, _, _ in CONVERSIONS])
def test_the_conversions(flags: str, sizes: str, flag: str) -> None:
    answer = document_here("run", *flags.split(), "--device", "cpu", "--verify")
    assert answer["verified"] is True
    assert sizes in answer["problem"]
    assert flag in answer["problem"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("quantize", "quantize needs --shape"),
        ("quantize --shape 4,4 --stride 2", "quantize has no option --stride, which belongs to conv2d"),
        ("quantize --shape 4,4 --axis 5", "axis=5 must be between -2 and 1"),
        ("quantize --shape 4,4 --axis a", "--axis 'a' is not an integer"),
        ("quantize --shape 4,0", "so no element"),
        ("quantize --shape 4,4 --set nope=3", "unknown field 'nope'"),
        ("quantize --shape 4,4 --set zero_point=3", "takes no value"),
        ("quantize --shape 4,4 --set low=x", "must be an integer"),
        ("quantize --shape 4,4 --mode ck", "that system has none"),
        ("dequantize --shape 4,4 --x-type float32", "is not one of int8"),
        ("choose --shape 4,4 --axis 1 --block 2", "scales are chosen per channel"),
        ("conv2d --shape 4,4", "conv2d has no option --shape, which belongs to quantize"),
    ],
)
def test_a_malformed_conversion_is_refused(flags: str, says: str) -> None:
    done = here("lookup", *flags.split(), "--device", "cpu")
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_space_without_configs_says_what_lookup_gives() -> None:
    answer = here("space", f"{KEY}+{KEY}", "--target", "cpu")
    assert answer.stdout.splitlines()[0] == "0 feasible, 0 rejected on cpu"
    assert "no family has one kernel for it there; lookup gives 2 kernels: unfused (simt" in answer.stdout
