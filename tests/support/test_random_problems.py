"""The random problems cover all kinds of problems: an uncovered feature would be untested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from random_problems import FLAGS, MOST_OPERATIONS, OUT_TYPES, RESIDUALS, X_TYPES, problems

from qconv.arithmetic.quantization import ACTIVATIONS, BIASES
from qconv.ops.registry import parse
from qconv.problem.convolution import Conv2d
from tests.templates.test_simt_random import FAST, LONG

Feature = Callable[[Conv2d], Any]


def of(name: str) -> Feature:
    return lambda problem: getattr(problem.quantization, name)


def is_depthwise(problem: Conv2d) -> bool:
    return problem.groups == problem.c > 1


# Features of every set of 60 problems, and the least share of problems that must have each.
FEATURES: dict[str, tuple[Feature, tuple[Any, ...], float]] = {
    "x_type": (of("x_type"), X_TYPES, 0.4),
    "w_type": (of("w_type"), X_TYPES, 0.4),
    "out_type": (of("out_type"), OUT_TYPES, 0.08),
    "bias": (of("bias"), BIASES, 0.2),
    "activation": (of("activation"), ACTIVATIONS, 0.05),
    "residual": (of("residual"), RESIDUALS, 0.15),
    "residual_zero_point": (of("residual_zero_point"), FLAGS, 0.1),
    "per_channel": (of("per_channel"), (False, True), 0.4),
    "x_zero_point": (of("x_zero_point"), (False, True), 0.4),
    "w_zero_point": (of("w_zero_point"), (False, True), 0.4),
    "y_zero_point": (of("y_zero_point"), (False, True), 0.2),
    "r": (lambda p: p.r, tuple(range(1, 8)), 0.05),
    "s": (lambda p: p.s, tuple(range(1, 8)), 0.05),
    "stride h": (lambda p: p.stride[0], (1, 2, 3), 0.2),
    "stride w": (lambda p: p.stride[1], (1, 2, 3), 0.2),
    "dilation h": (lambda p: p.dilation[0], (1, 2, 3), 0.2),
    "dilation w": (lambda p: p.dilation[1], (1, 2, 3), 0.2),
    "groups": (lambda p: p.groups, (1, 2, 3, 4, 8), 0.05),
    "depthwise": (is_depthwise, (True,), 0.1),
    "depthwise multiplier": (lambda p: is_depthwise(p) and p.k // p.c, (1, 2, 3), 0.03),
    "padded": (lambda p: any(p.pad), (False, True), 0.2),
    "asymmetric": (lambda p: p.pad[:2] != p.pad[2:], (False, True), 0.2),
    "c of a group, modulo 4": (lambda p: p.c_group % 4, (0, 1, 2, 3), 0.03),
    "16-byte loads": (lambda p: p.c_group % 16 == 0, (False, True), 0.1),
    "k of a group, modulo 4": (lambda p: p.k_group % 4, (0, 1, 2, 3), 0.03),
    "one input channel": (lambda p: p.c_group == 1, (False, True), 0.03),
    "one output channel": (lambda p: p.k_group == 1, (False, True), 0.03),
    "more channels than a tile": (lambda p: p.k_group > 128, (False, True), 0.03),
    "several images": (lambda p: p.n > 1, (False, True), 0.1),
}


@pytest.mark.parametrize("chosen", [FAST, LONG], ids=["fast", "long"])
@pytest.mark.parametrize("name", FEATURES)
def test_every_value_of_every_feature_appears_often(chosen: list[Conv2d], name: str) -> None:
    feature, values, share = FEATURES[name]
    seen = Counter(feature(problem) for problem in chosen)
    rare = {value: seen[value] for value in values if seen[value] < share * len(chosen)}
    assert not rare, f"{name}: {dict(seen)} in {len(chosen)} problems"


def test_they_are_reproducible_and_new_with_each_seed() -> None:
    assert problems(1, 60) == FAST
    assert len({*FAST, *LONG}) == len(FAST) + len(LONG)


def test_they_are_small_and_have_keys() -> None:
    for problem in (*FAST, *LONG):
        assert problem.operations <= MOST_OPERATIONS or problem.pixels <= 12
        assert parse(str(problem)) == problem
