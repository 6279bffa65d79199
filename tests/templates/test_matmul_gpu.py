"""The kernels of matmul on a GPU: random configs of random problems, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_checks import check_random_problems
from random_matmuls import attention, convolution, convolutions, matmuls, of_bytes, transposed

from qconv import generator
from qconv.device import Device
from qconv.expression import MatMul
from qconv.instances.load.pair import load
from qconv.ops import registry

PROBLEMS: dict[str, list[MatMul]] = {
    "matrices": matmuls(5, 40),
    "convolutions": convolutions(5, 30),
    "of many tiles": [
        attention(12, 197, 64),
        of_bytes(32, 1000, 512),
        of_bytes(1, 1000, 2048),
        convolution(2, (28, 28), 64, 96, (3, 3), pad=1),
        convolution(2, (28, 28), 64, 96, (3, 3), stride=2, pad=1, channels_last=False),
        convolution(1, (28, 28), 96, 96, (5, 5), pad=2, groups=96),
        transposed(1, (14, 14), 32, 16, 4, 2),
    ],
}


@pytest.mark.gpu
def test_the_largest_products_on_matrix_instructions(gpu: Device) -> None:
    """The hardware's sums of whole numbers are exact up to 2**24."""
    m, n, k = 130, 70, 258
    do = f"s=sum_of(multiply(to_float32(x0[m0*{k}+k0]),to_float32(x1[n0*{k}+k0])))"
    problem = registry.parse(f"matmul:m={m}:n={n}:k={k}:in=uint8*{m * k},uint8*{n * k}:out=float32:do={do}")
    left, right = np.full((m, k), 255, np.uint8), np.full((n, k), 255, np.uint8)
    left[::3, ::5] = right[::2, ::7] = 254
    for plan in generator.cheapest(problem, gpu.target, 40):
        got = gpu.download(load(plan, gpu)(*(gpu.upload(each.reshape(-1)) for each in (left, right))))
        np.testing.assert_array_equal(got, left.astype(np.int64) @ right.T, str(plan.config))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", PROBLEMS)
def test_random_problems(kind: str, gpu: Device) -> None:
    check_random_problems(PROBLEMS[kind], gpu)
