"""The tuning loop end to end on the CPU device, killed and interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from called import document_here

from qconv.tune_db.database import Database
from qconv.tune_db.measurement import NOISE, best_of

FLAGS = ["conv2d", "--n", "1", "--h", "6", "--w", "6", "--c", "16", "--k", "16", "--r", "3", "--s", "3", "--pad", "1"]
CLI = [sys.executable, "-m", "qconv.cli"]


def cli(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, timeout=300, check=False
    )


def tune(db: Path, trials: int, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = document_here("tune", *FLAGS, "--device", "cpu", "--trials", trials, "--db", db, *more)
    return found


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    db = tmp_path_factory.mktemp("tuned") / "tune.sqlite"
    return db, tune(db, 6)


def test_every_trial_is_a_row_and_the_winner_is_the_fastest(tuned: tuple[Path, dict[str, Any]]) -> None:
    db, document = tuned
    with Database.open(db, create=False) as rows:
        found = rows.measurements()
    assert len(found) == 6 == document["measured"]
    # Not the least time: that of a row that was only screened may have been luck.
    best = best_of(found)
    assert best is not None
    assert document["winner"]["median_us"] == best.median_us
    assert document["default_us"] is not None
    assert document["winner"]["median_us"] <= document["default_us"] * (1 + NOISE)


def test_a_second_run_goes_on_where_the_first_stopped(tuned: tuple[Path, dict[str, Any]]) -> None:
    db, _ = tuned
    again = tune(db, 6)
    assert (again["known"], again["measured"]) == (6, 0)
    more = tune(db, 8, "--strategy", "cheapest")
    assert (more["known"], more["measured"]) == (6, 2)
    assert (again["strategy"], more["strategy"]) == ("bayesian", "cheapest")


def test_another_process_gets_the_winner_without_compiling(tuned: tuple[Path, dict[str, Any]]) -> None:
    db, _ = tuned
    answer = cli(
        "lookup", *FLAGS, "--device", "cpu", "--db", str(db), "--json", QCONV_NO_COMPILE="1", CXX="/no/compiler"
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["origin"] == "exact"
    answer = cli(
        "run",
        *FLAGS,
        "--device",
        "cpu",
        "--db",
        str(db),
        "--verify",
        "--json",
        QCONV_NO_COMPILE="1",
        CXX="/no/compiler",
    )
    assert json.loads(answer.stdout)["verified"] is True


def test_a_neighbour_and_a_stranger_say_what_they_got(tuned: tuple[Path, dict[str, Any]]) -> None:
    db, _ = tuned
    near = ["7" if part == "6" else part for part in FLAGS]
    document = document_here("lookup", *near, "--device", "cpu", "--db", db)
    # Either is possible: it depends on the fastest config on this machine, through the cost model.
    assert document["origin"] in ("nearest", "default")
    assert "h=6" in document["reason"]
    far = ["conv2d", "--n", "8", "--h", "40", "--w", "40", "--c", "3", "--k", "7", "--r", "5", "--s", "5"]
    document = document_here("lookup", *far, "--device", "cpu", "--db", db)
    assert document["origin"] == "default"
    assert "tune" in document["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_a_tuner_that_is_stopped_leaves_every_finished_trial(tmp_path: Path, how: int, code: int) -> None:
    db = tmp_path / "tune.sqlite"
    process = subprocess.Popen(
        [*CLI, "tune", *FLAGS, "--device", "cpu", "--trials", "60", "--db", str(db), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    seen = 0
    deadline = time.monotonic() + 240
    while seen < 3 and time.monotonic() < deadline:
        line = process.stderr.readline()
        seen += line[:1].isdigit()
    process.send_signal(how)
    out, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    assert out == ""
    assert "Traceback" not in err
    with Database.open(db, create=False) as rows:
        found = rows.measurements()
    assert len(found) >= 3
    assert all(row.outcome == "correct" for row in found)
    assert tune(db, len(found))["known"] == len(found)


def test_a_default_that_has_come_since_is_measured(
    tuned: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a tuned layer would stay slower than an untuned one after the models or the kernels have changed."""
    from qconv import Conv2d, generator
    from qconv.device import open_device
    from qconv.tuner.search.tune import tune as tune_here

    problem, cpu = Conv2d(1, 6, 6, 16, 16, 3, 3, pad=1), open_device("cpu")
    copy = tmp_path / "tune.sqlite"
    shutil.copy(tuned[0], copy)
    with Database.open(copy) as database:
        known = {row.config for row in database.measurements(problem=problem)}
        plans, _ = generator.space(problem, cpu.target)
        newest = next(plan for plan in plans if plan.config not in known)
        monkeypatch.setattr(generator, "default", lambda problem, target: newest)
        outcome = tune_here(problem, cpu, database, trials=len(known))
        again = tune_here(problem, cpu, database, trials=len(known))
    assert (outcome.known, outcome.measured) == (len(known), 1)
    assert outcome.default is not None
    assert outcome.default.config == newest.config
    assert (again.known, again.measured) == (len(known) + 1, 0)


def test_a_kernel_that_computes_wrong_is_never_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: with an oracle that is off by one, every config is refused."""
    from qconv import generator
    from qconv.device import open_device
    from qconv.ops import convolution, registry
    from qconv.problem.convolution import Conv2d
    from qconv.tuner.measure.candidate import Candidate
    from qconv.tuner.measure.evaluate import evaluate
    from qconv.tuner.measure.protocol import WALL_CLOCK
    from qconv.tuner.measure.verification import InputSets

    problem, cpu = Conv2d(1, 3, 3, 4, 4, 1, 1), open_device("cpu")
    candidate = Candidate.of(generator.default(problem, cpu.target))
    drawn = registry.draw(problem, 1)
    assert evaluate(candidate, InputSets(problem, cpu, drawn), WALL_CLOCK).outcome == "correct"
    honest = convolution.conv2d
    monkeypatch.setattr(convolution, "conv2d", lambda *given: honest(*given) ^ 1)
    row = evaluate(candidate, InputSets(problem, cpu, drawn), WALL_CLOCK)
    assert row.outcome == "correctness"
    assert row.median_us is None
    assert row.reason is not None
    assert "of 36 outputs y differ" in row.reason
