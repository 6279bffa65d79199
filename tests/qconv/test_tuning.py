"""qconv.tune, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import qconv
from qconv import Conv2d
from qconv.instances import serving
from qconv.tuner import ahead, schedule
from qconv.tuner.workload import Workload
from qconv.tuning import workload_of
from tests.tuner.test_schedule import FAST, SLOW, Scaled

KEY = "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3"


def test_problems_are_tuned_and_looked_up_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "Child", Scaled)
    monkeypatch.setattr(ahead, "build", lambda *_: None)
    db = str(tmp_path / "t.sqlite")
    given = [SLOW, FAST, str(SLOW)]
    monkeypatch.setitem(serving._warm, (SLOW, "cpu", db, False), "what was looked up before")
    slow, fast = qconv.tune(given, 9, device="cpu", database=db, strategy="cheapest")
    assert (slow.entry.problem, slow.entry.count, slow.entry.places) == (SLOW, 2, ("problem 1", "problem 3"))
    assert slow.trials + fast.trials == 18
    assert slow.config is not None
    assert (SLOW, "cpu", db, False) not in serving._warm
    for budget in (9, qconv.Budget(trials=9, seconds=60.0)):
        assert qconv.tune(given, budget, device="cpu", database=db)[0] == slow


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
