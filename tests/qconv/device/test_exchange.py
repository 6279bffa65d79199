"""Two axes that change places, as NumPy has it: on the devices, and by the text of a GPU's kernel, compiled for the CPU
with a thread for each of its own."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qconv.device import Device, exchange
from qconv.device.cpu_runtime import find_compiler

DEVICES = ("cpu", pytest.param("gpu", marks=pytest.mark.gpu))
SHAPES = [
    *((2, 3, 5000), (1, 3, 4), (5, 3, 49), (3, 1, 7), (4, 7, 1), (2, 16, 196), (1, 64, 316), (2, 33, 144)),
    *((3, 50, 3), (2, 49, 208), (1, 1, 1), (2, 409, 5), (7, 2, 4), (2, 31, 132), (1, 500, 40), (1, 4, 1027)),
]
LARGE = [(2, 3, 50176), (1, 64, 3136), (3, 50176, 3), (2, 49, 2048), (0, 3, 5), (70000, 2, 4)]

# What CUDA gives a kernel, for one block at a time.
CUDA = """
#include <algorithm>
#include <barrier>
#include <thread>
#include <vector>
#define __global__
#define __launch_bounds__(x)
#define __shared__ static
#define __align__(x) __attribute__((aligned(x)))
struct Place { unsigned x, y; };
thread_local Place threadIdx;
Place blockIdx, gridDim;
std::barrier<>* together;
void __syncthreads() { together->arrive_and_wait(); }
using std::min;
"""
RUN = """
extern "C" void run(const void* x, void* y, unsigned across, unsigned down, const unsigned* n) {
    gridDim = {across, down};
    std::barrier<> barrier(THREADS);
    together = &barrier;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < THREADS; ++t) {
        threads.emplace_back([=] {
            threadIdx = {t, 0};
            for (unsigned block = 0; block < across * down; ++block) {
                if (t == 0) blockIdx = {block % across, block / across};
                __syncthreads();
                exchange((const Element*)x, (Element*)y, n[0], n[1], n[2], n[3], n[4], n[5]);
            }
        });
    }
    for (auto& thread : threads) thread.join();
}
"""


def expected(x: Any) -> Any:
    return x.transpose(0, 2, 1)


def drawn(shape: tuple[int, ...], dtype: str) -> Any:
    return np.random.default_rng(5).integers(-100, 100, shape).astype(dtype)


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "int32", "float32", "float64"])
def test_the_last_two_axes_change_places(dtype: str, device: Device) -> None:
    for shape in (*SHAPES, *LARGE):
        x = drawn(shape, dtype)
        y = device.download(device.exchanged(device.upload(x)))
        assert y.flags.c_contiguous
        np.testing.assert_array_equal(y, expected(x), str(shape))


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("first", [1, 2, 4])
def test_an_array_may_begin_anywhere(first: int, device: Device) -> None:
    held = drawn((4 + 2 * 3 * 64,), "int8")
    x: Any = device.upload(held)[first : first + 2 * 3 * 64].reshape(2, 3, 64)
    wanted = expected(held[first : first + 2 * 3 * 64].reshape(2, 3, 64))
    np.testing.assert_array_equal(device.download(device.exchanged(x)), wanted)


@pytest.mark.parametrize("item_bytes", exchange.ELEMENTS)
def test_the_kernel_of_a_gpu(item_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MOST_OUTERS", 2)  # so that a block has several
    (tmp_path / "kernel.cpp").write_text(CUDA + exchange.text_of(item_bytes) + RUN)
    built = tmp_path / "kernel.so"
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", "-Wno-unknown-pragmas"]
    command = [find_compiler().path, *flags, str(tmp_path / "kernel.cpp"), "-o", str(built)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    run = ctypes.CDLL(str(built)).run
    in_words = 0
    for shape in SHAPES:
        x = drawn(shape, f"int{8 * item_bytes}")
        y = np.full((shape[0], shape[2], shape[1]), 111, x.dtype)
        (across, down), numbers = exchange.launch_of(shape, item_bytes, x.ctypes.data)
        held = (ctypes.c_uint * len(numbers))(*numbers)
        run(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), across, down, held)
        np.testing.assert_array_equal(y, expected(x), str(shape))
        in_words += numbers[-1]
    assert in_words == (5 if item_bytes == 1 else 0)


def test_words_are_read_where_words_lie() -> None:
    of_bytes = [exchange.launch_of((1, 3, 64), 1, address)[1][-1] for address in range(5)]
    assert of_bytes == [1, 0, 0, 0, 1]
    assert exchange.launch_of((1, 3, 66), 1, 0)[1][-1] == 0
