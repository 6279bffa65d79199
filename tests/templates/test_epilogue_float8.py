"""Outputs of 8-bit floats on the CPU device beside `ml_dtypes`, over every boundary: ties, denormals, saturation,
infinity and NaN."""

from __future__ import annotations

import numpy as np
import pytest
from float8_boundaries import float8_boundaries

from qconv import Conv2d, Quantization, lookup
from qconv.arithmetic.epilogue import computed
from qconv.dtypes import ELEMENT_TYPES, FLOAT8


@pytest.mark.parametrize("dtype", FLOAT8)
def test_every_boundary_is_rounded_as_ocp_has_it(dtype: str) -> None:
    values = float8_boundaries(dtype) + np.float32(0)  # a sum begins with a positive zero
    values = values[~((np.abs(values) < np.finfo(np.float32).tiny) & (values != 0))]  # a GPU flushes denormal floats
    problem = Conv2d(1, 1, len(values), 1, 1, 1, 1, quantization=Quantization("float32", "float32", dtype))
    x = values.reshape(problem.x_shape)
    y = np.asarray(lookup(problem, "cpu")(x, np.ones(problem.w_shape, np.float32))).ravel()
    kind, most = ELEMENT_TYPES[dtype].numpy, ELEMENT_TYPES[dtype].largest_finite
    want = np.clip(values, -most, most).astype(kind)
    is_nan = np.isnan(values)
    assert (y.view(np.uint8)[is_nan] & 0x7F == 0x7F).all()
    assert np.array_equal(y.view(np.uint8)[~is_nan], want.view(np.uint8)[~is_nan])
    q = problem.quantization
    mirror = computed(q, problem.checked({}), values.reshape(-1, 1)).ravel()
    assert np.array_equal(mirror.view(np.uint8)[~is_nan], y.view(np.uint8)[~is_nan])


@pytest.mark.parametrize("dtype", FLOAT8)
def test_every_number_is_read(dtype: str) -> None:
    kind = ELEMENT_TYPES[dtype].numpy
    every = np.arange(256, dtype=np.uint8).view(kind)
    x = every[np.isfinite(every.astype(np.float32))]
    problem = Conv2d(1, 1, len(x), 1, 1, 1, 1, quantization=Quantization(dtype, dtype, "float32"))
    y = lookup(problem, "cpu")(x.reshape(problem.x_shape), np.ones(problem.w_shape, kind))
    assert np.array_equal(np.asarray(y).ravel(), x.astype(np.float32) + np.float32(0))
