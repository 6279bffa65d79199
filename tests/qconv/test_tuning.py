"""qconv.tune, from Python."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import qconv
from qconv import Conv2d
from qconv.cli.command_line import commands
from qconv.instances.load import serving
from qconv.tune_db.database import Database
from qconv.tuner import sequence
from qconv.tuner.search import compile_ahead
from qconv.tuner.sequence import Race
from qconv.tuner.workload import NetworkProblems, Workload
from qconv.tuner.workloads import schedule
from qconv.tuning import network_of, workload_of
from tests.tuner.measure.test_evaluate import CPU
from tests.tuner.workloads.test_schedule import FAST, SLOW, Scaled

KEY = "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3"


def test_problems_are_tuned_and_looked_up_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "Child", Scaled)
    monkeypatch.setattr(compile_ahead, "build", lambda *_: None)
    db = str(tmp_path / "t.sqlite")
    given = [SLOW, FAST, str(SLOW)]
    serving._warm.keep((SLOW, "cpu", db, False), "what was looked up before")  # type: ignore[arg-type]
    slow, fast = qconv.tune(given, 9, device="cpu", db=db, strategy="cheapest")
    assert (slow.entry.problem, slow.entry.count, slow.entry.places) == (SLOW, 2, ("problem 1", "problem 3"))
    assert slow.trials + fast.trials == 18
    assert slow.config is not None
    assert (SLOW, "cpu", db, False) not in serving._warm
    for budget in (9, qconv.Budget(trials=9, seconds=60.0)):
        assert qconv.tune(given, budget, device="cpu", db=db)[0] == slow


class Raced:
    """A stand-in for the race of a network: it records the database's contents at its start and end."""

    seen: ClassVar[list[int]] = []

    def __init__(self, network: Any, rows: Database) -> None:
        self._rows = rows
        if network.refuses:
            raise ValueError(network.refuses)
        self.seen.append(len(rows.measurements()))

    def end(self) -> Race:
        self.seen.append(len(self._rows.measurements()))
        return RACE


RACE = Race(0.05, 0.06, 0.045, 1, 2)


@pytest.mark.parametrize(
    ("name", "refuses", "said"),
    [
        (CPU.name, "", RACE),
        (CPU.name, "its inputs have no shape", "its inputs have no shape"),
        ("NVIDIA H200", "", f"it was tuned on {CPU.name}, and is on NVIDIA H200 here"),
    ],
)
def test_a_network_is_raced_as_a_whole_when_its_problems_are_tuned(
    name: str, refuses: str, said: Race | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "Child", Scaled)
    monkeypatch.setattr(compile_ahead, "build", lambda *_: None)
    monkeypatch.setattr(sequence, "NetworkRace", Raced)
    monkeypatch.setattr(Raced, "seen", [])
    network: Any = SimpleNamespace(device=SimpleNamespace(name=name, target=CPU.target), refuses=refuses)
    how: Any = {"device": "cpu", "db": str(tmp_path / "t.sqlite"), "strategy": "cheapest"}
    assert qconv.tune(NetworkProblems([SLOW, FAST], network), 9, **how).race == said
    assert Raced.seen == ([0, 18] if said == RACE else [])
    assert qconv.tune([SLOW, FAST], 9, **how).race is None, "mere problems are no network"
    (batch_of_its_own,) = {qconv.tune(NetworkProblems([FAST], network), 9, batch=FAST.n, **how).race}
    assert "has a batch of its own" in str(batch_of_its_own)


def test_a_model_is_a_network_where_a_session_runs_it_on_kernels(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    import onnx
    import quantized_networks

    real, path = quantized_networks.mobilenet_like(), str(tmp_path / "real.onnx")
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ("n", 3, 4, 4)) for name in "xy"]
    node = onnx.helper.make_node("LRN", ["x"], ["y"], size=3)
    graph = onnx.helper.make_graph([node], "no kernel", values[:1], values[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), path)
    assert network_of(path, 2, "cpu") == (
        "a session runs none of its layers on a kernel; quantize it, or give its open batch"
    )
    onnx.save(quantized_networks.quantized(real, "QDQ", "u8s8", True), path)
    found: Any = network_of(path, 2, "cpu")
    assert {one.n for one in found.problems if isinstance(one, Conv2d)} == {2}
    assert network_of("layers.csv", None, "cpu") is None


def test_what_may_be_given(tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text(f"{KEY}\n{KEY}\n")
    (entry,) = workload_of(str(tmp_path / "keys.txt"), batch=5).entries
    assert (entry.problem, entry.count) == (Conv2d(5, 6, 6, 8, 8, 3, 3), 2)
    assert workload_of(Conv2d(1, 6, 6, 8, 8, 3, 3), 5).entries[0].problem == entry.problem
    assert isinstance(workload_of([KEY]), Workload)
    two = qconv.FusedConv2d(Conv2d(1, 6, 6, 8, 8, 3, 3), Conv2d(1, 4, 4, 8, 8, 1, 1))
    for problem in (Conv2d(1, 6, 6, 8, 8, 3, 3), two):
        assert workload_of(problem.key).entries == workload_of([problem]).entries
    (tmp_path / "run:1.txt").write_text(KEY)
    assert workload_of(str(tmp_path / "run:1.txt")).entries[0].problem == Conv2d(1, 6, 6, 8, 8, 3, 3)


@pytest.mark.parametrize(
    ("given", "batch", "says"),
    [
        (7, None, "7 is no problem: give one, or a list of them, or a file"),
        ([7], None, "problem 1 is 7: give problems, or their keys"),
        ([], None, "the list has no convolution to tune"),
        ("no/such/file", None, "is no file: give a csv"),
        ("no/such/file", 0, "batch=0 must be at least 1"),
        (["conv9d:n=1"], None, "names the op 'conv9d'"),
    ],
)
def test_what_is_refused(given: object, batch: int | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        workload_of(given, batch)  # type: ignore[arg-type]


def test_a_binary_file_that_is_no_model_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"\x80\x81\x82")
    with pytest.raises(ValueError, match=r"is no text in UTF-8 \(at byte 0\): .* a model whose name ends in \.onnx"):
        workload_of(tmp_path / "model.bin")


def test_the_database_has_one_name() -> None:
    """`db` in Python, `--db` for the command, `QCONV_DB` in the environment."""
    functions = [qconv.tune, qconv.bench, qconv.lookup, qconv.export]
    for function in functions:
        assert "db" in inspect.signature(function).parameters, function
    options = {name: param.opts for each in commands.commands.values() for param in each.params if (name := param.name)}
    assert options["db"] == ["--db"]
    assert "database" not in options
