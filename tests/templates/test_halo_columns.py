"""The page `halo` with neighbouring input columns as the channels of one pixel, on the CPU device."""

from __future__ import annotations

import pytest
from mostly_slow import mostly_slow

from qconv import Conv2d, Quantization, generator
from qconv.device import Device
from tests.templates.test_fences import LATE, LeftOut, check_left_out, finding
from tests.templates.test_halo import HALF, check_on, plan_of
from tests.templates.test_mma_sanitizers import WRONG, check
from tests.templates.test_wgmma import ADDED, EARLY, EVERYTHING, SUM

PLANS = {
    # The first layer of a residual network with padded channels, and with a zero point at the borders.
    "seven taps": plan_of(Conv2d(2, 22, 52, 16, 64, 7, 7, stride=2, pad=3, quantization=Quantization())),
    "borders": plan_of(Conv2d(2, 37, 38, 24, 40, 3, 3, stride=2, pad=(1, 2, 0, 1), quantization=EVERYTHING)),
    "residuals": plan_of(Conv2d(3, 18, 32, 32, 64, 3, 3, stride=(1, 2), pad=1, quantization=ADDED), rows=4),
    "half a row": plan_of(Conv2d(2, 26, 32, 8, 40, 5, 3, stride=(1, 2), pad=(0, 1, 2, 3), quantization=SUM), rows=4),
    "pixel rows": plan_of(
        Conv2d(2, 66, 34, 48, 80, 3, 3, stride=2, pad=1, quantization=SUM), rows=8, consumers=3, channels=80
    ),
    "columns of four": plan_of(Conv2d(1, 33, 48, 12, 21, 2, 6, stride=(1, 4), pad=(1, 3, 0, 2), quantization=HALF)),
    # Pixels loaded by lanes: together, the columns are not a multiple of 16 bytes either.
    "copied": plan_of(Conv2d(1, 37, 38, 18, 40, 3, 3, stride=2, pad=1, quantization=EVERYTHING)),
    # One tap is left of the filter, and rows that lanes load are a stride apart.
    "one tap, copied": plan_of(Conv2d(6, 33, 20, 18, 40, 1, 2, stride=2, pad=(2, 0, 2, 0), quantization=EVERYTHING)),
    "one tap, within words": plan_of(Conv2d(6, 34, 42, 5, 33, 1, 3, stride=(2, 3), pad=(1, 0, 1, 0), quantization=SUM)),
    "within words": plan_of(Conv2d(4, 13, 45, 5, 33, 3, 4, stride=(2, 3), pad=(1, 1, 1, 2), quantization=SUM)),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_left_out(name: str) -> None:
    plan = PLANS[name]
    assert plan.merged_columns is not None
    assert plan.tiles >= 2 * plan.config.consumers * plan.blocks
    assert [finding(plan, generator.render(plan).text, seed) for seed in (LATE, EARLY)] == [None, None]


LEFT_OUT = {
    "the columns of zeros before a filter": LeftOut("seven taps", "c / X_C - ZERO_COLUMNS", "c / X_C", WRONG),
    "the columns of zeros behind it": LeftOut(
        "columns of four", "if (column < 0 || column >= FILTER_W)", "if (column < 0)", f"{WRONG}|out of"
    ),
    "which column a channel is of": LeftOut("borders", "MERGED_COLUMNS + c / X_C", "MERGED_COLUMNS", WRONG),
    "how many columns a tap has": LeftOut(
        "columns of four", "tap % S * MERGED_COLUMNS", "tap % S * 2", f"{WRONG}|out of"
    ),
    "where a row of a filter begins": LeftOut("borders", "tap / S * FILTER_W", "tap / S * S", WRONG),
    "the channel within its column": LeftOut("pixel rows", "X_C + c % X_C", "X_C", WRONG),
    "the stride between tiles of one tap": LeftOut("one tap, copied", "return row() * STRIDE_H", "return row()", WRONG),
    "the stride between rows of one tap": LeftOut(
        "one tap, within words", "/ WINDOW_W * ROW_STEP", "/ WINDOW_W", WRONG
    ),
    "which of its products borders lose": LeftOut(
        "borders", "sum += weight_of(args, k, tap, c)", "sum += weight_of(args, k, 0, c)", WRONG
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_is_found(name: str) -> None:
    check_left_out(PLANS[LEFT_OUT[name].plan], LEFT_OUT[name])


RUNS = {
    f"{name}-{sanitizer}": (name, sanitizer, seed)
    for sanitizer, seed in (("address", LATE), ("thread", EARLY))
    for name in PLANS
}


@pytest.mark.turns
@pytest.mark.parametrize("run", mostly_slow(RUNS, {"borders-address", "within words-address"}))
def test_nothing_is_found(run: str) -> None:
    name, sanitizer, seed = RUNS[run]
    check(PLANS[name], sanitizer, seed)  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.parametrize("name", PLANS)
def test_plans_for_the_sanitizer(name: str, gpu: Device) -> None:
    check_on(gpu, PLANS[name])
