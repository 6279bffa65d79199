"""A value of a model: its type and rank before the run, and its array during one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from onnx import TensorProto

from qconv.device import Device

# The element types that the kernels support.
TYPE_NAMES: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "uint8",
    TensorProto.INT16: "int16",
    TensorProto.UINT16: "uint16",
    TensorProto.INT32: "int32",
}


class Unsupported(ValueError):
    """The backend cannot run the model. The message names what it lacks, and what it has."""


def type_name(number: int) -> str:
    """Return this project's name of an element type, or ONNX's in lower case."""
    return TYPE_NAMES.get(number) or str(TensorProto.DataType.Name(number)).lower()


@dataclass(frozen=True)
class Known:
    """The type and rank of a value, known before the run."""

    dtype: str
    rank: int | None


class Held:
    """An array on the side where it was made, and a cached copy on the other."""

    def __init__(self, device: Device, host: Any = None, there: Any = None) -> None:
        self._device = device
        self._host = host
        self._there = there

    @cached_property
    def on_host(self) -> Any:
        return self._device.download(self._there) if self._host is None else self._host

    @cached_property
    def on_device(self) -> Any:
        # Copy even on the CPU device: the caller's array may have any address and strides.
        return self._device.upload(np.asarray(self._host, order="C")) if self._there is None else self._there
