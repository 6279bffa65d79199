"""Rows to store: `make(3)` is a correct measurement with the third config; any field can be overridden."""

from __future__ import annotations

import pytest
from measurement_samples import PROBLEM, Make, make_measurement

from qconv.problem.convolution import Conv2d


@pytest.fixture
def make() -> Make:
    return make_measurement


@pytest.fixture
def problem() -> Conv2d:
    return PROBLEM


@pytest.fixture
def other_problem() -> Conv2d:
    return Conv2d(8, 28, 28, 128, 256, 1, 1)
