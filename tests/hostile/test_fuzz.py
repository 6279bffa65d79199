"""Damaged, absurd and malicious input, by seeds: a few hundred cases here, 10^5 in the slow suite.

Every past failure is stored in vectors.json with its input, so that later changes of the draws do not lose it.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.hostile import batch
from tests.hostile.judge import Refused, Surface, Wrong, judge
from tests.hostile.surfaces import EVERY, SURFACES

ROOT = Path(__file__).parents[2]
VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text())
# Seeds per surface in the fast suite: together they take as long as the ops of one network.
FEW = {
    "keys": 150,
    "configs": 100,
    "rows": 60,
    "commands": 60,
    "databases": 12,
    "entries": 20,
    "workloads": 60,
    "folders": 200,
    "samples": 150,
}


@pytest.mark.parametrize("name", FEW)
def test_a_few(name: str) -> None:
    found = batch.run(SURFACES[name], 0, FEW[name])
    assert found["failures"] == []
    assert found["refused"] > 0
    assert found["taken"] > 0


@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_what_failed_once(number: int) -> None:
    vector = VECTORS[number]
    outcome = judge(SURFACES[vector["surface"]], zlib.decompress(base64.b64decode(vector["input"])))
    assert outcome == vector["outcome"], vector["was"]


def said_by(*arguments: str) -> str:
    """Return the output of a separate process that has the surfaces' imports."""
    path = f"{ROOT}:{ROOT / 'tests' / 'support'}:{ROOT / 'tests' / 'repository'}"
    environment = {**batch.ENVIRONMENT, "PYTHONPATH": path}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", SURFACES)
def test_many(name: str) -> None:
    """Run in a separate process, which a crash or a hang ends."""
    surface = SURFACES[name]
    found = json.loads(said_by("-m", "tests.hostile.batch", name, "1000000", str(surface.cases)))
    assert found["failures"] == []
    assert found["refused"] + found["taken"] == surface.cases


@pytest.mark.slow
def test_nothing_reads_the_environment_beside_a_case() -> None:
    """A case writes the environment, and glibc's getenv in another thread could then read freed memory."""
    count = "len(os.listdir('/proc/self/task'))"
    program = f"import os, numpy; before = {count}; import tests.hostile.surfaces; print({count} - before)"
    assert said_by("-c", program) == "0\n"


def test_there_are_enough() -> None:
    assert sum(surface.cases for surface in EVERY) >= 100_000


def takes(*outcomes: Exception | None) -> Surface:
    left = list(outcomes)

    def take(_: bytes) -> None:
        if (outcome := left.pop(0)) is not None:
            raise outcome

    return Surface("own", lambda rng: b"%d" % rng.randrange(10), take, len(outcomes))


def test_the_judge_tells_a_refusal_from_an_accident() -> None:
    """A refusal of the right type that this file raises is not qconv's; the judge distinguishes them."""
    for accident in (KeyError("x"), ValueError("of this file, not of qconv"), RecursionError("deep"), SystemExit(3)):
        with pytest.raises(Wrong):
            judge(takes(accident), b"")
    assert judge(takes(Refused()), b"") == "refused"
    assert judge(takes(None), b"") == "taken"
    assert judge(SURFACES["keys"], b"conv2d:n=0") == "refused"
    found = batch.run(takes(None, KeyError("x"), None), 0, 3)
    assert (found["taken"], found["wrong"], [failure["seed"] for failure in found["failures"]]) == (2, 1, [1])


@pytest.mark.parametrize("message", ["no", "'NoneType' object is not iterable", "a b c d \x1b[31m", "a b c " * 500])
def test_what_is_no_sentence(message: str) -> None:
    from tests.hostile.judge import check_sentence

    with pytest.raises(Wrong):
        check_sentence(message)
