"""What cost models of all families have in common, so that their answers compare: clocks of a multiprocessor. The
numbers are fitted to what an H200 took (bench/results)."""

from __future__ import annotations

from qconv.arithmetic.activation import BY_NAME
from qconv.arithmetic.epilogue import has_offset
from qconv.op import Problem
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# The clock of an H200 under such load.
CLOCK_MHZ = 1755
# Clocks of a launch, and bytes of device memory that come in one.
LAUNCH, MEMORY = 2900, 15

# What looking an output up takes: four instructions, and two clocks of the first-level cache for 32 of them, in half of
# which others are issued.
LOOK_UP = 8


# Instructions of an output for what is added to its sum (a bias, what an input zero point adds) and for its own zero
# point, by kernels of `mma`, `wgmma` and `pointwise` that differ by these alone.
OFFSET, Y_ZERO_POINT = 1.5, 2.5


def of_activation(problem: Conv2d) -> int:
    """Instructions of an output, with those of a table behind it."""
    q = problem.quantization
    return BY_NAME[q.activation].instructions + LOOK_UP * q.table


def of_residual(problem: Conv2d) -> int:
    """Instructions of an output: the conversion, the difference and the sum, or those of two requantizations."""
    if problem.quantization.residual == "none":
        return 0
    return 7 if problem.quantization.mode.requantizes_before_residual else 4


def of_parameters(problem: Conv2d) -> float:
    """Instructions of an output: its channel's offset, and the zero point."""
    q = problem.quantization
    return OFFSET * has_offset(q) + Y_ZERO_POINT * q.y_zero_point


def moved_bytes(problem: Conv2d) -> float:
    """Rows that a stride passes over do not come; of the others, whole sectors do."""
    down, _ = problem.stride
    if problem.r >= down:
        return problem.io_bytes
    x_bytes = problem.n * problem.h * problem.w * problem.c * problem.quantization.types.x.bytes
    return problem.io_bytes - (1 - problem.r / down) * x_bytes


def copied(problem: Problem, target: Target) -> float:
    """A kernel that no instructions hold up: what its bytes take."""
    return problem.io_bytes / target.processors / MEMORY + LAUNCH


def at_once(a: float, b: float, power: float) -> float:
    """Clocks of two things that overlap: the longer one's, and more where they take about as long, for each is in the
    other's way."""
    longer: float = (a**power + b**power) ** (1 / power)
    return longer


def launched(problem: Conv2d, target: Target, issued: float) -> float:
    """A kernel whose instructions take so long, beside what its bytes take."""
    return at_once(issued, moved_bytes(problem) / target.processors / MEMORY, 3) + LAUNCH
