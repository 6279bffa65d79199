"""Runs of ONNX Runtime with tensors of 8-bit floats, which its interface to NumPy does not have: they are passed by
address."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto

from qconv.dtypes import ELEMENT_TYPES

# The type by ONNX Runtime's name of it, and its number in ONNX.
TYPES = {
    "tensor(float8e4m3fn)": ("float8_e4m3fn", TensorProto.FLOAT8E4M3FN),
    "tensor(float8e5m2)": ("float8_e5m2", TensorProto.FLOAT8E5M2),
}
NUMBERS = dict(TYPES.values())


def has_float8(session: onnxruntime.InferenceSession) -> bool:
    return any(value.type in TYPES for value in (*session.get_inputs(), *session.get_outputs()))


def run(session: onnxruntime.InferenceSession, wanted: Sequence[str], feeds: Mapping[str, Any]) -> list[Any]:
    """Return the outputs as NumPy's arrays, of 8-bit floats as well."""
    given = {name: _value_of(np.ascontiguousarray(array)) for name, array in feeds.items()}
    return [_array_of(value) for value in session.run_with_ort_values(wanted, given)]


def _value_of(array: Any) -> Any:
    number = NUMBERS.get(str(array.dtype))
    if number is None:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint8), number)


def _array_of(value: Any) -> Any:
    if value.data_type() not in TYPES:
        return value.numpy()
    dtype, _ = TYPES[value.data_type()]
    shape = tuple(value.shape())
    size = int(np.prod(shape))
    bits = np.frombuffer(ctypes.string_at(value.data_ptr(), size), np.uint8)
    return bits.copy().view(ELEMENT_TYPES[dtype].numpy).reshape(shape)
