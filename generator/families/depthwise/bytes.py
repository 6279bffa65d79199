"""Products of bytes: four taps of a filter row are one dot product."""

from __future__ import annotations

from qconv.errors import Infeasible
from qconv.generator.convolution import input_span, why_not_bytes
from qconv.generator.families.depthwise.config import Depthwise
from qconv.generator.families.depthwise.products import Products, open_rows
from qconv.generator.plan import Constant, at_most, ceil_div
from qconv.problem.convolution import Conv2d

# Unrolled dot products per thread. More compile slowly or not at all, and overflow the instruction cache.
MOST_PRODUCTS = 6144
# Outputs of a thread beside the sums of their windows. With more, the compilers leave the loop over the rows as it is,
# and the sums in memory.
MOST_SUMMED = 128
# Words of filters, sums and pixels per thread. More do not fit into its registers.
MOST_WORDS = 144
# Measured clocks over counted clocks, for 120 kernels on an H200: more overlaps than the model describes.
FITTED = 0.43


class ByteProducts(Products):
    elements = "bytes"
    dots = True
    ctype = "int"
    says = "filters, four taps of a channel per word"
    fitted = FITTED
    start, first = 1200, 1500

    def rate(self, warps: int, of_row: float) -> float:
        # The warps issue few instructions per clock, because each waits for its own results.
        return min(2.7, warps / 8)


def byte_products(problem: Conv2d, config: Depthwise, gathers: bool, load_k: int) -> ByteProducts:
    if (reason := why_not_bytes(problem)) is not None:
        raise Infeasible(reason)
    if config.vector < 4:
        raise Infeasible(f"vector={config.vector}: four neighbouring channels of bytes are a word; use 4, 8 or 16")
    words = ceil_div(problem.s, 4)
    _check_run(problem, config, words)
    dots = config.rows * config.columns * config.vector * problem.r * words
    at_most(dots, MOST_PRODUCTS, "dot products of a thread")
    if problem.quantization.w_zero_point:
        at_most(config.rows * config.columns * config.vector, MOST_SUMMED, "outputs of a thread with a w_zero_point")
    register_words = words_in_registers(problem, config.rows, config.columns, config.vector, config.run)
    at_most(register_words, MOST_WORDS, "registers for filters, pixels and sums")
    # Instructions, counted in the binaries.
    quads = config.vector // 4
    return ByteProducts(
        constants=(Constant("WORDS", words, "words of four taps per filter row"),),
        words=problem.r * words,
        register_words=register_words,
        registers=24 + 0.6 * register_words,
        of_pixel=4 + 20 // load_k if gathers else 4 + quads * (2.5 if config.run > 1 else 4),
        of_output=1.3 * problem.r * words * (1 + problem.quantization.w_zero_point) + 6.5,
        of_thread=80,
    )


def _check_run(problem: Conv2d, config: Depthwise, words: int) -> None:
    """Check that the outputs of a run find all their taps in the words of the first one."""
    if config.columns % config.run:
        raise Infeasible(f"columns={config.columns} must be a multiple of run={config.run}")
    if config.run > 1 and problem.dilation[1] > 1:
        raise Infeasible(f"run={config.run}: the taps of a filter lie {problem.dilation[1]} apart")
    taken = problem.s + (config.run - 1) * problem.stride[1]
    at_most(taken, 4 * words, f"run={config.run}: taps in the {words} words of a filter row")


def words_in_registers(problem: Conv2d, rows: int, columns: int, vector: int, run: int) -> int:
    """Return the words that a thread holds at a time: its filters, a row of pixels, and the sums of all outputs that
    use that row."""
    _, width = input_span(problem, rows, columns)
    sums = open_rows(problem, rows) * columns * vector * (1 + problem.quantization.w_zero_point)
    filters = run * problem.r * ceil_div(problem.s, 4) * vector
    return filters + sums + width * vector // 4 + vector
