"""GPUs are found by any spelling of the name that their vendor or their driver gives them."""

from __future__ import annotations

import re

import pytest

from qconv.targets.gpu_names import GPU_NAMES, architecture_of_gpu, near_names, plain
from qconv.targets.target import NAME_OF_VENDOR, TARGETS

NAMES = [name for names in GPU_NAMES.values() for name in names]


def test_every_target_of_a_product_has_names() -> None:
    """No product of sm_88 is known."""
    assert {name for name, entry in TARGETS.items() if entry.vendor != "cpu"} - set(GPU_NAMES) == {"sm_88"}


def test_a_name_is_of_one_architecture_and_of_nothing_else() -> None:
    assert len({plain(name) for name in NAMES}) == len(NAMES)
    assert not {plain(name) for name in (*TARGETS, *GPU_NAMES)} & {plain(name) for name in NAMES}
    for architecture in GPU_NAMES:
        assert any(re.fullmatch(NAME_OF_VENDOR[vendor], architecture) for vendor in ("nvidia", "amd"))


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("h100", "sm_90a"),
        ("NVIDIA H100 80GB HBM3", "sm_90a"),
        ("NVIDIA H200", "sm_90a"),
        ("NVIDIA A100-SXM4-80GB", "sm_80"),
        ("Tesla T4", "sm_75"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "sm_89"),
        ("NVIDIA RTX 6000 Ada Generation", "sm_89"),
        ("Quadro RTX 6000", "sm_75"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "sm_120"),
        ("NVIDIA GB10", "sm_121"),
        ("Orin", "sm_87"),
        ("Jetson AGX Orin", "sm_87"),
        ("NVIDIA Thor", "sm_110a"),
        ("AMD Instinct MI300X", "gfx942"),
        ("AMD Radeon RX 7900 XTX", "gfx1100"),
        ("AMD Radeon 8060S Graphics", "gfx1151"),
        ("Strix Halo", "gfx1151"),
        ("strix_point", "gfx1150"),
        ("V100", "sm_70"),
        ("h1", None),
        ("nvidia", None),
        ("", None),
    ],
)
def test_a_gpu_is_known_however_it_is_spelled(name: str, architecture: str | None) -> None:
    assert architecture_of_gpu(name) == architecture


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("h10", ("h100",)),
        ("rtx4900", ("rtx4090",)),
        ("strix", ("strix-point", "strix-halo")),
        ("mi300", ("mi300x", "mi300a")),
        ("h300", ()),  # as far from h100 as from h200
        ("rtx", ()),  # a part of too many
        ("x", ()),
    ],
)
def test_few_names_are_near(name: str, near: tuple[str, ...]) -> None:
    assert near_names(name, NAMES) == near
