"""A measurement is checked when it is created: value, rule, remedy."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from qconv.problem.convolution import Conv2d
from qconv.tune_db.measurement import NOISE, Measurement, best_of, best_of_each, complexity, ranked

Make = Callable[..., Measurement]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"problem": "conv2d:n=1"}, "must be a qconv"),
        ({"config": {"family": "simt"}}, "must be a qconv"),
        ({"device": ""}, "device='' must be text"),
        ({"target": None}, "target=None must be text"),
        ({"toolchain": "a\0b"}, "toolchain='a.*must be text"),
        ({"digest": "\ud800"}, "digest=.*must be text"),
        ({"outcome": "ok"}, "outcome='ok' is not one of correct, constraints, compile"),
        ({"reason": "slow"}, "only failures have one"),
        ({"times_us": ()}, "time the kernel before storing it"),
        ({"median_us": None}, "time the kernel before storing it"),
        ({"times_us": (1.0, math.inf), "median_us": 1.0}, "finite number, positive"),
        ({"times_us": (1.0, math.nan), "median_us": 1.0}, "finite number, positive"),
        ({"times_us": (0.0, 1.0), "median_us": 1.0}, "finite number, positive"),
        ({"times_us": 1.0, "median_us": 1.0}, "must be a list"),
        ({"times_us": "1.0", "median_us": 1.0}, "must be a list"),
        ({"times_us": (1.0, 2.0), "median_us": 3.0}, r"median_us=3.0 lies outside its times_us \(1.0 to 2.0\)"),
        ({"times_us": (1.0, 2.0), "median_us": True}, "median_us is True"),
        ({"registers": -1}, "registers=-1 must be an integer between 0"),
        ({"spill_bytes": 1.0}, "spill_bytes=1.0 must be an integer"),
        ({"smem_bytes": True}, "smem_bytes=True must be an integer"),
        ({"compile_ms": -0.5}, "compile_ms is -0.5"),
        ({"protocol": ["events"]}, "must be a mapping"),
        ({"protocol": {"a": object()}}, "cannot be written as JSON"),
        ({"protocol": {"a": math.inf}}, "cannot be written as JSON"),
        ({"created_at": datetime(2026, 1, 1)}, "with its zone"),
        ({"created_at": "2026-01-01"}, "with its zone"),
        ({"outcome": "compile", "reason": None}, "say why it failed"),
        ({"outcome": "compile", "reason": " "}, "say why it failed"),
        ({"outcome": "runtime", "times_us": (1.0,)}, "only correct kernels are timed"),
        ({"outcome": "timeout", "median_us": 1.0, "times_us": ()}, "only correct kernels are timed"),
    ],
)
def test_what_cannot_be_is_refused(make: Make, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make(**given)


def test_values_take_their_plain_form(make: Make) -> None:
    there = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    protocol = {"sizes": (1, 2)}
    m = make(times_us=[1, 2, 3], median_us=2, created_at=there, protocol=protocol)
    protocol["sizes"] = ()
    assert m.times_us == (1.0, 2.0, 3.0)
    assert isinstance(m.median_us, float)
    assert m.created_at == there
    assert m.created_at.tzinfo is UTC
    assert m.protocol == {"sizes": [1, 2]}
    assert hash(m) == hash(make(times_us=[1, 2, 3], median_us=2, created_at=there, protocol=None))


def test_a_reason_is_kept_whatever_it_holds(make: Make) -> None:
    assert make(outcome="compile", reason="a\0b\ud800c").reason == "a\ufffdb?c"


def test_unknown_is_none_and_now_is_the_default(problem: Conv2d, make: Make) -> None:
    before = datetime.now(UTC)
    m = Measurement(problem, make().config, "cpu", "cpu", "g++ 12", "d", "runtime", "signal 11")
    assert (m.times_us, m.median_us, m.registers, m.compile_ms, m.protocol) == ((), None, None, None, None)
    assert before <= m.created_at <= datetime.now(UTC)


def test_best_is_simple_among_the_fastest(make: Make) -> None:
    by_complexity = sorted((make(n) for n in range(40)), key=lambda m: complexity(m.config))
    simple, large = by_complexity[0].config, by_complexity[-1].config
    assert complexity(simple) < complexity(large)
    fast = make(config=large, median_us=10.0)
    tied = make(config=simple, median_us=10.0 * (1 + NOISE))
    slower = make(config=simple, median_us=10.2)
    assert best_of([fast, tied]) == best_of([tied, fast]) == tied
    assert best_of([fast, slower]) == fast
    assert best_of([make(outcome="runtime"), slower]) == slower
    assert best_of([make(outcome="runtime")]) is best_of([]) is None


def test_what_was_only_screened_is_the_best_only_where_nothing_else_is(make: Make) -> None:
    lucky = make(0, median_us=1.0, protocol={"phase": "screened"})
    luckier = make(1, median_us=0.9, protocol={"phase": "screened"})
    full = make(2, median_us=10.0)
    assert best_of([lucky, full, luckier]) == full
    assert best_of([lucky, luckier]) == luckier
    assert ranked([lucky, make(outcome="runtime"), full, luckier]) == [full, luckier, lucky]


def test_best_does_not_depend_on_the_order(make: Make) -> None:
    rows = [make(digest=digest, median_us=median) for digest in ("b", "a") for median in (10.0,)]
    assert best_of(rows) == best_of(rows[::-1]) == rows[1]


def test_best_of_each(make: Make, other_problem: Conv2d) -> None:
    rows = [make(0, median_us=2.0), make(1, median_us=1.0), make(0, device="AMD"), make(0, problem=other_problem)]
    assert best_of_each([*rows, make(3, device="none", outcome="compile")]) == [rows[2], rows[1], rows[3]]


@pytest.mark.turns
@pytest.mark.parametrize("module", ["qconv.tune_db", "qconv.tune_db.measurement", "qconv.tune_db.text"])
def test_reading_shipped_winners_imports_no_sqlalchemy(module: str) -> None:
    code = f"import sys, {module}; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_package_gives_the_database_when_asked() -> None:
    import qconv.tune_db
    from qconv.tune_db.database import Database

    assert qconv.tune_db.Database is Database
    with pytest.raises(AttributeError, match="no attribute 'database_'"):
        _ = qconv.tune_db.database_


@pytest.mark.parametrize("name", ["device", "target", "toolchain", "digest"])
def test_each_part_makes_another_key(make: Callable[..., Measurement], name: str) -> None:
    assert make(0).key != make(0, **{name: "another"}).key
    assert make(0).key == make(0, median_us=20.0).key
