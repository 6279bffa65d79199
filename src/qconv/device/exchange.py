"""The kernel by which two axes of an array change places on a GPU: NCHW becomes NHWC, or the other way round.

CuPy's own copies move an element a thread, and need the CUDA headers, which need not be there.
"""

from __future__ import annotations

THREADS = 256
# Elements of a tile in shared memory, and its rows at most. A tile that has all rows is written as one run.
TILE, MOST_ROWS = 4096, 32
# The unsigned integer of an element's size: bits are moved, whatever they mean.
ELEMENTS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
MOST_OUTERS = 65535  # of a grid, along its second axis; a block takes several, if there are more

TEXT = """
constexpr unsigned THREADS = @THREADS@, TILE = @TILE@;
using Element = @ELEMENT@;

// x[outer][row][column] -> y[outer][column][row]. A tile is `tile_rows` x `tile_columns`; in shared memory it lies as
// in y, so that the threads write it in the order in which it leaves.
extern "C" __global__ void __launch_bounds__(THREADS) exchange(
    const Element* __restrict__ x, Element* __restrict__ y, unsigned outers, unsigned rows, unsigned columns,
    unsigned tile_rows, unsigned tile_columns, unsigned in_words) {
    __shared__ __align__(16) Element tile[TILE];
    const unsigned tiles_across = (columns + tile_columns - 1) / tile_columns;
    const unsigned first_column = blockIdx.x % tiles_across * tile_columns;
    const unsigned first_row = blockIdx.x / tiles_across * tile_rows;
    const unsigned its_columns = min(tile_columns, columns - first_column);
    const unsigned its_rows = min(tile_rows, rows - first_row);
    const unsigned count = its_rows * its_columns;
    for (unsigned outer = blockIdx.y; outer < outers; outer += gridDim.y) {
        const Element* const from = x + (unsigned long long)outer * rows * columns;
        Element* const to = y + (unsigned long long)outer * rows * columns;
        if (in_words) {
            // Bytes, all rows in a tile, and columns and addresses that are multiples of four: four of a row at a time.
            for (unsigned i = threadIdx.x; i < count / 4; i += THREADS) {
                const unsigned row = i / (its_columns / 4), column = i % (its_columns / 4) * 4;
                const unsigned four = *reinterpret_cast<const unsigned*>(
                    from + (unsigned long long)row * columns + first_column + column);
                for (unsigned j = 0; j < 4; ++j) tile[(column + j) * its_rows + row] = (Element)(four >> 8 * j);
            }
            __syncthreads();
            unsigned* const run = reinterpret_cast<unsigned*>(to + (unsigned long long)first_column * rows);
            for (unsigned i = threadIdx.x; i < count / 4; i += THREADS) {
                run[i] = reinterpret_cast<const unsigned*>(tile)[i];
            }
        } else {
            for (unsigned i = threadIdx.x; i < count; i += THREADS) {
                const unsigned row = i / its_columns, column = i % its_columns;
                tile[column * its_rows + row] =
                    from[(unsigned long long)(first_row + row) * columns + first_column + column];
            }
            __syncthreads();
            for (unsigned i = threadIdx.x; i < count; i += THREADS) {
                const unsigned column = i / its_rows, row = i % its_rows;
                to[(unsigned long long)(first_column + column) * rows + first_row + row] = tile[i];
            }
        }
        __syncthreads();
    }
}
"""


def text_of(item_bytes: int) -> str:
    """The kernel for elements of this size."""
    text = TEXT.replace("@THREADS@", str(THREADS)).replace("@TILE@", str(TILE))
    return text.replace("@ELEMENT@", ELEMENTS[item_bytes])


def launch_of(shape: tuple[int, int, int], item_bytes: int, address: int) -> tuple[tuple[int, int], tuple[int, ...]]:
    """For an array that lies there: the grid, and what the kernel takes behind the two arrays, each an unsigned int."""
    outers, rows, columns = shape
    tile_rows = min(rows, MOST_ROWS)
    tile_columns = min(columns, TILE // tile_rows // 4 * 4)
    in_words = item_bytes == 1 and tile_rows == rows and columns % 4 == 0 and address % 4 == 0
    grid = (-(-columns // tile_columns) * -(-rows // tile_rows), min(outers, MOST_OUTERS))
    return grid, (outers, rows, columns, tile_rows, tile_columns, int(in_words))
