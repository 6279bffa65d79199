"""The progress line fits its most important parts in 80 columns."""

from __future__ import annotations

from dataclasses import replace

import click
import pytest

from qconv import generator
from qconv.cli.options import quiet_option
from qconv.cli.progress import OfOne, left, line, on_stderr
from qconv.tuner.search.tune import Progress
from qconv.tuner.workloads.schedule import Step
from tests.tuner.measure.test_evaluate import CPU, MANY, Recorded

ROW = Recorded()._row(MANY, generator.default(MANY, CPU.target).config, 12345.678, "alone")


@pytest.mark.parametrize("columns", [80, 120])
def test_count_time_and_best_are_always_there(columns: int) -> None:
    shown = line(Step(12345, 20000, MANY, ROW, ROW, 7265.0), columns)
    assert len(shown) <= columns
    assert "#######..... 12345/20000  2h01 left  best 12345.68 us (simt" in shown


def test_without_a_number_of_trials_the_count_stands_alone() -> None:
    shown = line(Step(7, None, MANY, ROW, None, None), 80)
    assert shown == "............ 7 trials  ?:?? left  best none yet"


@pytest.mark.parametrize(("seconds", "says"), [(0.0, "0:00"), (59.6, "1:00"), (61.0, "1:01"), (3600.0, "1h00")])
def test_time_in_few_columns(seconds: float, says: str) -> None:
    assert left(seconds) == f"{says} left"


def test_one_problem_is_timed_from_its_first_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 of 20 trials were known: two more in four seconds leave eight, of two seconds each."""
    passed = [0.0]
    monkeypatch.setattr("qconv.cli.progress.time.monotonic", lambda: passed[0])
    shown: list[Step] = []
    watch = OfOne(shown.append, 10.0)
    for done in (11, 12):
        passed[0] += 2.0
        watch(Progress(done, 20, ROW, replace(ROW)))
    assert [step.remaining_s for step in shown] == [8.0, 6.0]
    assert [(step.done, step.trials) for step in shown] == [(11, 20), (12, 20)]


def test_quiet_says_nothing_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    @quiet_option
    def told() -> None:
        with on_stderr() as show:
            show(Step(1, 2, MANY, ROW, ROW, 1.0))

    for words, lines in ((["-q"], 0), (["--quiet"], 0), ([], 2)):
        told.main(words, standalone_mode=False)
        assert len(capsys.readouterr().err.splitlines()) == lines


def test_a_layer_of_a_workload_is_named() -> None:
    step = Step(12345, 20000, MANY, ROW, ROW, 7265.0)
    assert "2h01 left  layer4.1.conv2  best 12345.68 us" in line(step, 80, "layer4.1.conv2")
    long = line(step, 80, "/backbone/stage4/block1/conv2/Conv")
    assert len(long) <= 80
    assert "/backbone/stage4/block1\N{HORIZONTAL ELLIPSIS}  best 12345.68" in long
