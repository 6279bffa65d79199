"""Results have the array type of the inputs, for any library."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from foreign import Foreign

import qconv
from qconv.instances.api.array_kinds import as_kind_of

X = np.arange(-32, 32, dtype=np.int8).reshape(1, 4, 4, 4)
W = np.ones((4, 1, 1, 4), np.int8)
SCALES = {"x_scale": 0.5, "w_scale": 0.25, "y_scale": 2.0}


class Tensor(Foreign):
    def __init__(self, array: Any) -> None:
        super().__init__(array)
        self.shape, self.dtype = array.shape, array.dtype

    def view(self, dtype: str) -> Tensor:
        return Tensor(self.array.view(ml_dtypes.bfloat16 if dtype == "its bfloat16" else dtype))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType("tensors")
    made.from_dlpack = lambda array: Tensor(np.from_dlpack(array))  # type: ignore[attr-defined]
    made.bfloat16 = "its bfloat16"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensors", made)
    monkeypatch.setattr(Tensor, "__module__", "tensors.core")
    return made


def test_numpy_gives_numpy() -> None:
    assert type(qconv.conv2d(X, W, **SCALES)) is np.ndarray


def test_another_library_s_array_gives_one_of_that_library(library: ModuleType) -> None:
    want = qconv.conv2d(X, W, **SCALES)
    given = qconv.conv2d(Tensor(X), Tensor(W), **SCALES)
    assert type(given) is Tensor
    assert np.array_equal(given.array, want)


def test_every_array_of_several_is_one(library: ModuleType) -> None:
    given = qconv.quantize_dynamic(Tensor(X.astype(np.float32)))
    assert [type(one) for one in given] == [Tensor] * 3
    assert type(qconv.concat([Tensor(X), Tensor(X)])) is Tensor


def test_what_the_caller_gives_to_write_into_comes_back_itself(library: ModuleType) -> None:
    out = np.empty_like(X)
    assert qconv.unary(Tensor(X), "relu", out=out) is out


def test_bfloat16_travels_as_its_bits(library: ModuleType) -> None:
    array = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    given = as_kind_of(Tensor(X), array)
    assert type(given) is Tensor
    assert np.array_equal(given.array, array)


def test_bits_become_the_library_s_own_type(library: ModuleType) -> None:
    library.float8_e5m2 = ml_dtypes.float8_e5m2  # type: ignore[attr-defined]
    bits = np.array([0x3C, 0x80], np.uint8)
    given = as_kind_of(Tensor(X), bits, "float8_e5m2")
    assert given.array.dtype == ml_dtypes.float8_e5m2
    assert np.array_equal(given.array.view(np.uint8), bits)


def test_a_library_that_takes_nothing_over_gets_the_device_s_array() -> None:
    assert type(qconv.conv2d(Tensor(X), Tensor(W), **SCALES)) is np.ndarray


def test_help_shows_what_a_function_takes() -> None:
    assert list(inspect.signature(qconv.conv2d).parameters)[:3] == ["x", "w", "stride"]
    assert (qconv.conv2d.__doc__ or "").startswith("Quantized convolution")
