"""Random problems on the CPU device and on the first GPU, compared with the oracle bit for bit: both run the same
source."""

from __future__ import annotations

import pytest
from devices import EVERY_DEVICE
from exactness import check, random_plan
from random_problems import problems

from qconv import Conv2d, generator
from qconv.device import Device, open_device
from qconv.errors import DeviceError
from qconv.targets.target import TARGETS

FAST = problems(seed=1, count=60)
LONG = problems(seed=2, count=300)
SMALL = Conv2d(1, 5, 4, 8, 12, 3, 3, pad=1)
EMULATIONS = [name for name, target in TARGETS.items() if target.vendor == "cpu" and name != "cpu"]


@pytest.mark.turns
@pytest.mark.parametrize("first", range(0, len(FAST), 5))
def test_a_random_config(first: int) -> None:
    device = open_device("cpu")
    for index, problem in enumerate(FAST[first : first + 5], first):
        check(random_plan(problem, device, index), device, seed=index)


@pytest.mark.parametrize("spec", EMULATIONS)
def test_an_emulated_architecture(spec: str) -> None:
    """The device has the architecture's target; the plain one executes its plans too."""
    device, index = open_device(spec), EMULATIONS.index(spec)
    assert (device.spec, device.target, device.name.split()[0]) == (spec, TARGETS[spec], spec)
    assert open_device(spec) is device
    plan = generator.default(SMALL, device.target)
    check(plan, device, seed=index)
    check(plan, open_device("cpu"), seed=index)


def test_an_architecture_that_nothing_emulates_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"'cpu.sm_86' is not known; use cpu.sm_75, .*, cpu, cuda, cuda:N, hip or"):
        open_device("cpu.sm_86")


def test_an_emulated_architecture_is_named_by_a_gpu_too() -> None:
    assert open_device("CPU.H100") is open_device("cpu.sm_90a")


@pytest.mark.parametrize(
    ("spec", "emulated"), [("h100", "cpu.sm_90a"), ("Orin", "cpu.sm_80"), ("gfx1151", "cpu.gfx1100")]
)
def test_a_target_is_no_device(spec: str, emulated: str) -> None:
    says = (
        f"the device '{spec}' is a target, not a device: it is compiled for with --target, and {emulated} emulates it"
    )
    with pytest.raises(DeviceError, match=f"{says}; use cpu.sm_75, "):
        open_device(spec)


@pytest.mark.parametrize("spec", ["vulkan:0", "tpu:0", "cuda:", "cuda:first", ":0"])
def test_a_device_that_nobody_knows_is_refused(spec: str) -> None:
    with pytest.raises(DeviceError, match=f"'{spec}' is not known; use "):
        open_device(spec)


@pytest.mark.many
@pytest.mark.parametrize("first", range(0, len(LONG), 10))
@pytest.mark.parametrize("device", EVERY_DEVICE, indirect=True)
def test_the_default_and_a_random_config(first: int, device: Device) -> None:
    for index, problem in enumerate(LONG[first : first + 10], first):
        check(generator.default(problem, device.target), device, seed=index)
        check(random_plan(problem, device, index), device, seed=index)
