"""`qconv.device.binary` compared with the compilers' statements about their own binaries, and given damaged ones.

The tests of real binaries need a compiler, never a GPU. Those of hand-made ones need nothing.
"""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import struct
import subprocess
from dataclasses import astuple
from functools import cache
from typing import Any

import pytest
from mostly_slow import mostly_slow

from qconv.device.binary import Resources, resources

# One source for both vendors. As in the project's kernels, the only argument is a struct by value.
KERNELS = """
struct Args { const int* x; int* y; int n; float scale; };

extern "C" __global__ void __launch_bounds__(256) plain(const Args a) {
  if (THREAD < a.n) a.y[THREAD] = (int)(a.x[THREAD] * a.scale);
}
extern "C" __global__ void __launch_bounds__(128) shared_tile(const Args a) {
  __shared__ int tile[1024];
  tile[THREAD] = a.x[THREAD];
  BARRIER;
  a.y[THREAD] = tile[(THREAD * 7) & 1023];
}
extern "C" __global__ void __launch_bounds__(64) indexed(const Args a) {
  int v[64];
  for (int i = 0; i < a.n; ++i) v[i & 63] = a.x[i];
  a.y[THREAD] = v[a.x[THREAD] & 63];
}
extern "C" __global__ void __launch_bounds__(1024) spills(const Args a) {
  int v[200];  // 1024 threads leave 64 (NVIDIA) to 192 (RDNA) registers for them
#pragma unroll
  for (int i = 0; i < 200; ++i) v[i] = a.x[i * a.n + THREAD];
  for (int r = 0; r < a.n; ++r) {
#pragma unroll
    for (int i = 0; i < 200; ++i) v[i] = v[i] * v[(i + 13) % 200] + v[(i * 5 + 1) % 200];
  }
#pragma unroll
  for (int i = 0; i < 200; ++i) a.y[i * a.n + THREAD] = v[i];
}
"""
THREADS_MAX = {"plain": 256, "shared_tile": 128, "indexed": 64, "spills": 1024}

CUDA = """
#define THREAD ((int)threadIdx.x)
#define BARRIER __syncthreads()
""" + KERNELS + """
struct Unbounded { int* y; };
extern "C" __global__ void unbounded(const Unbounded a) { extern __shared__ int d[]; a.y[0] = d[a.y[1]]; }
__device__ __noinline__ int lookup(int x) {
  volatile int v[32];
  for (int i = 0; i < x; ++i) v[i & 31] = i;
  return v[x & 31];
}
extern "C" __global__ void calls(const Args a) { a.y[THREAD] = lookup(a.x[THREAD]) + lookup(a.n); }
template <int N> __global__ void templated(const Args a) { a.y[0] = N; }
template __global__ void templated<3>(const Args);
"""  # fmt: skip

HIP = """
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(n) __attribute__((amdgpu_flat_work_group_size(n, n)))
#define THREAD ((int)__builtin_amdgcn_workitem_id_x())
#define BARRIER __builtin_amdgcn_s_barrier()
""" + KERNELS + """
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__)
// More accumulators than the architectural registers hold beside the rest: some go to AGPRs.
typedef int Tile __attribute__((ext_vector_type(16)));
extern "C" __global__ void __launch_bounds__(256) matrix(const Args a) {
  Tile c[8] = {};
  for (int k = 0; k < a.n; ++k) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#ifdef __gfx942__
      c[i] = __builtin_amdgcn_mfma_i32_32x32x16_i8(a.x[k * 8 + i + THREAD], a.x[k * 9 + i], c[i], 0, 0, 0);
#else
      c[i] = __builtin_amdgcn_mfma_i32_32x32x8i8(a.x[k * 8 + i + THREAD], a.x[k * 9 + i], c[i], 0, 0, 0);
#endif
    }
  }
#pragma unroll
  for (int i = 0; i < 128; ++i) a.y[i * 256 + THREAD] = c[i / 16][i % 16];
}
#endif
"""  # fmt: skip


