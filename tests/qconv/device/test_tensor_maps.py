"""The driver calls for a tensor map, recorded by a stand-in in C; and the CPU device's reading of it."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from qconv import Conv2d
from qconv.device import launch_attributes, open_device, tensor_maps
from qconv.dtypes import ELEMENT_TYPES
from qconv.errors import LaunchError
from qconv.generator.tensor_map import TensorMap, im2col, matrix

# The declarations of cuda.h; the arguments become the first 16 words of the map.
DRIVER = """
#include <stdint.h>
typedef struct { uint64_t words[16]; } Map;
static int fill(Map* map, int type, uint32_t rank, void* address, const uint64_t* dims, const uint64_t* strides) {
    if (type < 0 || (uintptr_t)map % 64 != 0) return 1;
    map->words[0] = (uint64_t)(uintptr_t)address;
    map->words[1] = (uint64_t)type << 8 | rank;
    for (uint32_t i = 0; i < 2; ++i) map->words[2 + i] = dims[i];
    map->words[4] = strides[0];
    return 0;
}
static int end(Map* map, const uint32_t* steps, int interleave, int swizzle, int promotion, int fill_with) {
    map->words[5] = steps[0] | steps[1] << 8;
    map->words[6] = interleave << 24 | swizzle << 16 | promotion << 8 | fill_with;
    return 0;
}
int cuTensorMapEncodeTiled(Map* map, int type, uint32_t rank, void* address, const uint64_t* dims,
                           const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave,
                           int swizzle, int promotion, int fill_with) {
    if (fill(map, type, rank, address, dims, strides)) return 1;
    map->words[7] = (uint64_t)box[0] << 32 | box[1];
    return end(map, steps, interleave, swizzle, promotion, fill_with);
}
int cuTensorMapEncodeIm2col(Map* map, int type, uint32_t rank, void* address, const uint64_t* dims,
                            const uint64_t* strides, const int* lower, const int* upper, uint32_t channels,
                            uint32_t pixels, const uint32_t* steps, int interleave, int swizzle, int promotion,
                            int fill_with) {
    if (fill(map, type, rank, address, dims, strides)) return 1;
    map->words[7] = (uint64_t)channels << 32 | pixels;
    for (int i = 0; i < 2; ++i) map->words[8 + i] = (uint64_t)(int64_t)lower[i];
    for (int i = 0; i < 2; ++i) map->words[10 + i] = (uint64_t)(int64_t)upper[i];
    return end(map, steps, interleave, swizzle, promotion, fill_with);
}
int cuGetErrorString(int status, const char** text) { *text = "invalid argument"; return 0; }
"""
WEIGHTS = matrix("w", "int32", 40, 320, 8, 32, 128)
PIXELS = im2col(Conv2d(1, 9, 7, 64, 32, 3, 2, stride=(2, 3), dilation=(1, 3), pad=(1, 2, 2, 4)), 64, 128, 64)
ADDRESS = 0x7F00_0000_1230


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    cc = shutil.which("cc") or shutil.which("gcc")
    if cc is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    subprocess.run([cc, "-std=c11", "-O2", "-shared", "-fPIC", "driver.c", "-o", "driver.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(Path(folder, "driver.so")))


@pytest.fixture
def encoded(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_attributes, "driver", lambda: library)


def words(content: bytes) -> tuple[int, ...]:
    assert len(content) == 128
    return struct.unpack("16q", content)


@pytest.mark.usefixtures("encoded")
def test_a_tile_as_the_driver_reads_it() -> None:
    got = words(tensor_maps.encoded(WEIGHTS, ADDRESS))
    no_more = (0,) * 8
    assert got == (ADDRESS, 3 << 8 | 2, 320, 40, 1280, 0x101, 3 << 16 | 2 << 8, 32 << 32 | 8, *no_more)


@pytest.mark.usefixtures("encoded")
def test_im2col_as_the_driver_reads_it() -> None:
    got = words(tensor_maps.encoded(PIXELS, ADDRESS))
    corners = (-2, -1, 4 - 3, 2 - 2)
    assert got == (ADDRESS, 4, 64, 7, 64, 0x301, 2 << 16 | 2 << 8, 64 << 32 | 128, *corners, 0, 0, 0, 0)


@pytest.mark.usefixtures("encoded")
def test_what_the_driver_refuses_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tensor_maps.ELEMENT_TYPES, "int32", -1)
    says = r"the driver refuses TensorMap\(array='w', .* at 0x7f0000001230: CUDA error 1, invalid argument"
    with pytest.raises(LaunchError, match=says):
        tensor_maps.encoded(WEIGHTS, ADDRESS)


@pytest.mark.parametrize("of", [tensor_maps.encoded, tensor_maps.described])
def test_an_array_begins_with_a_whole_chunk(of: Callable[[TensorMap, int], bytes]) -> None:
    with pytest.raises(ValueError, match="w lies at address 0x7f0000001238; its tensor map needs 16-byte alignment"):
        of(WEIGHTS, ADDRESS + 8)


def test_the_cpu_device_is_given_a_description() -> None:
    content = open_device("cpu.sm_90a").encode(PIXELS, ADDRESS)
    assert len(content) == 128
    address, *rest = tensor_maps.DESCRIPTION.unpack_from(content)
    assert address == ADDRESS
    assert rest == [
        *(64, 448, 4032, 0, 64, 7, 9, 1, 0, 64, 128, 0, 0, 0),
        *(-2, -1, 0, 1, 0, 0, 1, 3, 2, 1, 0, 4, 1, 64, 1),
    ]


def test_every_element_type_has_one_of_the_driver() -> None:
    assert tensor_maps.ELEMENT_TYPES.keys() == ELEMENT_TYPES.keys()
