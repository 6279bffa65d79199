"""qconv.bench, from Python."""

from __future__ import annotations

import pytest

import qconv
from qconv import benchmark

PROBLEM = qconv.Conv2d(1, 6, 6, 8, 8, 3, 3, pad=1)


def test_a_problem_or_its_key_is_verified_and_timed() -> None:
    found = qconv.bench(PROBLEM.key, "cpu", seed=1)
    assert found.instance.problem == PROBLEM
    assert len(found.times_us) == found.protocol.repeats
    assert min(found.times_us) <= found.time_us <= max(found.times_us)
    assert found.tops == pytest.approx(2 * 36 * 8 * 8 * 9 / found.time_us / 1e6)
    assert found.gb_per_s == pytest.approx(PROBLEM.io_bytes / found.time_us / 1e3)
    assert found.facts == found.instance.device.facts()


def test_a_wrong_output_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "mismatch", lambda *_: "y[0] is 1; it must be 2")
    monkeypatch.setattr(benchmark, "measure", lambda *_: pytest.fail("it was timed"))
    with pytest.raises(qconv.WrongOutput, match=r"conv2d:n=1.* seed=7: y\[0\] is 1"):
        qconv.bench(PROBLEM, "cpu", seed=7)