@cache
def cubin(arch: str) -> tuple[bytes, str]:
    """Return the CUDA kernels compiled for `arch`, and the compiler's log."""
    cuda = pytest.importorskip("cupy.cuda", reason="needs CuPy, for NVRTC", exc_type=ImportError)
    nvrtc: Any = cuda.nvrtc  # not a separate module: it cannot be imported by this name
    try:
        nvrtc.getVersion()
    except Exception as error:  # CuPy loads the library on first use, and fails in its own ways
        pytest.skip(f"CuPy found no NVRTC: {error}")
    if int(arch.rstrip("a")) not in nvrtc.getSupportedArchs():
        pytest.skip(f"NVRTC {nvrtc.getVersion()} does not compile for sm_{arch}")
    program = nvrtc.createProgram(CUDA, "kernels.cu", [], [])
    try:
        nvrtc.compileProgram(program, (f"-arch=sm_{arch}", "--ptxas-options=-v"))
        return nvrtc.getCUBIN(program), nvrtc.getProgramLog(program)
    finally:
        nvrtc.destroyProgram(program)


def clang(*arguments: str, given: bytes) -> bytes:
    program = shutil.which("clang-19")
    if program is None or shutil.which("ld.lld-19") is None:
        pytest.skip("needs clang-19 and lld-19 (apt-get install clang-19 lld-19)")
    command = [program, *arguments, "-", "-o", "-"]
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout


@cache
def assembly(arch: str) -> bytes:
    """Return the HIP kernels compiled for `arch`, as assembly text."""
    device = ["-x", "hip", "--cuda-device-only", f"--offload-arch={arch}", "--no-gpu-bundle-output"]
    return clang(*device, "-nogpuinc", "-nogpulib", "-O3", "-std=c++17", "-S", given=HIP.encode())


@cache
def code_object(arch: str) -> bytes:
    """Return that text assembled; the compiler's other passes take most of the time."""
    return clang("--target=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-x", "assembler", given=assembly(arch))


# ---- Hand-made binaries: the smallest that are valid, so that every byte of them matters ----


def elf(machine: int, sections: list[tuple[str, int, bytes, int]]) -> bytes:
    """Return an ELF file of (name, type, data, size) sections; the size matters only for sections without data."""
    sections = [("", 0, b"", 0), *sections, (".shstrtab", 3, b"", 0)]
    names = b"\0".join(name.encode() for name, *_ in sections) + b"\0"
    sections[-1] = (".shstrtab", 3, names, 0)
    body, headers, name_at = b"", b"", 0
    for name, kind, data, size in sections:
        headers += struct.pack("<IIQQQQIIQQ", name_at, kind, 0, 0, 64 + len(body), size or len(data), 0, 0, 1, 0)
        body += data
        name_at += len(name) + 1
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQI", 2, machine, 1, 0, 0, 64 + len(body), 0)
    head += struct.pack("<HHHHHH", 64, 56, 0, 64, len(sections), len(sections) - 1)
    return head + body + headers


def small_cubin(*, reserved: bool = False, info: bytes | None = None) -> bytes:
    """Return kernel `k`: 40 registers, a frame of 16 bytes, 2048 bytes of shared memory, 8 x 4 threads."""
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0x10, 1, 0, 0) + struct.pack("<IBBHQQ", 3, 2, 0, 1, 0, 0)
    counts = b"".join(struct.pack("<BBHII", 4, a, 8, 1, v) for a, v in ((0x2F, 40), (0x11, 16), (0x12, 16)))
    if info is None:
        info = struct.pack("<BBH", 3, 0x1B, 255) + struct.pack("<BBHIII", 4, 0x05, 12, 8, 4, 1)
    sections = [
        (".strtab", 3, b"\0k\0device_function\0", 0),
        (".symtab", 2, symbols, 0),
        (".nv.info", 0x70000000, counts, 0),
        (".nv.info.k", 0x70000000, info, 0),
        (".nv.shared.k", 8, b"", 2048),
    ]
    return elf(190, sections + [(".nv.shared.reserved.0", 8, b"", 0)] * reserved)


