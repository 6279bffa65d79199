"""PyTorch's quantized::conv2d_add and conv2d_add_relu (only the engine onednn has them), with full-range data and at
tolerance 0, on the parameters of test_qconv2d_add and on wider ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest
from exactness import assert_same, expected
from scales import VARIANTS
from torch_engine import chosen, infer, is_compiled, narrowed, saturates

from qconv import Conv2d, Quantization
from qconv.ops import registry

MOST_OPERATIONS = 12_000_000


@pytest.fixture
def narrow() -> Iterator[bool]:
    with chosen("onednn"):
        yield saturates()


def quantized(rng: random.Random, bias: bool, relu: bool, zero: bool, per_channel: bool) -> Quantization:
    return Quantization.of(
        "torch-onednn",
        x_type="uint8",
        out_type="uint8",
        x_zero_point=True,
        y_zero_point=rng.random() < 0.5,
        per_channel=per_channel,
        bias="float32" if bias else "none",
        activation="relu" if relu else "none",
        residual="uint8",
        residual_zero_point=zero,
    )


def theirs() -> list[Conv2d]:
    """Return the grid of test_qconv2d_add and test_qconv2d_add_relu; ten groups of two channels run oneDNN's
    reference."""
    rng = random.Random("test_qconv2d_add")
    flags = itertools.product((False, True), repeat=4)
    return [Conv2d(3, 10, 10, 2, 2, 3, 3, quantization=quantized(rng, *chosen)) for chosen in flags]


def wider(count: int) -> list[Conv2d]:
    rng = random.Random("conv2d_add")
    made: list[Conv2d] = []
    while len(made) < count:
        groups = rng.choice((1, 1, 1, 2, 4, 10, "depthwise"))
        if groups == "depthwise":
            groups = c = k = rng.choice((8, 16, 24, 33))
        else:
            c, k = (groups * rng.choice((1, 2, 3, 4, 5, 8, 16, 17, 32, 64)) for _ in range(2))
        r, s, dilation = rng.randint(1, 5), rng.randint(1, 5), rng.randint(1, 2)
        spans = ((r - 1) * dilation + 1, (s - 1) * dilation + 1)
        pad = (rng.randint(0, spans[0] - 1), rng.randint(0, spans[1] - 1)) * 2
        problem = Conv2d(
            rng.randint(1, 3),
            max(rng.randint(2, 20), spans[0]),
            max(rng.randint(2, 20), spans[1]),
            *(c, k, r, s),
            stride=(rng.randint(1, 2), rng.randint(1, 2)),
            dilation=dilation,  # type: ignore[arg-type]
            pad=pad,
            groups=groups,
            quantization=quantized(rng, *(rng.random() < 0.5 for _ in range(4))),
        )
        if problem.operations <= MOST_OPERATIONS and is_compiled(problem):
            made.append(problem)
    return made


@pytest.mark.turns
@pytest.mark.parametrize("scales", VARIANTS)
@pytest.mark.parametrize("problems", [theirs(), wider(150)], ids=["theirs", "wider"])
def test_the_engine(narrow: bool, problems: list[Conv2d], scales: str) -> None:
    for index, problem in enumerate(problems):
        drawn = VARIANTS[scales](problem, registry.draw(problem, index), index)
        drawn = narrowed(drawn) if narrow else drawn
        assert_same(infer(problem, drawn), expected(problem, drawn), f"seed {index}: {problem}")
