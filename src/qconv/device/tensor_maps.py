"""Tensor maps as kernels take them: NVIDIA's opaque CUtensorMap, which the driver encodes and CuPy does not wrap, and
the plain description that the CPU device reads."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qconv.device import launch_attributes, thread_context
from qconv.errors import LaunchError
from qconv.generator.tensor_map import CHUNK, TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, PixelBox, TensorMap

# `TensorMap` of cpu_tensor.h: address; strides; dimensions; box, or channels and pixels; lower and upper corners;
# element strides; rank, bytes per element, swizzle, whether it is im2col.
DESCRIPTION = struct.Struct("<Q4Q5I5H3h3h5B4B")

# CUtensorMapDataType, which has no signed bytes. The type only affects reductions and the fill of floats.
ELEMENT_TYPES = {
    "int8": 0,
    "uint8": 0,
    "int16": 1,
    "uint16": 1,
    "int32": 3,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "tfloat32": 7,
    "float64": 8,
    "bfloat16": 9,
    "bool": 0,
    "float8_e4m3fn": 0,
    "float8_e5m2": 0,
}
NO_INTERLEAVE, FILL_ZEROS = 0, 0  # CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle
L2_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}  # CUtensorMapL2promotion


@dataclass(frozen=True)
class DriverArguments:
    """The arguments of the driver's function that encodes a map, but for the address."""

    type: int
    rank: int
    swizzle: int
    l2_promotion: int
    lists: tuple[tuple[int, ...], ...]  # dimensions, strides, box, element strides, lower and upper corners
    is_im2col: bool
    channels: int
    pixels: int

    @classmethod
    def of(cls, made: TensorMap) -> DriverArguments:
        pixels = made.pixel_box or PixelBox((), (), 0, 0)
        return cls(
            ELEMENT_TYPES[made.dtype],
            made.rank,
            SWIZZLES[made.swizzle],
            L2_PROMOTIONS[made.l2_promotion],
            (made.dims, made.strides, made.box, made.element_strides, pixels.lower, pixels.upper),
            made.pixel_box is not None,
            pixels.channels,
            pixels.pixels,
        )


def described(tensor_map: TensorMap, address: int) -> bytes:
    """Return the description for the CPU device. It begins with the address, as a pointer."""
    _check_address(tensor_map, address)
    corners = tensor_map.pixel_box or PixelBox((), (), 0, 0)
    box = tensor_map.box or (corners.channels, corners.pixels)
    content = DESCRIPTION.pack(
        address,
        *_filled(tensor_map.strides, 4),
        # 2^32, the largest dimension of the driver, exceeds any array here.
        *_filled([min(extent, 2**32 - 1) for extent in tensor_map.dims], 5),
        *_filled(box, 5),
        *_filled(corners.lower, 3),
        *_filled(corners.upper, 3),
        *_filled(tensor_map.element_strides, 5),
        tensor_map.rank,
        tensor_map.element_bytes,
        tensor_map.swizzle,
        tensor_map.pixel_box is not None,
    )
    return content.ljust(TENSOR_MAP_BYTES, b"\0")


def encoded(tensor_map: TensorMap, address: int) -> bytes:
    """Return the map that NVIDIA's driver encodes, for GPUs from Hopper on."""
    _check_address(tensor_map, address)
    whole = ctypes.create_string_buffer(TENSOR_MAP_BYTES + TENSOR_MAP_ALIGNMENT)
    at = -ctypes.addressof(whole) % TENSOR_MAP_ALIGNMENT
    made = ctypes.c_void_p(ctypes.addressof(whole) + at)
    array = (
        ctypes.c_int(ELEMENT_TYPES[tensor_map.dtype]),
        ctypes.c_uint32(tensor_map.rank),
        ctypes.c_void_p(address),
        _array(ctypes.c_uint64, tensor_map.dims),
        _array(ctypes.c_uint64, tensor_map.strides),
    )
    rest = (
        _array(ctypes.c_uint32, tensor_map.element_strides),
        ctypes.c_int(NO_INTERLEAVE),
        ctypes.c_int(SWIZZLES[tensor_map.swizzle]),
        ctypes.c_int(L2_PROMOTIONS[tensor_map.l2_promotion]),
        ctypes.c_int(FILL_ZEROS),
    )
    pixels = tensor_map.pixel_box
    arguments: tuple[Any, ...]
    if pixels is None:
        encode = launch_attributes.driver().cuTensorMapEncodeTiled
        arguments = (made, *array, _array(ctypes.c_uint32, tensor_map.box), *rest)
    else:
        encode = launch_attributes.driver().cuTensorMapEncodeIm2col
        corners = _array(ctypes.c_int, pixels.lower), _array(ctypes.c_int, pixels.upper)
        sizes = ctypes.c_uint32(pixels.channels), ctypes.c_uint32(pixels.pixels)
        arguments = (made, *array, *corners, *sizes, *rest)
    status = encode(*arguments)
    if status == thread_context.INVALID_CONTEXT:
        thread_context.give()
        status = encode(*arguments)
    if status:
        raise LaunchError(f"the driver refuses {tensor_map} at {address:#x}: {launch_attributes.reason(status)}")
    return whole.raw[at : at + TENSOR_MAP_BYTES]


def _check_address(tensor_map: TensorMap, address: int) -> None:
    if address % CHUNK:
        raise ValueError(
            f"{tensor_map.array} lies at address {address:#x}; its tensor map needs {CHUNK}-byte alignment: copy it"
        )


def _filled(values: Sequence[int], length: int) -> tuple[int, ...]:
    return (*values, *(0,) * (length - len(values)))


def _array(kind: Any, values: Sequence[int]) -> Any:
    return (kind * len(values))(*values)
