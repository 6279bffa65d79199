"""Maps encoded by a GPU's driver load and store the same bytes as NumPy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from random_tiles import random_case
from tensor_kernels import Case, Kind, difference, source_of

from qconv.device import Device
from qconv.device.compile import compile_source
from qconv.errors import LaunchError

pytestmark = pytest.mark.gpu

CASES: list[tuple[Kind, int]] = [(kind, seed) for kind in ("load", "store") for seed in range(16)]


def run(case: Case, device: Device) -> str | None:
    if not device.target.tensor_maps:
        pytest.skip(f"{device.target.name} copies nothing by tensor maps")
    binary = compile_source(source_of(case, device.target), device.target, ("move",))
    return difference(case, *case.on(device, device.load(case.plan(device.target), binary)))


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_tiles_lie_where_numpy_puts_them(kind: Kind, seed: int, gpu: Device) -> None:
    assert run(random_case(seed, kind), gpu) is None


def test_what_the_driver_refuses_is_said_in_words(gpu: Device) -> None:
    if not gpu.target.tensor_maps:
        pytest.skip(f"{gpu.target.name} copies nothing by tensor maps")
    tensor_map = random_case(0, "load").tensor_map
    wrong = replace(tensor_map)
    object.__setattr__(wrong, "strides", tuple(stride + 1 for stride in tensor_map.strides))
    with pytest.raises(LaunchError, match="the driver refuses TensorMap"):
        gpu.encode(wrong, 1 << 20)
