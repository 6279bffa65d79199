"""The memory and the time of looked-up kernels."""

from __future__ import annotations

import pytest

from qconv import generator
from qconv.instances.load.needs import Needs, needs_of
from qconv.ops.registry import problem_of
from qconv.targets.target import target

CONV = problem_of("conv2d:n=1:h=8:w=8:c=16:k=32:r=3:s=3:x_type=int8:w_type=int8:out_type=int8")
POOL = problem_of("max_pool:n=1:h=8:w=8:c=16:r=2:s=2:x_type=int8")


def test_weights_count_with_the_values_per_channel() -> None:
    needs = Needs.of(generator.default(CONV, target("sm_80")))
    assert needs.weight_bytes >= 32 * 3 * 3 * 16
    assert needs.weight_bytes <= 32 * 3 * 3 * 16 + 32 * 4 * 8
    assert needs.predicted_us is not None
    assert 0.1 < needs.predicted_us < 100


def test_a_pool_has_no_weights_and_no_predicted_time() -> None:
    assert Needs.of(generator.default(POOL, target("sm_80"))) == Needs()


def test_a_layer_needs_what_its_kernels_need() -> None:
    one, both = needs_of([CONV], "cpu"), needs_of([CONV, POOL, CONV], "cpu")
    assert both.weight_bytes == 2 * one.weight_bytes > 0
    assert one.predicted_us is None, "cost models are of GPUs"
    assert needs_of([], "cpu") == Needs()


@pytest.mark.parametrize("name", ["sm_80", "gfx942"])
def test_scratch_is_a_workspace(name: str) -> None:
    problem = problem_of("conv2d:n=1:h=4:w=4:c=4096:k=16:r=1:s=1:x_type=int8:w_type=int8:out_type=int8")
    plans, _ = generator.space(problem, target(name), likely=True)
    split = next(plan for plan in plans if plan.scratch)
    assert Needs.of(split).workspace_bytes == 4 * sum(field.elements for field in split.scratch)
