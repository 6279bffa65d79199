"""Random convolutions of floats, and chains of them, under the sanitizers, in the families that multiply them. In
chains with depthwise layers, bugs are planted."""

from __future__ import annotations

import pytest
from mostly_slow import mostly_slow
from random_floats import float_plans

from qconv.device.cpu_runtime import Sanitizer
from qconv.targets.target import TARGETS
from tests.templates.test_floats_random import PLACES
from tests.templates.test_fused_floats import NAMES, PLANS, plans
from tests.templates.test_mma_sanitizers import OVERFLOW, RACE, READ, WRONG, Planted, check_planted
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


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", mostly_slow(PLANS, {"dw, pw"}))
def test_nothing_is_found_in_depthwise_layers(name: str, sanitizer: Sanitizer) -> None:
    check(PLANS[name], sanitizer, list(PLANS).index(name) % 6)


PLANTED = {
    "no barrier between the two": Planted(
        "dw, pw", "        tile::barrier();  // the second's input is there\n", "", "thread", RACE, "conv2d_conv2d"
    ),
    "a column before the image is read": Planted(
        "dw, pw",
        " || (!INSIDE && static_cast<unsigned>(first_column + i) >= IN_W)) continue;",
        ") continue;",
        "address",
        OVERFLOW,
        READ,
    ),
    "a line past the image is asked for": Planted(
        "dw, pw", "if (row >= IN_H || byte >= IN_W * PIXEL) continue;", "", "address", OVERFLOW, READ
    ),
    "channels of the intermediate are a byte apart": Planted(
        "dw, pw", "of_block % Y_CHUNK * sizeof(Output);", "of_block % Y_CHUNK;", "address", "undefined behaviour"
    ),
    "a chunk of the intermediate has 16 channels": Planted(
        "pw, dw", "source.byte[k / X_CHUNK]", "source.byte[k / 16]", "address", WRONG
    ),
    "a word of taps past the last": Planted(
        "dw, pw", "if (index >= R * WORDS * VECTORS * VECTOR) return;", "", "address", OVERFLOW
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(PLANTED, {"a chunk of the intermediate has 16 channels"}))
def test_a_planted_bug_is_found(name: str) -> None:
    check_planted(PLANTED[name], PLANS[PLANTED[name].plan])
