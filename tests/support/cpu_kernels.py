"""Small hand-written kernels for the CPU device, in the form of generated ones, and a runner for them."""

from __future__ import annotations

import ctypes
import random
import struct
from pathlib import Path

from qconv.device import compile, cpu_runtime
from qconv.device.cpu import runtime_cache
from qconv.device.cpu_runtime import Arguments, Pointer, SanitizerReport

# A minimal version of the generated prelude.
PRELUDE = """
extern "C" {
int qconv_cpu_thread(void);
int qconv_cpu_block(int axis);
void* qconv_cpu_shared(void);
void qconv_cpu_barrier(int line);
void qconv_cpu_barrier_of_team(int team, int threads, int line);
const void* qconv_cpu_warp_exchange(const void* value, unsigned long bytes, int line);
}
#define barrier() qconv_cpu_barrier(__LINE__)
#define shuffle(value, lane) shuffle_at(value, lane, __LINE__)
template <class T> static inline T shuffle_at(T value, int lane, int line) {
    return *(const T*)((const char*)qconv_cpu_warp_exchange(&value, sizeof(T), line) + 64 * lane);
}
struct Arguments { const int* input; int* output; int width; };
#define KERNEL(name) \\
    static void name(const int* input, int* output, int width, int t); \\
    extern "C" void name##_entry(const void* raw) { \\
        const Arguments& a = *(const Arguments*)raw; \\
        name(a.input, a.output, a.width, qconv_cpu_thread()); \\
    } \\
    static void name([[maybe_unused]] const int* input, [[maybe_unused]] int* output, \\
                     [[maybe_unused]] int width, [[maybe_unused]] int t)
"""

REDUCE = """
KERNEL(reduce) {
    int* sums = (int*)qconv_cpu_shared();
    int block = qconv_cpu_block(0);
    sums[t] = input[block * width + t];
    barrier();
    for (int half = width / 2; half > 0; half /= 2) {
        if (t < half) sums[t] += sums[t + half];
        barrier();
    }
    if (t == 0) output[block] = sums[0];
}
"""

# `width` is the warp size; the last warp may be partial.
WARP = """
KERNEL(warp_sum) {
    int lane = t % width, sum = input[t];
    for (int mask = width / 2; mask > 0; mask /= 2) sum += shuffle(sum, lane ^ mask);
    output[t] = sum;
}
KERNEL(ballot) {
    int lane = t % width, odd = input[t] & 1;
    const char* votes = (const char*)qconv_cpu_warp_exchange(&odd, 4, __LINE__);
    unsigned long long bits = 0;
    for (int i = 0; i < width; ++i) bits |= (unsigned long long)*(const int*)(votes + 64 * i) << i;
    output[2 * t] = (int)bits;
    output[2 * t + 1] = (int)(bits >> 32) + 0 * lane;
}
KERNEL(rotate_wide) {  // 64 bytes per lane, and many exchanges in a row
    struct Wide { int word[16]; } value;
    for (int i = 0; i < 16; ++i) value.word[i] = 16 * t + i;
    int first = t / width * width;
    for (int turn = 0; turn < 5; ++turn) value = shuffle(value, (t - first + 1) % width);
    for (int i = 0; i < 16; ++i) output[16 * t + i] = value.word[i];
}
"""

INDICES = """
KERNEL(indices) {
    int x = qconv_cpu_block(0), y = qconv_cpu_block(1), z = qconv_cpu_block(2);
    output[((z * 4 + y) * 3 + x) * width + t] = x + 10 * y + 100 * z + 1000 * t;
}
KERNEL(order) {  // one block on one worker: `output` is filled in the order in which threads come
    for (int phase = 0; phase < 2; ++phase) {
        output[output[2 * width]++] = t;
        barrier();
    }
}
KERNEL(poison) { output[qconv_cpu_block(0) * width + t] = ((int*)qconv_cpu_shared())[t]; }
"""

TEAMS = """
KERNEL(teams) {  // each adds up its own values; one of them goes on while the others wait for the block
    int* sums = (int*)qconv_cpu_shared();
    const int team = t / width, of_team = t % width;
    sums[t] = input[t];
    for (int half = width / 2; half > 0; half /= 2) {
        qconv_cpu_barrier_of_team(team, width, __LINE__);
        if (of_team < half) sums[t] += sums[t + half];
    }
    for (int turn = 0; turn < 3 * team; ++turn) qconv_cpu_barrier_of_team(team, width, __LINE__);
    barrier();
    if (t == 0) for (int other = 0; other < 3; ++other) output[other] = sums[other * width];
}
KERNEL(team_divided) {
    if (t % width < 5) qconv_cpu_barrier_of_team(t / width, width, __LINE__);
    else qconv_cpu_barrier_of_team(t / width, width, __LINE__);
}
KERNEL(team_left) {
    if (t == 70) return;
    qconv_cpu_barrier_of_team(t / width, width, __LINE__);
}
KERNEL(other_team) { qconv_cpu_barrier_of_team(0, width, 7); }
"""

