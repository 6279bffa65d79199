"""Kernels that move and compare a GPU's arrays: exchange two axes (NCHW to NHWC and back), gather elements in any order
into a contiguous array, copy, and compare.

They are one source, built and cached like every other. CuPy's own copy kernels are compiled at run time and need the
CUDA headers, which may be missing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from qconv.generator import Source
from qconv.generator.source import text_digest
from qconv.targets.target import Target

THREADS = 256
# Elements per tile in shared memory, and the most rows of one. A tile with all rows is written as one run.
TILE, MOST_ROWS = 4096, 32
# With fewer blocks, each has a small tile, since a thread moves its elements one after the other.
FEW_BLOCKS, SMALL_TILE = 512, 1024
# The unsigned integer for each element size: only bits are moved.
ELEMENTS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
MOST_OUTERS = 65535  # of a grid along y; with more, a block takes several
# Axes of an array to be gathered, after adjacent axes without gaps have been merged.
MOST_AXES = 6
MOST_ELEMENTS = 2**31 - 1  # counted by one launch
BLOCKS = 4096  # of a grid at most; threads loop over the elements
# Bytes per load, loads per thread before it stores, and the least bytes to copy: for fewer, the driver is as fast.
CHUNK, CHUNKS, LEAST_COPIED = 16, 4, 2**20

# The only parameter of each kernel, a struct: the addresses of two arrays, and numbers.
EXCHANGE, GATHER = struct.Struct("=QQ7I4x"), struct.Struct(f"=QQ{2 + MOST_AXES}I{MOST_AXES}q")
COPY, DIFFER = struct.Struct("=QQI4x"), struct.Struct("=QQQQI4x")

PRELUDES = {
    "nvidia": """
__device__ __forceinline__ unsigned thread() { return threadIdx.x; }
__device__ __forceinline__ unsigned block_x() { return blockIdx.x; }
__device__ __forceinline__ unsigned block_y() { return blockIdx.y; }
__device__ __forceinline__ void barrier() { __syncthreads(); }
""",
    "amd": """
#if !defined(__global__)  // without HIP's headers: the keywords that are used here
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#endif
__device__ __forceinline__ unsigned thread() { return __builtin_amdgcn_workitem_id_x(); }
__device__ __forceinline__ unsigned block_x() { return __builtin_amdgcn_workgroup_id_x(); }
__device__ __forceinline__ unsigned block_y() { return __builtin_amdgcn_workgroup_id_y(); }
__device__ __forceinline__ void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
""",
}
TEXT = """
constexpr unsigned THREADS = @THREADS@, TILE = @TILE@, CHUNKS = @CHUNKS@;

__device__ __forceinline__ unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

// x[outer][row][column] -> y[outer][column][row]. A tile is `tile_rows` x `tile_columns`, and has the layout
// of y in shared memory, so that the threads write it out in order.
template <class Element>
__device__ __forceinline__ void exchange(
    const Element* __restrict__ x, Element* __restrict__ y, unsigned blocks_down, unsigned outers, unsigned rows,
    unsigned columns, unsigned tile_rows, unsigned tile_columns, unsigned in_words) {
    __shared__ __attribute__((aligned(16))) Element tile[TILE];
    const unsigned tiles_across = (columns + tile_columns - 1) / tile_columns;
    const unsigned first_column = block_x() % tiles_across * tile_columns;
    const unsigned first_row = block_x() / tiles_across * tile_rows;
    const unsigned its_columns = least(tile_columns, columns - first_column);
    const unsigned its_rows = least(tile_rows, rows - first_row);
    const unsigned count = its_rows * its_columns;
    for (unsigned outer = block_y(); outer < outers; outer += blocks_down) {
        const Element* const from = x + (unsigned long long)outer * rows * columns;
        Element* const to = y + (unsigned long long)outer * rows * columns;
        if (in_words) {
            // Bytes, all rows in one tile, columns and addresses divisible by four: load four bytes per thread.
            for (unsigned i = thread(); i < count / 4; i += THREADS) {
                const unsigned row = i / (its_columns / 4), column = i % (its_columns / 4) * 4;
                const unsigned four = *reinterpret_cast<const unsigned*>(
                    from + (unsigned long long)row * columns + first_column + column);
                for (unsigned j = 0; j < 4; ++j) tile[(column + j) * its_rows + row] = (Element)(four >> 8 * j);
            }
            barrier();
            unsigned* const run = reinterpret_cast<unsigned*>(to + (unsigned long long)first_column * rows);
            for (unsigned i = thread(); i < count / 4; i += THREADS) {
                run[i] = reinterpret_cast<const unsigned*>(tile)[i];
            }
        } else {
            for (unsigned i = thread(); i < count; i += THREADS) {
                const unsigned row = i / its_columns, column = i % its_columns;
                tile[column * its_rows + row] =
                    from[(unsigned long long)(first_row + row) * columns + first_column + column];
            }
            barrier();
            for (unsigned i = thread(); i < count; i += THREADS) {
                const unsigned column = i / its_rows, row = i % its_rows;
                to[(unsigned long long)(first_column + column) * rows + first_row + row] = tile[i];
            }
        }
        barrier();
    }
}

