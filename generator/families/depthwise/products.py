"""How a thread of `depthwise` multiplies: what differs between bytes and floats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from qconv.generator.plan import Constant, ceil_div
from qconv.problem.convolution import Conv2d


@dataclass(frozen=True)
class Products(ABC):
    elements: ClassVar[str]  # folder of the page's template files
    dots: ClassVar[bool]  # the target's dot product multiplies
    ctype: ClassVar[str]  # of a word of rearranged filters
    says: ClassVar[str]  # what these words are
    fitted: ClassVar[float]  # clocks over counted clocks
    # Clocks until the first blocks run, and until the blocks of a round have their filters and first pixels.
    start: ClassVar[int]
    first: ClassVar[int]

    constants: tuple[Constant, ...]
    words: int  # of one channel's filter, rearranged
    register_words: int  # that a thread holds at a time
    registers: float  # of a thread, estimated
    # Instructions per loaded pixel, per output and per thread.
    of_pixel: float
    of_output: float
    of_thread: float

    @abstractmethod
    def rate(self, warps: int, of_row: float) -> float:
        """Return the instructions per clock of a multiprocessor with these warps, if each issues `of_row` for an input
        row."""


def open_rows(problem: Conv2d, rows: int) -> int:
    """Return how many rows of a thread's outputs use the same input row."""
    return min(rows, ceil_div((problem.r - 1) * problem.dilation[0] + 1, problem.stride[0]))
