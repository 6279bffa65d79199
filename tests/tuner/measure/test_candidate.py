"""A candidate is rendered only once: the worker gets its sources, and its row its digest."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qconv import generator
from qconv.device import open_device
from qconv.device.compile import compiler_for
from qconv.errors import CompileError
from qconv.generator import Plan, Source
from qconv.problem.chain import chain_of
from qconv.problem.convolution import Conv2d
from qconv.tune_db.database import Database
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.child import Child
from qconv.tuner.measure.protocol import WALL_CLOCK
from qconv.tuner.search import compile_ahead
from qconv.tuner.search.tune import Run, tune
from tests.tuner.measure.test_child import HELLO, child

PROBLEM = Conv2d(1, 3, 3, 4, 4, 2, 2)
CPU = open_device("cpu")
# A worker that cannot render: it launches the sources that it gets.
WORKER = """
from qconv import generator
def render(plan):
    raise AssertionError("a worker has rendered")
generator.render = generator.source.render = render
from qconv.tuner.measure.worker import main
main()
"""


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the renderings per config in this process."""
    count, honest = Counter[str](), generator.render

    def render(plan: Plan) -> Source:
        count[plan.config.as_json()] += 1
        return honest(plan)

    for module in (generator, generator.source):
        monkeypatch.setattr(module, "render", render)
    return count


def test_a_trial_renders_once_and_so_does_the_race_behind_it(rendered: Counter[str]) -> None:
    with Database.open("sqlite://") as database:
        with Child(CPU, WALL_CLOCK, 120.0, (sys.executable, "-c", WORKER)) as worker:
            outcome = tune(PROBLEM, CPU, database, trials=3, child=worker)
        rows = database.measurements()
    assert (outcome.measured, outcome.failures) == (3, {})
    assert any(row.protocol is not None and row.protocol["phase"] == "raced" for row in rows)
    assert rendered == dict.fromkeys((row.config.as_json() for row in rows), 1)
    assert {row.digest for row in rows} == {
        generator.render(generator.plan(PROBLEM, row.config, CPU.target)).digest for row in rows
    }


def test_a_failure_renders_no_more(rendered: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object) -> None:
        raise CompileError("line 7: no")

    monkeypatch.setattr(compile_ahead, "build", build)
    with Database.open("sqlite://") as database, Child(CPU, WALL_CLOCK, 120.0) as worker:
        outcome = tune(PROBLEM, CPU, database, trials=3, child=worker)
        rows = database.measurements()
    assert outcome.failures == {"compile": 3}
    assert rendered == dict.fromkeys((row.config.as_json() for row in rows), 1)


def test_what_an_older_template_measured_is_rendered_once_as_well(rendered: Counter[str]) -> None:
    """Once, both to detect that the source has changed and to measure it again."""
    candidate = Candidate.of(generator.default(PROBLEM, CPU.target))
    older = candidate.failed(CPU, compiler_for(CPU.target).toolchain, "runtime", "a bug of an older template")
    rendered.clear()
    nobody: Any = None
    with Database.open("sqlite://") as database:
        database.add(replace(older, digest="older"))
        run = Run(PROBLEM, CPU, database, nobody)
        run.recall([candidate.plan])
    assert run.rows == {}
    assert run.candidate(candidate.plan) == candidate
    assert rendered == {candidate.config.as_json(): 1}


def test_it_crosses_to_another_process_as_it_is() -> None:
    chain = chain_of([PROBLEM, Conv2d(1, 2, 2, 4, 8, 1, 1)])
    for plan in (generator.default(PROBLEM, CPU.target), generator.unfused_plan(chain, CPU.target)):
        sent = Candidate.of(plan)
        assert [source.digest for source in sent.sources] == [generator.render(k).digest for k in plan.kernels]
        assert sent.digest == generator.render(plan).digest
        assert Candidate.from_dict(sent.as_dict(), plan.problem, CPU.target) == sent


def test_a_worker_that_does_not_read_is_given_up_in_time(tmp_path: Path) -> None:
    """However much there is to send: a pipe holds less than the sources of a race."""
    long: Any = Candidate.of(generator.default(PROBLEM, CPU.target))
    long = Candidate(long.plan, (Source("x" * 1_000_000, "0" * 32, ".cpp"),), "0" * 32)
    ended = tmp_path / "ended"
    # A longer wait would see it end by itself.
    program = f"{HELLO}time.sleep(30)\nopen({str(ended)!r}, 'w').close()\n"
    with child(tmp_path, program, timeout_s=0.5) as worker:
        row = worker.measure(long)
    assert (row.outcome, row.digest) == ("timeout", "0" * 32)
    assert not ended.exists(), "the tuner waited until the worker ended, instead of killing it"