// y[i] is the element of x with the same indices as y[i]. The first of `extents` is the innermost axis.
template <class Element>
__device__ __forceinline__ void gather(
    const Element* __restrict__ x, Element* __restrict__ y, unsigned blocks, unsigned count,
    const unsigned (&extents)[@AXES@], const long long (&strides)[@AXES@]) {
    for (unsigned i = block_x() * THREADS + thread(); i < count; i += blocks * THREADS) {
        unsigned rest = i;
        long long at = 0;
#pragma unroll
        for (int axis = 0; axis < @AXES@; ++axis) {
            at += strides[axis] * (rest % extents[axis]);
            rest /= extents[axis];
        }
        y[i] = x[at];
    }
}

// All loads come before the stores, to keep many in flight. The driver's copies take 1.5 times as long.
struct __attribute__((aligned(16))) Chunk { unsigned word[4]; };
__device__ __forceinline__ void copy_chunks(const Chunk* __restrict__ x, Chunk* __restrict__ y, unsigned count) {
    const unsigned first = block_x() * THREADS * CHUNKS + thread();
    Chunk chunk[CHUNKS];
#pragma unroll
    for (unsigned i = 0; i < CHUNKS; ++i) {
        if (first + i * THREADS < count) chunk[i] = x[first + i * THREADS];
    }
#pragma unroll
    for (unsigned i = 0; i < CHUNKS; ++i) {
        if (first + i * THREADS < count) y[first + i * THREADS] = chunk[i];
    }
}

struct Copy {
    const Chunk* x;
    Chunk* y;
    unsigned count;
};
extern "C" __global__ void __launch_bounds__(THREADS) copy(const Copy args) {
    copy_chunks(args.x, args.y, args.count);
}

struct Differ {
    const unsigned char *a, *b;
    unsigned* differs;
    unsigned long long bytes;
    unsigned blocks;
};
extern "C" __global__ void __launch_bounds__(THREADS) differ(const Differ args) {
    const unsigned long long step = (unsigned long long)args.blocks * THREADS;
    for (unsigned long long i = block_x() * (unsigned long long)THREADS + thread(); i < args.bytes; i += step) {
        if (args.a[i] != args.b[i]) *args.differs = 1;
    }
}

template <class Element>
struct Exchange {
    const Element* x;
    Element* y;
    unsigned blocks_down, outers, rows, columns, tile_rows, tile_columns, in_words;
};

template <class Element>
struct Gather {
    const Element* x;
    Element* y;
    unsigned blocks, count, extents[@AXES@];
    long long strides[@AXES@];
};
"""
# The kernels for one element size.
OF_A_SIZE = """
extern "C" __global__ void __launch_bounds__(THREADS) exchange_@BYTES@(const Exchange<@ELEMENT@> args) {
    exchange(args.x, args.y, args.blocks_down, args.outers, args.rows, args.columns, args.tile_rows, args.tile_columns,
             args.in_words);
}

