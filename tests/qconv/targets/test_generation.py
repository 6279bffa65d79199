"""Generations: each includes its predecessor's features, and a broken one is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from qconv.targets.generation import AMPERE, BLACKWELL, CDNA_2, HOPPER, TURING
from qconv.targets.instruction_tables import MFMA_32X32X16, MMA_M8N8K16, ON_THE_CPU, SDOT4


def test_a_generation_keeps_the_features_of_those_before() -> None:
    assert TURING.features < AMPERE.features < HOPPER.features <= BLACKWELL.features


def test_emulated_on_the_cpu_it_has_the_same_instructions_and_features() -> None:
    emulated = HOPPER.emulated()
    assert (emulated.name, emulated.vendor, emulated.dots) == ("Hopper on the CPU", "cpu", ON_THE_CPU)
    assert (emulated.instructions, emulated.features) == (HOPPER.instructions, HOPPER.features)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vendor": "intel"}, "vendor 'intel'"),
        ({"features": frozenset({"tensor_memory"})}, r"features \['tensor_memory'\]: not among async_copies, "),
        ({"warp_size": 16}, "warp_size=16"),
        ({"registers_per_sm": 0}, "registers_per_sm=0: limits are positive"),
        ({"dots": (SDOT4,)}, "dots='sdot4': a product of amd's; use one of nvidia's"),
        ({"instructions": (MMA_M8N8K16, MMA_M8N8K16)}, "each is listed once"),
        ({"instructions": (MFMA_32X32X16,)}, "mfma_i32_32x32x16_i8 has 64 lanes: a warp here has 32"),
    ],
)
def test_a_broken_generation_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(HOPPER, **change)


def test_features_of_nvidia_are_refused_on_amd() -> None:
    with pytest.raises(ValueError, match=r"CDNA 2: features \['clusters'\]: no kernel here has them on AMD"):
        replace(CDNA_2, features=frozenset({"clusters"}))