DIVERGENT = """
KERNEL(early_return) {
    if (t >= 32) return;
    barrier();
}
KERNEL(two_lines) {
    if (t < 16)
        barrier();
    else
        barrier();
}
KERNEL(lane_missing) {
    if (t == 40) return;
    output[t] = shuffle(t, 0);
}
KERNEL(lane_at_barrier) {
    if (t != 40) output[t] = shuffle(t, 0);
    barrier();
}
KERNEL(two_sizes) {
    long long wide = t;
    qconv_cpu_warp_exchange(&wide, t % 2 ? 4 : 8, 7);
}
KERNEL(too_wide) { qconv_cpu_warp_exchange(input, 65, 7); }
"""

MISSING_BARRIER = """
KERNEL(neighbour) {
    int* values = (int*)qconv_cpu_shared();
    values[t] = input[t];
    // here should be a barrier
    output[t] = values[(t + 1) % width] + values[(t + width - 1) % width];
}
"""


class Packed(ctypes.Structure):
    _fields_ = [("input", ctypes.c_void_p), ("output", ctypes.c_void_p), ("width", ctypes.c_int)]


def distinct(count: int) -> list[int]:
    return random.Random(count).sample(range(10 * count), count)


def ints(values: list[int]) -> bytes:
    return struct.pack(f"{len(values)}i", *values)


def unpack(data: bytes) -> list[int]:
    return list(struct.unpack(f"{len(data) // 4}i", data))


OPTIMISED_FLAGS = compile.HOST_FLAGS
UNOPTIMISED_FLAGS = tuple("-O0" if flag == "-O1" else flag for flag in OPTIMISED_FLAGS)


def unoptimised(text: str) -> Path:
    """Compile a kernel without optimisation, which is faster for one or two runs."""
    return cpu_runtime.build({"kernel.cpp": text}, UNOPTIMISED_FLAGS, ".so", runtime_cache())


class Runner:
    """Launches kernels in this process, by default those above."""

    def __init__(
        self, cache: Path, text: str = "".join([REDUCE, WARP, INDICES, DIVERGENT, MISSING_BARRIER, TEAMS])
    ) -> None:
        cpu_runtime.runtime_library(cache)
        source = PRELUDE + text
        flags = [*cpu_runtime.KERNEL_FLAGS, "-Wall", "-Werror", "-fvisibility=hidden"]
        source = source.replace('extern "C" void name', 'extern "C" __attribute__((visibility("default"))) void name')
        built = cpu_runtime.build({"kernel.cpp": source}, [*flags, *cpu_runtime.SHARED_FLAGS], ".so", cache)
        self.library = ctypes.CDLL(str(built))

    def __call__(
        self,
        kernel: str,
        values: list[int],
        outputs: int,
        width: int,
        *,
        grid: tuple[int, int, int] = (1, 1, 1),
        threads: int,
        shared_bytes: int = 0,
        cluster: int = 1,
        warp_size: int = 32,
        workers: int = 1,
        seed: int = 0,
    ) -> list[int]:
        given, result = (ctypes.c_int * len(values))(*values), (ctypes.c_int * outputs)()
        packed = Packed(ctypes.addressof(given), ctypes.addressof(result), width)
        entry = ctypes.cast(self.library[f"{kernel}_entry"], ctypes.c_void_p).value
        assert entry is not None
        options = {"cluster": cluster, "warp_size": warp_size, "workers": workers, "seed": seed}
        cpu_runtime.launch(entry, packed, grid, threads, shared_bytes, **options)
        return list(result)


def sanitized(
    cache: Path,
    kernel: str,
    text: str,
    sanitizer: cpu_runtime.Sanitizer,
    values: list[int],
    outputs: int,
    width: int,
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    threads: int = 64,
    shared_bytes: int = 0,
    cluster: int = 1,
    warp_size: int = 32,
    workers: int = 2,
    seed: int = 0,
) -> SanitizerReport:
    return cpu_runtime.run_sanitized(
        PRELUDE + text,
        kernel,
        sanitizer,
        arguments=Arguments(24, (Pointer(0, 0), Pointer(8, 1)), ((16, ints([width])),)),
        buffers=[ints(values), bytes(4 * outputs)],
        outputs=[1],
        grid=grid,
        threads=threads,
        shared_bytes=shared_bytes,
        cluster=cluster,
        warp_size=warp_size,
        workers=workers,
        seed=seed,
        cache=cache,
    )


def line_of(text: str, part: str) -> str:
    """Return how a report names the line of a kernel that contains `part`."""
    return f"kernel.cpp:{(PRELUDE + text).split(part)[0].count(chr(10)) + 1}"