extern "C" __global__ void __launch_bounds__(THREADS) gather_@BYTES@(const Gather<@ELEMENT@> args) {
    gather(args.x, args.y, args.blocks, args.count, args.extents, args.strides);
}
"""
NAMES = (*(f"{kernel}_{size}" for size in ELEMENTS for kernel in ("exchange", "gather")), "copy", "differ")


@lru_cache(maxsize=8)
def source_of(target: Target) -> Source:
    suffix = {"nvidia": ".cu", "amd": ".hip"}[target.vendor]
    text = text_of(PRELUDES[target.vendor])
    return Source(text, text_digest(text), suffix)


def text_of(prelude: str) -> str:
    sizes = (
        OF_A_SIZE.replace("@ELEMENT@", element).replace("@BYTES@", str(size)) for size, element in ELEMENTS.items()
    )
    text = TEXT.replace("@THREADS@", str(THREADS)).replace("@TILE@", str(TILE)).replace("@AXES@", str(MOST_AXES))
    text = text.replace("@CHUNKS@", str(CHUNKS))
    return f"// Moves and compares arrays. Generated by qconv-tune.\n{prelude}{text}{''.join(sizes)}"


def copy_blocks(bytes_: int, addresses: tuple[int, int]) -> int:
    """Return the grid of `copy`, or 0 where the driver copies: small, misaligned or uncountably large arrays."""
    whole = all(number % CHUNK == 0 for number in (bytes_, *addresses))
    chunks = bytes_ // CHUNK
    return -(-chunks // (THREADS * CHUNKS)) if whole and bytes_ >= LEAST_COPIED and chunks <= MOST_ELEMENTS else 0


def launch_of(shape: tuple[int, int, int], item_bytes: int, address: int) -> tuple[tuple[int, int], tuple[int, ...]]:
    """Return the grid of `exchange` for an array at this address, and the kernel's numbers behind the two addresses."""
    outers, rows, columns = shape
    tile_rows = min(rows, MOST_ROWS)
    down = -(-rows // tile_rows)
    for tile in (TILE, SMALL_TILE):
        tile_columns = min(columns, tile // tile_rows // 4 * 4)
        across = -(-columns // tile_columns)
        if across * down * outers >= FEW_BLOCKS:
            break
    in_words = item_bytes == 1 and tile_rows == rows and columns % 4 == 0 and address % 4 == 0
    grid = (across * down, min(outers, MOST_OUTERS))
    return grid, (grid[1], outers, rows, columns, tile_rows, tile_columns, int(in_words))


@dataclass(frozen=True)
class Gathered:
    """The arguments of `gather` for an array with arbitrary strides, with the largest elements that can be moved at
    once. The innermost axis comes first; strides are in elements of `item_bytes`."""

    item_bytes: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def count(self) -> int:
        return prod(self.extents)

    @property
    def blocks(self) -> int:
        return min(-(-self.count // THREADS), BLOCKS)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The kernel's numbers behind the two addresses."""
        return (self.blocks, self.count, *self.all_extents, *self.all_strides)

    @property
    def is_one_launch(self) -> bool:
        return self.count <= MOST_ELEMENTS and len(self.extents) <= MOST_AXES

    @property
    def all_extents(self) -> tuple[int, ...]:
        return (*self.extents, *(1,) * (MOST_AXES - len(self.extents)))

    @property
    def all_strides(self) -> tuple[int, ...]:
        return (*self.strides, *(0,) * (MOST_AXES - len(self.strides)))


def gathered(shape: tuple[int, ...], strides: tuple[int, ...], item_bytes: int, address: int) -> Gathered:
    """Return the arguments of `gather`. `strides` are in bytes, as in an array."""
    axes = [(extent, stride // item_bytes) for extent, stride in zip(shape, strides, strict=True) if extent != 1]
    merged = list(_merged(axes[::-1])) or [(1, 1)]
    size = item_bytes
    while size * 2 in ELEMENTS and _is_in_pairs(merged, size, address):
        (extent, _), *others = merged
        merged = [(extent // 2, 1), *((count, stride // 2) for count, stride in others)]
        size *= 2
    return Gathered(size, tuple(extent for extent, _ in merged), tuple(stride for _, stride in merged))


def _merged(axes: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Merge adjacent axes without gaps between them. The innermost axis comes first."""
    held: tuple[int, int] | None = None
    for extent, stride in axes:
        if held is not None and stride == held[0] * held[1]:
            held = (held[0] * extent, held[1])
            continue
        if held is not None:
            yield held
        held = (extent, stride)
    if held is not None:
        yield held


def _is_in_pairs(axes: list[tuple[int, int]], item_bytes: int, address: int) -> bool:
    """True where elements always move in aligned pairs along the innermost axis."""
    (extent, stride), *others = axes
    is_even = extent % 2 == 0 and all(each % 2 == 0 for _, each in others)
    return stride == 1 and is_even and address % (2 * item_bytes) == 0
