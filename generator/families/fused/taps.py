"""How a thread of a depthwise layer multiplies: what differs between bytes and floats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.convolution import input_span, why_not_bytes
from qconv.generator.families.depthwise import bytes as of_bytes
from qconv.generator.families.depthwise import floats as of_floats
from qconv.generator.families.depthwise.bytes import words_in_registers
from qconv.generator.families.depthwise.products import open_rows
from qconv.generator.plan import Constant, at_most, ceil_div
from qconv.problem.convolution import Conv2d

COLUMNS = 2  # output columns per thread
# Clocks that a warp waits for a row of pixels of an intermediate tensor, if it multiplies floats.
SMEM_LATENCY = 30


@dataclass(frozen=True)
class Taps(ABC):
    """The filters of a thread's channels, and what a thread issues for their products."""

    elements: ClassVar[str]  # folder of the template files, here and in the `depthwise` family
    dots: ClassVar[bool]  # the target's dot product multiplies
    ctype: ClassVar[str]  # of a word of rearranged filters
    says: ClassVar[str]  # what `row_words` counts
    # Clocks per instruction of a single warp, and the factor for stalls of many.
    alone: ClassVar[float]
    waits: ClassVar[float]
    spills: ClassVar[bool]  # it runs with a third of its registers missing

    row_words: int  # of a filter row of a channel
    pixel_words: int  # of a pixel's channels of a thread
    register_words: int  # that a thread holds at a time: filters, sums and a row of pixels
    products: float  # instructions of an output's products

    @property
    @abstractmethod
    def of_pixel(self) -> float:
        """Instructions to load a pixel, and to arrange it for its products."""

    @property
    @abstractmethod
    def of_filter(self) -> float:
        """Instructions to load a channel's filter."""

    @abstractmethod
    def latency(self, of_image: bool) -> int:
        """Clocks that a warp waits for a row of pixels, of the image or of an intermediate tensor."""

    @property
    @abstractmethod
    def registers(self) -> int:
        """Registers per thread, estimated."""

    @property
    @abstractmethod
    def run_constants(self) -> tuple[Constant, ...]:
        """Constants that say how neighbouring outputs share words."""


@dataclass(frozen=True)
class ByteTaps(Taps):
    """Four taps of a filter row are a word, and one dot product."""

    elements = "bytes"
    dots = True
    ctype = "int"
    says = "words of four taps per filter row"
    # Fitted with the rest of the model (see `fused.cost`): a single warp waits for pixels of the image.
    alone, waits = 5, 1.03
    spills = True

    run: int  # neighbouring outputs that share the filter words of the first

    @property
    def of_pixel(self) -> float:
        return self.pixel_words * 5.4  # to load and transpose four channels

    @property
    def of_filter(self) -> float:
        return 6

    def latency(self, of_image: bool) -> int:
        return 0  # `alone` has it

    @property
    def registers(self) -> int:
        return self.register_words + 16

    @property
    def run_constants(self) -> tuple[Constant, ...]:
        return (Constant("RUN", self.run, "neighbouring outputs that share the words of the first"),)


@dataclass(frozen=True)
class FloatTaps(Taps):
    """Each tap is a word of fp32. A pixel's elements are converted to fp32 once for all taps and outputs."""

    elements = "floats"
    dots = False
    ctype = "float"
    says = "taps per filter row, each a word"
    # As in the `depthwise` family: its clocks of a warp alone, and its most instructions per clock. Neither is fitted.
    alone, waits = of_floats.ALONE, 1.15
    spills = False  # all filters and sums are read and written for each row of pixels

    convert: int  # instructions per word of a pixel
    vector: int  # channels per thread

    @property
    def of_pixel(self) -> float:
        # Counted in binaries of sm_90a: a load, a test or zeros where it may be padding, and the conversion.
        return 2 + self.pixel_words * self.convert

    @property
    def of_filter(self) -> float:
        return self.products / 2

    def latency(self, of_image: bool) -> int:
        return of_floats.LATENCY if of_image else SMEM_LATENCY

    @property
    def registers(self) -> int:
        # With as many, ptxas 13.0 spills at most a few words; with 16 fewer, words of each row.
        return self.register_words + 16 + 2 * self.vector

    @property
    def run_constants(self) -> tuple[Constant, ...]:
        return ()


def taps_of(problem: Conv2d, vector: int, rows: int) -> Taps:
    """Return how a thread multiplies `vector` channels of `rows` x COLUMNS outputs. Raise Infeasible where no thread
    multiplies these types, or where the filters do not fit in its registers."""
    t = problem.quantization.types
    return _floats(problem, vector, rows) if t.x.word and t.w.word else _bytes(problem, vector, rows)


def _bytes(problem: Conv2d, vector: int, rows: int) -> Taps:
    if (reason := why_not_bytes(problem)) is not None:
        raise Infeasible(reason)
    row_words = ceil_div(problem.s, 4)
    taken = problem.s + problem.stride[1]
    run = 2 if problem.dilation[1] == 1 and taken <= 4 * row_words else 1
    register_words = words_in_registers(problem, rows, COLUMNS, vector, run)
    at_most(register_words, of_bytes.MOST_WORDS, "registers for filters, pixels and sums")
    products = problem.r * row_words * (1 + problem.quantization.w_zero_point)
    return ByteTaps(row_words, vector // 4, register_words, products, run)


def _floats(problem: Conv2d, vector: int, rows: int) -> Taps:
    taps, x_bytes = problem.r * problem.s, problem.quantization.types.x.bytes
    pixel_words = vector * x_bytes // 4
    _, width = input_span(problem, rows, COLUMNS)
    sums = open_rows(problem, rows) * COLUMNS * vector
    register_words = taps * vector + sums + width * pixel_words + vector
    at_most(rows * COLUMNS * vector * taps, of_floats.MOST_PRODUCTS, "products of a thread")
    at_most(register_words, of_floats.MOST_WORDS, "registers for filters, pixels and sums")
    return FloatTaps(problem.s, pixel_words, register_words, taps, of_floats.CONVERT[x_bytes], vector)
