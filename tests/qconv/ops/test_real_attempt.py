"""Data of convolutions of floats: sums exact in any order, numbers that the types hold, and full-range data for
timing."""

from __future__ import annotations

import numpy as np
import pytest
from random_floats import TYPES, float_chains, float_problems

from qconv import Conv2d, Quantization
from qconv.dtypes import ELEMENT_TYPES, FLOAT8
from qconv.ops import registry
from qconv.ops.convolution import accumulate
from qconv.ops.real_attempt import MOST_FACTOR, MOST_SUM, MOST_SUM_OF_8_BITS
from qconv.targets.target import TARGETS


def unit_of(array: np.ndarray) -> float:
    """Return the power of two of which all numbers are multiples."""
    values = np.abs(array.astype(np.float64))
    _, exponents = np.frexp(values[values > 0])
    scaled = values * 2.0 ** -(exponents.min() - 12)
    assert np.array_equal(scaled, np.rint(scaled))
    divisor = np.gcd.reduce(scaled.astype(np.int64).ravel())
    return float(divisor & -divisor) * 2.0 ** (exponents.min() - 12)


@pytest.mark.parametrize("seed", range(3))
def test_every_sum_is_exact_in_any_order(seed: int) -> None:
    for problem in float_problems("simt", seed, 8, TARGETS["cpu"]):
        drawn = registry.draw(problem, seed)
        x, w = (array.astype(np.float64) for array in drawn.arrays[:2])
        units = unit_of(x) * unit_of(w)
        magnitudes = accumulate(problem, np.abs(x), np.abs(w), problem.checked(drawn.parameters))
        q = problem.quantization
        most = MOST_SUM_OF_8_BITS if q.x_type in FLOAT8 or q.w_type in FLOAT8 else MOST_SUM
        assert magnitudes.max() <= most * units


def test_a_sum_that_is_too_long_has_zeros() -> None:
    long = Conv2d(1, 2, 2, 20_000, 8, 1, 1, quantization=Quantization(*FLOAT8, "float32"))
    drawn = registry.draw(long, 1)
    w = drawn.arrays[1].astype(np.float32).reshape(8, -1)
    assert (np.count_nonzero(w, axis=1) <= MOST_SUM_OF_8_BITS).all()


@pytest.mark.parametrize("dtype", MOST_FACTOR)
def test_a_type_holds_its_whole_numbers(dtype: str) -> None:
    most = MOST_FACTOR[dtype]
    whole = np.arange(-most, most + 1, dtype=np.float32)
    assert np.array_equal(whole.astype(ELEMENT_TYPES[dtype].numpy).astype(np.float32), whole)


def test_operands_use_the_digits_that_their_type_has() -> None:
    """Products of few terms have factors of many digits."""
    for x_type, w_type in TYPES:
        problem = Conv2d(1, 8, 8, 4, 16, 1, 1, quantization=Quantization(x_type, w_type, "float32"))
        largest = [0.0, 0.0]
        for seed in range(12):
            for at, array in enumerate(registry.draw(problem, seed).arrays):
                values = np.abs(array.astype(np.float64))
                largest[at] = max(largest[at], float(values.max() / unit_of(array)))
        assert largest[0] > MOST_FACTOR[x_type] / 4, (x_type, largest)
        assert largest[1] > MOST_FACTOR[w_type] / 4, (w_type, largest)


def test_what_another_convolution_reads_is_whole_or_one_element_of_it_is_read() -> None:
    for problem in float_chains(5, 8, TARGETS["cpu.sm_90a"]):
        drawn = registry.draw(problem, 3)
        first, second = problem.layers.values()
        if first.quantization.activation in ("none", "relu", "relu6"):
            continue
        w = drawn.arrays[2].astype(np.float32).reshape(second.k, -1)
        assert (np.count_nonzero(w, axis=1) == 1).all()


def test_launches_are_timed_with_numbers_of_the_full_range() -> None:
    problem = Conv2d(1, 16, 16, 64, 64, 1, 1, quantization=Quantization("float16", "float16", "float16"))
    drawn = registry.draw(problem, 1)
    assert [array.shape for array in drawn.timed] == [array.shape for array in drawn.arrays]
    assert [array.dtype for array in drawn.timed] == [array.dtype for array in drawn.arrays]
    assert len(np.unique(drawn.timed[0])) > 4096
    assert registry.draw(Conv2d(1, 16, 16, 64, 64, 1, 1), 1).timed == ()
