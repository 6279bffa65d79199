"""Outputs whose pixels are channels of the convolution, stored by every family that has such a store: tolerance 0."""

from __future__ import annotations

import random

import pytest
from exactness import check
from random_transposed import quantized_layers

from qconv import Conv2d, Quantization, generator
from qconv.device.cpu import CpuDevice
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tuner.measure import sanitized

FULL = Quantization("uint8", "int8", "uint8", True, True, False, True, "int32", "relu6")
ADDED = Quantization(per_channel=True, residual="int8", activation="relu")
SUMS = Quantization(out_type="float32", x_zero_point=True)
# Each has channels of a pixel that fill no vector, vectors or whole rows; pixels cropped on some sides; or groups.
PROBLEMS = {
    "a filter as large as the stride": Conv2d(2, 8, 9, 32, 4 * 48, 1, 1, pixel_shuffle=2, quantization=FULL),
    "phases": Conv2d(2, 5, 6, 48, 4 * 32, 2, 2, pad=1, pixel_shuffle=2, crop=1, quantization=FULL),
    "three by two": Conv2d(1, 6, 5, 16, 6 * 5, 2, 3, pixel_shuffle=(3, 2), crop=(2, 0, 0, 1), quantization=SUMS),
    "one output": Conv2d(1, 9, 8, 64, 16, 3, 3, pad=1, pixel_shuffle=4, crop=(0, 3, 2, 0)),
    "only a crop": Conv2d(2, 9, 8, 32, 40, 1, 1, crop=(1, 2, 3, 0)),
    "a residual": Conv2d(2, 6, 7, 16, 4 * 12, 2, 2, pixel_shuffle=2, crop=(1, 0, 0, 1), quantization=ADDED),
    "groups": Conv2d(1, 6, 7, 24, 3 * 4 * 8, 2, 2, groups=3, pixel_shuffle=2, crop=1, quantization=FULL),
}
TARGET_NAMES = ("cpu", "cpu.sm_80", "cpu.sm_90a", "cpu.sm_100a", "cpu.gfx942", "cpu.gfx1100")
NO_STORE = ("direct", "stem", "depthwise", "gemv", "pointwise", "tcgen05")


def plans_of(problem: Conv2d, target: str) -> dict[str, Plan]:
    """Return a random plan of each family that serves the problem."""
    by_family: dict[str, list[Plan]] = {}
    for plan in generator.space(problem, TARGETS[target], likely=True)[0]:
        by_family.setdefault(plan.config.family, []).append(plan)
    draw = random.Random(f"{problem} {target}")
    return {family: draw.choice(plans) for family, plans in by_family.items()}


@pytest.mark.turns
@pytest.mark.parametrize("target", TARGET_NAMES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_family_puts_channels_where_pixels_are(name: str, target: str) -> None:
    for seed, plan in enumerate(plans_of(PROBLEMS[name], target).values()):
        check(plan, CpuDevice(plan.target, seed=seed), seed)


def test_the_fast_families_serve_them() -> None:
    found = {family for target in TARGET_NAMES for family in plans_of(PROBLEMS["phases"], target)}
    assert found == {"simt", "mma", "wgmma", "halo", "halo_split"}


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 10))
def test_many_transposed_convolutions(first: int) -> None:
    for seed, layer in enumerate(quantized_layers(2, first + 10)[first:], first):
        plans = plans_of(layer.phases, TARGET_NAMES[seed % len(TARGET_NAMES)])
        plan = list(plans.values())[seed // len(TARGET_NAMES) % len(plans)]
        check(plan, CpuDevice(plan.target, seed=seed % 6), seed)


SANITIZED = {"phases": "cpu.sm_90a", "three by two": "cpu.sm_80", "one output": "cpu.sm_90a", "a residual": "cpu"}


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", SANITIZED)
def test_nothing_is_found(name: str, sanitizer: sanitized.Sanitizer) -> None:
    for plan in plans_of(PROBLEMS[name], SANITIZED[name]).values():
        assert sanitized.mismatch(plan, registry.draw(plan.problem, 5), sanitizer) is None, plan.config


@pytest.mark.parametrize("family", NO_STORE)
def test_a_family_that_stores_pixels_in_their_order_says_so(family: str) -> None:
    config = generator.FAMILIES[family].config
    first = config(**{name: values[0] for name, values in generator.FAMILIES[family].choices.items()})
    with pytest.raises(Infeasible, match=r"stores a convolution's pixels in their order.* use simt, mma"):
        generator.plan(PROBLEMS["phases"], first, TARGETS["sm_80"])