def pack(value: object) -> bytes:
    """Return MessagePack in the long forms, which a compiler's small metadata would not exercise."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return b"\xce" + struct.pack(">I", value) if value >= 0 else b"\xd1" + struct.pack(">h", value)
    if isinstance(value, str):
        return b"\xda" + struct.pack(">H", len(value)) + value.encode()
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(pack, value))
    assert isinstance(value, dict)
    return b"\xdf" + struct.pack(">I", len(value)) + b"".join(pack(k) + pack(v) for k, v in value.items())


KERNEL: dict[str, object] = {
    ".name": "k",
    ".args": [{".offset": 0, ".value_kind": "by_value"}, None, True],
    ".vgpr_count": 152,
    ".agpr_count": 128,
    ".vgpr_spill_count": 3,
    ".private_segment_fixed_size": 16,
    ".group_segment_fixed_size": 70000,
    ".max_flat_workgroup_size": 256,
}


def small_code_object(metadata: bytes | None = None) -> bytes:
    if metadata is None:
        metadata = pack({"amdhsa.version": [1, -2], "amdhsa.kernels": [KERNEL]})
    other = struct.pack("<III", 5, 2, 32) + b"Else\0\0\0\0" + b"ab\0\0"  # unpadded sizes, another's name
    note = struct.pack("<III", 7, len(metadata), 32) + b"AMDGPU\0\0" + metadata
    return elf(224, [(".note", 7, other + note, 0)])


def test_reads_a_cubin_made_by_hand() -> None:
    assert resources(small_cubin(), "k") == Resources(40, None, 16, 2048, 32)


def test_leaves_out_the_shared_memory_that_is_reserved() -> None:
    assert resources(small_cubin(reserved=True), "k").smem_bytes == 1024


def test_reads_a_code_object_made_by_hand() -> None:
    """The accumulation registers are already in `.vgpr_count`."""
    assert resources(small_code_object(), "k") == Resources(152, 12, 16, 70000, 256)


LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'kk' for 'sm_80'
ptxas info    : Function properties for kk
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
ptxas         .     792 bytes stack frame, 1208 bytes spill stores, 1392 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 792 bytes cumulative stack size, 376 bytes cmem[0]
ptxas info    : Function properties for _Z6calleei
    0 bytes stack frame, 16 bytes spill stores, 32 bytes spill loads
"""


@pytest.mark.parametrize(
    ("log", "spill_bytes"),
    [
        (LOG, 1208 + 1392 + 16 + 32),
        (LOG.split("ptxas info    : Compiling entry function 'k'")[0], None),
        ("kernels.cu(3): warning: variable was declared but never referenced", None),
        ("ptxas info    : Compiling entry function 'k' for 'sm_80'", None),
    ],
    ids=["with its callee", "another kernel", "not verbose", "cut off"],
)
def test_reads_spills_from_the_log(log: str, spill_bytes: int | None) -> None:
    assert resources(small_cubin(), "k", log).spill_bytes == spill_bytes


# ---- Real binaries ----


@pytest.mark.turns
@pytest.mark.parametrize("arch", mostly_slow(["75", "80", "86", "89", "90a", "100a", "120"], {"80", "90a"}))
def test_agrees_with_ptxas(arch: str) -> None:
    binary, log = cubin(arch)
    seen = {}
    for entry in log.split("Compiling entry function ")[1:]:
        kernel = entry.split("'")[1]
        seen[kernel] = got = resources(binary, kernel, log)

        def printed(pattern: str, entry: str = entry) -> int:
            return sum(int(number) for number in re.findall(pattern, entry))

        assert got == Resources(
            registers=printed(r"Used (\d+) registers"),
            spill_bytes=printed(r"(\d+) bytes spill stores") + printed(r"(\d+) bytes spill loads"),
            stack_bytes=printed(r"(\d+) bytes cumulative stack size"),
            smem_bytes=printed(r"(\d+) bytes smem"),
            threads_max=THREADS_MAX.get(kernel),
        ), kernel
    assert set(seen) == {*THREADS_MAX, "unbounded", "calls", "_Z9templatedILi3EEv4Args"}
    assert seen["plain"].spill_bytes == seen["plain"].stack_bytes == 0
    assert seen["spills"].spill_bytes > 0
    assert seen["indexed"].stack_bytes == 256
    assert seen["shared_tile"].smem_bytes == 4096


