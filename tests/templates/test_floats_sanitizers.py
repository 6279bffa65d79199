"""Random convolutions of floats, and chains of them, under the sanitizers, in the families that multiply them."""

from __future__ import annotations

import pytest
from random_floats import float_plans

from qconv.device.cpu_runtime import Sanitizer
from qconv.targets.target import TARGETS
from tests.templates.test_floats_random import PLACES
from tests.templates.test_fused_floats import NAMES, plans
from tests.templates.test_simt_sanitizers import check

COUNT = 3


@pytest.mark.turns
@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize(("family", "name"), PLACES)
def test_nothing_is_found(family: str, name: str, sanitizer: Sanitizer) -> None:
    for seed, plan in enumerate(float_plans(family, 3, COUNT, TARGETS[name])):
        check(plan, sanitizer, seed)


@pytest.mark.turns
@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found_in_chains(name: str, sanitizer: Sanitizer) -> None:
    for seed, plan in enumerate(plans(TARGETS[name], 3, COUNT)):
        check(plan, sanitizer, seed)
