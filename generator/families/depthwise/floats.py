"""Products of floats: each element of a row is converted to fp32 once, and multiplied by each of its taps."""

from __future__ import annotations

from math import gcd

from qconv.errors import Infeasible
from qconv.generator.convolution import input_span
from qconv.generator.families.depthwise.config import Depthwise
from qconv.generator.families.depthwise.products import Products, open_rows
from qconv.generator.plan import Constant, at_most, ceil_div
from qconv.problem.convolution import Conv2d

# Unrolled products per thread. More overflow the instruction cache.
MOST_PRODUCTS = 3200
# Words of filters, sums and pixels per thread. More do not fit into its registers.
MOST_WORDS = 168
# Instructions that convert a word to fp32, by the bytes of its elements.
CONVERT = {1: 6, 2: 2, 4: 0}
# Clocks that a warp waits for a row of pixels, as the compiler loads rows early; clocks per instruction of a warp
# alone; and the most instructions that a multiprocessor issues per clock. None of these is fitted to measurements.
LATENCY, ALONE, MOST_RATE = 250, 2, 3.2


class FloatProducts(Products):
    elements = "floats"
    dots = False
    ctype = "float"
    says = "filters as fp32: each tap of all channels"
    fitted = 1.0
    start, first = 500, 600

    def rate(self, warps: int, of_row: float) -> float:
        return min(MOST_RATE, warps * of_row / (LATENCY + ALONE * of_row))


def float_products(problem: Conv2d, config: Depthwise, gathers: bool, load_k: int) -> FloatProducts:
    t, taps = problem.quantization.types, problem.r * problem.s
    if config.run > 1:
        raise Infeasible(f"run={config.run}: words of four taps are of bytes; floats have run=1")
    at_most(config.rows * config.columns * config.vector * taps, MOST_PRODUCTS, "products of a thread")
    _, width = input_span(problem, config.rows, config.columns)
    pixel_words = ceil_div(config.vector * t.x.bytes, 4)
    sums = open_rows(problem, config.rows) * config.columns * config.vector
    register_words = taps * config.vector + sums + width * pixel_words + config.vector
    at_most(register_words, MOST_WORDS, "registers for filters, pixels and sums")
    accesses = config.vector // load_k * 2 if gathers else max(1, pixel_words // 4)
    return FloatProducts(
        constants=(
            Constant("LOADS_BEFORE_BARRIER", False, "there is no barrier"),
            Constant("LOAD_K", load_k, "channels of a pixel per load"),
            Constant("STORE_K", gcd(problem.k, config.vector), "channels of a pixel per store"),
        ),
        words=taps,
        register_words=register_words,
        registers=32 + register_words,
        # Counted in binaries of sm_90a: predicates, loads, zeros for padding, conversions.
        of_pixel=4.5 + accesses + pixel_words * (0.5 + CONVERT[t.x.bytes]),
        of_output=taps + 3.6,
        of_thread=80 + taps * config.vector / 2,
    )