@pytest.mark.turns
@pytest.mark.parametrize(
    "arch",
    mostly_slow(["gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"], {"gfx942", "gfx1100"}),
)
def test_agrees_with_llvm(arch: str) -> None:
    """Compares with the same compiler's text output: its metadata and, for registers, the kernel descriptor."""
    binary, text = code_object(arch), assembly(arch).decode()
    described = [entry for entry in text.split("\n  - ") if "\n    .name:" in entry]
    seen = {}
    for entry in described:
        stated = {key: int(value) for key, value in re.findall(r"\.(\w+): +(\d+)\n", entry)}
        (kernel,) = re.findall(r"\n    \.name: +(\w+)", entry)
        (descriptor,) = re.findall(rf"\.amdhsa_kernel {kernel}\n(.*?)\.end_amdhsa_kernel", text, re.DOTALL)
        (allocated,) = re.findall(r"\.amdhsa_next_free_vgpr (\d+)", descriptor)
        seen[kernel] = got = resources(binary, kernel)
        assert got == Resources(
            registers=int(allocated),
            spill_bytes=4 * stated["vgpr_spill_count"],
            stack_bytes=stated["private_segment_fixed_size"],
            smem_bytes=stated["group_segment_fixed_size"],
            threads_max=stated["max_flat_workgroup_size"],
        ), kernel
    matrix = {"matrix"} if arch in ("gfx908", "gfx90a", "gfx942") else set()
    assert set(seen) == set(THREADS_MAX) | matrix
    assert {kernel: seen[kernel].threads_max for kernel in THREADS_MAX} == THREADS_MAX
    assert seen["plain"].spill_bytes == seen["plain"].stack_bytes == 0
    assert seen["spills"].spill_bytes > 0
    assert seen["indexed"].stack_bytes >= 256
    assert seen["shared_tile"].smem_bytes == 4096
    assert all(seen[kernel].registers >= 128 for kernel in matrix)


# ---- Damage ----


@pytest.mark.parametrize(
    ("binary", "message"),
    [
        (b"", r"starts with b'', not b'\\x7fELF'"),
        (b"__CLANG_OFFLOAD_BUNDLE__", "offload bundle"),
        (b"\x7fELF\1\1\1" + bytes(60), "64-bit, little-endian"),
        (elf(62, []), "machine 62: a kernel is for 190 .NVIDIA. or 224 .AMD."),
        (small_cubin()[:-64], "section header 6 ends at byte"),
        (small_cubin(info=struct.pack("<BBH", 7, 1, 0)), "form 7"),
        (small_cubin(info=struct.pack("<BBHI", 4, 5, 4, 1)), "attribute 0x5 of 'k' ends at byte 12 of 4"),
        (elf(190, []), "no symbol table"),
        (elf(224, []), "no metadata"),
        (small_code_object(b"\x81" * 100), "a key of the metadata is|nests deeper"),
        (small_code_object(b"\x91" * 100), "nests deeper than 32"),
        (small_code_object(b"\xdd\xff\xff\xff\xff"), "the metadata ends at byte"),
        (small_code_object(b"\xc1"), "MessagePack tag 0xc1"),
        (small_code_object(pack({"amdhsa.kernels": 1})), "no list amdhsa.kernels"),
        (small_code_object(pack({"amdhsa.kernels": [{".name": "k"}]})), ".vgpr_count of 'k' is None"),
        (
            small_code_object(pack({"amdhsa.kernels": [KERNEL | {".vgpr_spill_count": -1}]})),
            ".vgpr_spill_count of 'k' is -1",
        ),
    ],
)
def test_says_what_is_wrong(binary: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resources(binary, "k")


@pytest.mark.parametrize("make", [small_cubin, small_code_object])
def test_names_the_kernels_that_are_there(make: Any) -> None:
    with pytest.raises(ValueError, match=r"no kernel 'conv' in the binary; it has: k$"):
        resources(make(), "conv")


@pytest.mark.turns
@pytest.mark.parametrize(
    ("make", "kernel"),
    [
        (small_cubin, "k"),
        (small_code_object, "k"),
        (lambda: cubin("80")[0], "spills"),
        (lambda: cubin("120")[0], "spills"),
        (lambda: code_object("gfx942"), "spills"),
    ],
    ids=["small cubin", "small code object", "sm_80", "sm_120", "gfx942"],
)
def test_damage_raises_only_value_error(make: Any, kernel: str) -> None:
    """300 variants, truncated or with flipped bits: each gives an answer of the right types or ValueError."""
    binary = make()
    dice = random.Random(kernel)
    for _ in range(300):
        variant = bytearray(binary)
        if dice.random() < 0.3:
            del variant[dice.randrange(len(variant)) :]
        # Half of the flips go to the start: the rest of a real binary is mostly machine code, which is not read.
        for _ in range(dice.choice((1, 2, 8))):
            end = len(variant) if dice.random() < 0.5 else min(len(variant), 2048)
            if end:
                variant[dice.randrange(end)] ^= 1 << dice.randrange(8)
        with contextlib.suppress(ValueError):
            got = astuple(resources(bytes(variant), kernel))
            assert all(value is None or (type(value) is int and value >= 0) for value in got)
