"""Random problems through the families that serve certain layers only, on the CPU device and on the first GPU:
tolerance 0.

Under compute-sanitizer, which also detects errors without wrong results, a few launches suffice:

    compute-sanitizer --tool racecheck python -m pytest tests/templates/test_special_random.py -k sanitizer
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from devices import EVERY_DEVICE
from exactness import check, check_all
from random_special import SHAPES, WITHOUT_WINDOW_SUMS, special_plan, special_problems

from qconv import Conv2d, Quantization, generator
from qconv.device import Device
from qconv.generator import FAMILIES, Plan
from qconv.generator.families.pointwise import Pointwise
from qconv.targets.target import TARGETS, Target

FAST, LONG, CHUNK = 6, 300, 20
FAST_SEED, LONG_SEED = 1, 2
CPU, MATRICES = TARGETS["cpu"], TARGETS["cpu.sm_80"]
TARGET = {
    **dict.fromkeys(("depthwise", "gemv"), CPU),
    **dict.fromkeys(("direct", "stem", "pointwise"), MATRICES),
    "wgmma": TARGETS["cpu.sm_90a"],
    "tcgen05": TARGETS["cpu.sm_100a"],
    "halo": TARGETS["cpu.sm_90a"],
    "halo_split": TARGETS["cpu.sm_90a"],
    "stem_wgmma": TARGETS["cpu.sm_90a"],
}
ROLES = {
    **dict.fromkeys(("depthwise", "gemv"), "gathers"),
    "direct": "fills",
    "stem": "quads",
    "pointwise": "shifts",
    "wgmma": "borders",
    "tcgen05": "borders",
    "halo": "borders",
    "halo_split": "borders",
    "stem_wgmma": "pads",
}


def plans(family: str, seed: int, count: int, first: int, target: Target | None = None) -> list[Plan]:
    """Return plans for the family's target of the CPU device, or for a GPU's."""
    chosen = list(enumerate(special_problems(family, seed, count)))[first : first + CHUNK]
    return [special_plan(family, problem, target or TARGET[family], index) for index, problem in chosen]


def check_on(gpu: Device, family: str, first: int, count: int) -> None:
    if family in ("direct", "stem", "pointwise") and not any(i.name == "mma_m16n8k32" for i in gpu.target.instructions):
        pytest.skip(f"{gpu.target.name} has no mma.m16n8k32")
    if family in ("wgmma", "halo", "halo_split", "stem_wgmma") and gpu.target.warpgroup is None:
        pytest.skip(f"{gpu.target.name} has no wgmma")
    if family == "tcgen05" and gpu.target.tensor_memory is None:
        pytest.skip(f"{gpu.target.name} has no tensor memory")
    for index, plan in enumerate(plans(family, LONG_SEED, LONG, first, gpu.target)[:count], first):
        check(plan, gpu, seed=index)


@pytest.mark.turns
@pytest.mark.parametrize("family", SHAPES)
def test_a_random_config(family: str) -> None:
    check_all(plans(family, FAST_SEED, FAST, 0)[:FAST], 0)


@pytest.mark.parametrize("c", [1, 3])
def test_stem_rows_of_a_single_tap(c: int) -> None:
    """Its dilation must not affect the kernel, which reads words past the only tap, nor the plan."""
    problem = Conv2d(1, 12, 12, c, 24, 2, 1, dilation=(1, 3))
    check_all([special_plan("stem", problem, MATRICES, seed) for seed in range(1)], 0)


@pytest.mark.many
@pytest.mark.parametrize("first", range(0, LONG, CHUNK))
@pytest.mark.parametrize("family", SHAPES)
@pytest.mark.parametrize("device", EVERY_DEVICE, indirect=True)
def test_many_random_configs(device: Device, family: str, first: int) -> None:
    if device.target.vendor == "cpu":
        check_all(plans(family, LONG_SEED, LONG, first), first)
    else:
        check_on(device, family, first, CHUNK)


@pytest.mark.gpu
@pytest.mark.parametrize("family", SHAPES)
def test_a_few_for_the_sanitizer(family: str, gpu: Device) -> None:
    check_on(gpu, family, 0, 4)


def features(plan: Plan) -> set[tuple[str, Any]]:
    q, problem = plan.problem.quantization, plan.problem  # type: ignore[attr-defined]
    return {
        *((name, getattr(plan.config, name)) for name in FAMILIES[plan.config.family].choices),
        ("shape", (problem.groups, problem.c_group, problem.k_group)),
        ("types", (q.x_type, q.w_type)),
        ("output", q.out_type),
        ("residual", q.residual),
        ("zero points", (q.x_zero_point, q.w_zero_point)),
        ("strides", problem.stride),
        *((name, role) for name, role in vars(plan.roles).items() if isinstance(role, bool)),
    }


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("residual", ["none", "int8"])
def test_the_widest_slab_of_pointwise(residual: str) -> None:
    problem = Conv2d(2, 9, 9, 32, 128, 1, 1, quantization=Quantization(per_channel=True, residual=residual))
    made, _ = generator.space(problem, MATRICES)
    wide = [plan for plan in made if isinstance(plan.config, Pointwise) and plan.config.atoms == 16]
    check_all(wide[:: len(wide) // 4], 0)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("family", SHAPES)
def test_the_many_have_every_choice_and_kind(family: str) -> None:
    many = [plan for first in range(0, LONG, CHUNK) for plan in plans(family, LONG_SEED, LONG, first)]
    seen = Counter(feature for plan in many for feature in features(plan))
    wanted = {(name, value) for name, values in FAMILIES[family].choices.items() for value in values}
    wanted |= {("shape", shape) for shape in SHAPES[family]}
    wanted |= {("types", (x, w)) for x in ("int8", "uint8") for w in ("int8", "uint8")}
    wanted |= {("output", out) for out in ("int8", "uint8", "int32", "float32", "float16")}
    # A weight zero point needs the sums of the inputs' windows, which these do not compute.
    of_weights = (False,) if family in WITHOUT_WINDOW_SUMS else (False, True)
    wanted |= {("zero points", (x, w)) for x in (False, True) for w in of_weights}
    wanted |= {(ROLES[family], flag) for flag in (False, True)}
    if family == "pointwise":
        wanted.remove(("atoms", 16))  # 19 of the problems could: see the test below
    if family == "depthwise":
        wanted.remove(("vector", 2))  # a word of two halves: see test_floats_random
    missing = {feature for feature in wanted if not seen[feature]}
    assert not missing, f"{missing} never occur in {LONG} problems"
