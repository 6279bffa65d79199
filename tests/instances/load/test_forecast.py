"""Forecasts: the choice for a GPU that is not here, and its time, measured or expected."""

from __future__ import annotations

import json

import pytest
from called import document_here, here

from qconv import Conv2d, generator, parse
from qconv.instances.choose import shipped
from qconv.instances.load.forecast import forecast
from qconv.targets.target import target
from qconv.tuner.report.roofline import floor_us

H200 = "NVIDIA H200"
UNTUNED = Conv2d(16, 28, 28, 192, 256, 3, 3, pad=1)


def test_a_shipped_winner_has_its_measured_time() -> None:
    (layer, *_) = shipped.layers()
    row = next(row for row in layer.measurements(target="sm_90a") if row.config.family == "halo")
    made = forecast(row.problem, target("sm_90a"))
    assert (made.device, made.choice.origin, made.choice.plan.config) == (H200, "exact", row.config)
    assert made.choice.measured_us == row.median_us
    assert made.time == f"measured: {row.median_us:.2f} us"


def test_a_layer_that_nobody_tuned_has_an_expected_time() -> None:
    made = forecast(UNTUNED, target("sm_90a"))
    assert (made.choice.origin != "exact", made.choice.measured_us) == (True, None)
    assert made.expected is not None
    assert floor_us(UNTUNED, H200) < made.expected.us < 100  # type: ignore[operator]
    assert made.time == f"expected: {made.expected}"


def test_a_gpu_to_which_no_model_is_fitted_has_a_config_and_no_time() -> None:
    made = forecast(UNTUNED, target("sm_80"))
    assert (made.device, made.expected) == ("", None)
    assert made.choice.plan == generator.default(UNTUNED, target("sm_80"))
    assert "is not known" in made.time


def test_the_command_needs_no_gpu_and_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qconv.device.compile.compile_source", None)
    said = here("lookup", UNTUNED.key, "--target", "h200").stdout
    assert f"on {H200} (sm_90a): " in said
    assert "expected: " in said
    assert f"no kernel is faster than {floor_us(UNTUNED, H200):.2f} us" in said
    found = document_here("lookup", UNTUNED.key, "--target", "a100")
    assert (found["device"], found["expected_us"], found["floor_us"]) == (None, None, None)
    assert parse(found["problem"]) == UNTUNED
    assert json.dumps(found["config"])


def test_a_device_and_a_target_are_not_both_given() -> None:
    refused = here("lookup", UNTUNED.key, "--target", "h200", "--device", "cpu")
    assert refused.returncode == 2
    assert "give one" in refused.stderr
