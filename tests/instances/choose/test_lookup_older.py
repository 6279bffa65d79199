"""Lookup with measurements whose templates have changed since."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from qconv import Conv2d, generator
from qconv.generator import Plan
from qconv.instances.choose.lookup import ABOUT_AS_FAST, choose
from qconv.targets.target import target
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import Measurement
from qconv.tune_db.text import TextLayer, dump

PROBLEM = Conv2d(1, 14, 14, 64, 64, 3, 3, pad=1)
TARGET = target("sm_90a")
PLANS = generator.space(PROBLEM, TARGET, likely=True)[0]


class H200:
    name, target = "NVIDIA H200", TARGET


def row(plan: Plan, median_us: float, digest: str | None = None) -> Measurement:
    return Measurement(
        problem=PROBLEM,
        config=plan.config,
        device=H200.name,
        target=TARGET.name,
        toolchain="nvrtc 13.0",
        digest=digest or generator.render(plan).digest,
        outcome="correct",
        times_us=(median_us,),
        median_us=median_us,
        created_at=datetime(2026, 11, 21, tzinfo=UTC),
    )


@pytest.mark.parametrize(("today_us", "wins"), [(10.0 * ABOUT_AS_FAST, "today"), (10.1 * ABOUT_AS_FAST, "older")])
def test_a_row_of_todays_goes_first_only_where_it_is_about_as_fast(today_us: float, wins: str) -> None:
    older, today = PLANS[3], PLANS[5]
    rows = [row(older, 10.0, "0" * 32), row(today, today_us)]
    choice = choose(PROBLEM, H200(), Layered([TextLayer(dump(rows), "rows.json")]))
    assert (choice.origin, choice.toolchain) == ("exact", "nvrtc 13.0")
    assert choice.plan == {"older": older, "today": today}[wins]
    assert ("on an older template" in choice.reason) == (wins == "older")
