"""Random convolutions of floats through every family that multiplies them, on the CPU device and on the first GPU. The
data's sums are exact in any order, so that the tolerance is 0."""

from __future__ import annotations

import pytest
from exactness import check, check_all
from random_floats import float_plans

from qconv.device import Device
from qconv.targets.target import TARGETS

FAST, LONG, CHUNK = 12, 300, 20
PLACES = (
    ("simt", "cpu"),
    ("depthwise", "cpu"),
    *(("direct", name) for name in ("cpu.sm_80", "cpu.sm_90a")),
    *(("mma", name) for name in ("cpu.sm_80", "cpu.sm_90a", "cpu.gfx942", "cpu.gfx950", "cpu.gfx1201")),
    *(("stem", name) for name in ("cpu.sm_80", "cpu.sm_90a")),
    *((family, "cpu.sm_90a") for family in ("wgmma", "halo", "halo_split", "stem_wgmma")),
)


@pytest.mark.turns
@pytest.mark.parametrize(("family", "name"), PLACES)
def test_a_random_config(family: str, name: str) -> None:
    check_all(float_plans(family, 1, FAST, TARGETS[name]), 0)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, LONG, CHUNK))
@pytest.mark.parametrize(("family", "name"), PLACES)
def test_many_random_configs(family: str, name: str, first: int) -> None:
    check_all(float_plans(family, 2, LONG, TARGETS[name])[first : first + CHUNK], first)


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(0, LONG, CHUNK))
@pytest.mark.parametrize("family", ["simt", "depthwise", "direct", "mma", "wgmma", "halo", "halo_split"])
def test_many_random_configs_on_the_gpu(family: str, first: int, gpu: Device) -> None:
    if family not in ("simt", "depthwise", "direct", "mma") and not gpu.target.generation.warpgroup_of_floats:
        pytest.skip(f"{gpu.target.name} has no wgmma")
    for index, plan in enumerate(float_plans(family, 2, LONG, gpu.target)[first : first + CHUNK], first):
        check(plan, gpu, seed=index)
