"""Arrays are moved and compared as by NumPy: on the devices, and by the text of a GPU's kernels, compiled for the CPU
with one thread per GPU thread."""

from __future__ import annotations

import ast
import ctypes
import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qconv.device import Device, array_kernels
from qconv.device.compile import build_array_kernels
from qconv.device.cpu_runtime import find_compiler
from qconv.errors import CompileError, KernelMissing
from qconv.targets.target import target

DEVICES = ("cpu", pytest.param("gpu", marks=pytest.mark.gpu))
SHAPES = [
    *((2, 3, 5000), (1, 3, 4), (5, 3, 49), (3, 1, 7), (4, 7, 1), (2, 16, 196), (1, 64, 316), (2, 33, 144)),
    *((3, 50, 3), (2, 49, 208), (1, 1, 1), (2, 409, 5), (7, 2, 4), (2, 31, 132), (1, 500, 40), (1, 4, 1027)),
]
LARGE = [(2, 3, 50176), (1, 64, 3136), (3, 50176, 3), (2, 49, 2048), (0, 3, 5), (70000, 2, 4)]

# Replaces the built-ins of CUDA and HIP, with one thread per thread of the block.
PRELUDE = """
#include <barrier>
#include <cstring>
#include <thread>
#include <vector>
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(x)
#define __shared__ static
thread_local unsigned its_thread;
unsigned its_x, its_y;
std::barrier<>* together;
inline unsigned thread() { return its_thread; }
inline unsigned block_x() { return its_x; }
inline unsigned block_y() { return its_y; }
inline void barrier() { together->arrive_and_wait(); }
"""
RUN = """
template <class Kernel>
void run(unsigned across, unsigned down, Kernel kernel) {
    std::barrier<> barrier(THREADS);
    together = &barrier;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < THREADS; ++t) {
        threads.emplace_back([=] {
            its_thread = t;
            for (unsigned block = 0; block < across * down; ++block) {
                if (t == 0) its_x = block % across, its_y = block / across;
                together->arrive_and_wait();
                kernel();
                together->arrive_and_wait();
            }
        });
    }
    for (auto& thread : threads) thread.join();
}
// The arguments as Python packs them.
template <class Arguments, class Kernel>
void run_packed(const char* packed, unsigned across, unsigned down, Kernel kernel) {
    Arguments args;
    memcpy(&args, packed, sizeof args);
    run(across, down, [=] { kernel(args); });
}
#define SIZE(BYTES, ELEMENT) \\
    static_assert(sizeof(Exchange<ELEMENT>) == @EXCHANGE@ && sizeof(Gather<ELEMENT>) == @GATHER@); \\
    extern "C" void run_exchange_##BYTES(const char* packed, unsigned across, unsigned down) { \\
        run_packed<Exchange<ELEMENT>>(packed, across, down, exchange_##BYTES); \\
    } \\
    extern "C" void run_gather_##BYTES(const char* packed, unsigned across) { \\
        run_packed<Gather<ELEMENT>>(packed, across, 1, gather_##BYTES); \\
    }
SIZE(1, unsigned char) SIZE(2, unsigned short) SIZE(4, unsigned int) SIZE(8, unsigned long long)
static_assert(sizeof(Copy) == @COPY@ && sizeof(Differ) == @DIFFER@);
extern "C" void run_copy(const char* packed, unsigned across) { run_packed<Copy>(packed, across, 1, copy); }
extern "C" void run_differ(const char* packed, unsigned across) { run_packed<Differ>(packed, across, 1, differ); }
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


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("dtype", ["int8", "float16", "int32", "float64"])
def test_an_array_in_any_order_becomes_contiguous(dtype: str, device: Device) -> None:
    held = drawn((3, 5, 4, 8), dtype)
    there: Any = device.upload(held)
    for axes in itertools.permutations(range(4)):
        made = device.download(device.contiguous(there.transpose(axes)))
        np.testing.assert_array_equal(made, held.transpose(axes))
        np.testing.assert_array_equal(device.download(there.transpose(axes)), held.transpose(axes))
    np.testing.assert_array_equal(device.download(device.contiguous(there[:, ::-1, 1:, ::2])), held[:, ::-1, 1:, ::2])


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("count", [0, 7, 2**20, 2**20 + 8, 2**20 + 16, 3 * 2**20 + 4096])
@pytest.mark.parametrize("first", [0, 8])
def test_an_array_is_copied(count: int, first: int, device: Device) -> None:
    held = drawn((first + count,), "int8")
    x: Any = device.upload(held)[first:]
    y = device.upload(np.zeros(count, np.int8))
    device.copy(x, y)
    np.testing.assert_array_equal(device.download(y), held[first:])


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("kernels")
    run = RUN
    for name in ("EXCHANGE", "GATHER", "COPY", "DIFFER"):
        run = run.replace(f"@{name}@", str(getattr(array_kernels, name).size))
    (folder / "kernels.cpp").write_text(array_kernels.text_of(PRELUDE) + run)
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", "-Wno-unknown-pragmas"]
    command = [find_compiler().path, *flags, str(folder / "kernels.cpp"), "-o", str(folder / "kernels.so")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return ctypes.CDLL(str(folder / "kernels.so"))


# Guard elements before and after an array, so that an out-of-bounds kernel is detected and does no harm: as many bytes
# as a block of `copy` moves, or more.
AROUND = array_kernels.THREADS * array_kernels.CHUNKS * array_kernels.CHUNK


def within(array: Any) -> tuple[Any, Any]:
    """Return a copy with guard elements around it, and the whole."""
    whole = np.full(2 * AROUND + array.size, 111, array.dtype)
    inner = whole[AROUND : AROUND + array.size].reshape(array.shape)
    inner[...] = array
    return inner, whole


def is_untouched(whole: Any) -> bool:
    return bool((whole[:AROUND] == 111).all() and (whole[-AROUND:] == 111).all())


def places(*arrays: Any) -> tuple[int, ...]:
    return tuple(array.ctypes.data for array in arrays)


@pytest.mark.turns
@pytest.mark.parametrize("item_bytes", array_kernels.ELEMENTS)
def test_the_kernel_of_a_gpu(item_bytes: int, kernels: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_kernels, "MOST_OUTERS", 2)  # so that a block has several
    in_words = 0
    for shape in SHAPES:
        x, _ = within(drawn(shape, f"int{8 * item_bytes}"))
        y, around = within(np.full((shape[0], shape[2], shape[1]), 111, x.dtype))
        (across, down), numbers = array_kernels.launch_of(shape, item_bytes, x.ctypes.data)
        packed = array_kernels.EXCHANGE.pack(*places(x, y), *numbers)
        getattr(kernels, f"run_exchange_{item_bytes}")(packed, across, down)
        np.testing.assert_array_equal(y, expected(x), str(shape))
        assert is_untouched(around), shape
        in_words += numbers[-1]
    assert in_words == (5 if item_bytes == 1 else 0)


def test_copies_of_a_gpu(kernels: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_kernels, "LEAST_COPIED", 16)
    of_block = array_kernels.THREADS * array_kernels.CHUNKS
    for chunks in (1, 255, of_block, of_block + 1, 3 * of_block - 7):
        x, _ = within(drawn((16 * chunks,), "int8"))
        y, around = within(np.full(x.shape, 111, np.int8))
        blocks = array_kernels.copy_blocks(16 * chunks, (0, 16))
        assert (blocks - 1) * of_block < chunks <= blocks * of_block
        kernels.run_copy(array_kernels.COPY.pack(*places(x, y), chunks), blocks)
        np.testing.assert_array_equal(y, x)
        assert is_untouched(around), chunks
    for bytes_, addresses in ((8, (0, 0)), (24, (0, 0)), (16, (8, 0)), (16, (0, 8)), (2**36, (0, 0))):
        assert array_kernels.copy_blocks(bytes_, addresses) == 0


def views(dtype: str) -> Iterator[Any]:
    """Yield arrays viewed in another order of axes, in part, backwards, or repeated."""
    for shape in ((3, 5, 4, 8), (2, 3, 6, 16), (7, 2, 2, 12), (1, 5, 1, 3), (2, 2, 1100, 1)):
        held = drawn(shape, dtype)
        yield held.transpose(0, 2, 3, 1)
        yield held.transpose(2, 0, 1, 3)
        yield held.transpose(3, 2, 1, 0)
        yield held[:, ::-1, :, 1:]
        yield held[:, :, ::2, ::-1]
        yield np.broadcast_to(held[:, :1], shape)
    yield drawn((3, 5, 1, 2), dtype).transpose(1, 0, 2, 3)
    yield drawn((3, 5, 7), dtype)[:, :, :4]
    shuffled = drawn((2, 7, 2, 12), dtype)
    yield shuffled.transpose(0, 2, 1, 3)
    yield drawn((2, 1, 3, 2, 3, 2, 2), dtype).transpose(6, 0, 4, 2, 3, 1, 5)


@pytest.mark.turns
@pytest.mark.parametrize("item_bytes", array_kernels.ELEMENTS)
def test_elements_in_any_order_are_gathered(
    item_bytes: int, kernels: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_kernels, "BLOCKS", 2)  # so that a thread has several elements
    sizes = set()
    for x in views(f"int{8 * item_bytes}"):
        given = array_kernels.gathered(x.shape, x.strides, item_bytes, x.ctypes.data)
        y, around = within(np.full(x.shape, 111, x.dtype))
        packed = array_kernels.GATHER.pack(*places(x, y), *given.numbers)
        getattr(kernels, f"run_gather_{given.item_bytes}")(packed, given.blocks)
        np.testing.assert_array_equal(y, x, f"{x.shape} {x.strides}")
        assert is_untouched(around), x.shape
        assert given.is_one_launch
        sizes.add(given.item_bytes)
    assert sizes == {size for size in array_kernels.ELEMENTS if size >= item_bytes}


def test_what_is_one_run_is_one_axis() -> None:
    assert array_kernels.gathered((2, 3, 4, 16), (192, 64, 16, 1), 1, 0).extents == (48,)
    assert array_kernels.gathered((2, 3, 4, 16), (192, 64, 16, 1), 1, 4) == array_kernels.Gathered(4, (96,), (1,))
    shuffled = array_kernels.gathered((4, 7, 2, 58), (812, 116, 58, 1), 1, 0)  # as in a shuffle of channels
    assert (shuffled.item_bytes, shuffled.count) == (8, 4 * 7 * 2 * 58 // 8)
    many = array_kernels.gathered((2,) * 9, tuple(3**at for at in range(9)), 1, 0)
    assert not many.is_one_launch


def test_arrays_that_differ_anywhere_are_found(kernels: ctypes.CDLL) -> None:
    one = drawn((3, 1111), "int8")
    for at in (None, 0, 255, 256, 3332):
        other = one.copy()
        if at is not None:
            other.reshape(-1)[at] += 1
        found = np.zeros(1, np.uint32)
        kernels.run_differ(array_kernels.DIFFER.pack(*places(one, other, found), one.nbytes, 3), 3)
        assert bool(found[0]) == (at is not None)


def test_words_are_read_where_words_lie() -> None:
    of_bytes = [array_kernels.launch_of((1, 3, 64), 1, address)[1][-1] for address in range(5)]
    assert of_bytes == [1, 0, 0, 0, 1]
    assert array_kernels.launch_of((1, 3, 66), 1, 0)[1][-1] == 0


@pytest.mark.parametrize(
    ("shape", "grid"), [((1, 196, 320), (70, 1)), ((8, 196, 512), (112, 8)), ((1, 3, 50176), (148, 1))]
)
def test_a_small_array_is_of_many_small_tiles(shape: tuple[int, int, int], grid: tuple[int, int]) -> None:
    assert array_kernels.launch_of(shape, 1, 0)[0] == grid


# None of them runs a CuPy kernel: they allocate, copy contiguous memory, fill it, or are types.
OF_CUPY = {"ndarray", "cuda", "empty", "zeros", "asarray", "asnumpy", "from_dlpack"}


def test_the_gpu_device_runs_no_kernel_that_cupy_compiles() -> None:
    tree = ast.parse(Path(array_kernels.__file__).with_name("gpu.py").read_text())
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cupy"
    }
    assert used <= OF_CUPY


def test_where_nothing_may_be_compiled_they_have_to_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path))
    monkeypatch.setenv("QCONV_NO_COMPILE", "1")
    with pytest.raises(KernelMissing, match=r"QCONV_NO_COMPILE forbids .* run beforehand, .* build --target sm_80"):
        build_array_kernels(target("sm_80"))
    monkeypatch.delenv("QCONV_NO_COMPILE")
    try:
        built = build_array_kernels(target("sm_80"), ahead=True)
    except CompileError as missing:
        pytest.skip(str(missing))
    monkeypatch.setenv("QCONV_NO_COMPILE", "1")
    assert build_array_kernels(target("sm_80")).path == built.path
    assert {name for name, needs in built.resources.items() if not needs.spill_bytes} == set(array_kernels.NAMES)
