"""Constants and formulas shared by all cost models, so that their results are comparable: clocks of one multiprocessor.
The constants are fitted to times measured on an H200 (bench/results)."""

from __future__ import annotations

from qconv.arithmetic.activation import BY_NAME
from qconv.arithmetic.epilogue import has_offset
from qconv.op import Problem
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# Clock of an H200 under this load.
CLOCK_MHZ = 1755
# Clocks per launch, and bytes that device memory delivers to a multiprocessor per clock.
LAUNCH, MEMORY = 2900, 15

# Instructions per table look-up: four that are issued, and two clocks of the L1 cache per 32 outputs, half of which
# overlap with other instructions.
LOOK_UP = 8


# Instructions per output of the constant of its channel: clamp, and add once or twice or multiply.
CONSTANT = {"none": 0, "added": 4, "added_first": 3, "multiplied": 6}

# Instructions per output for the offset of its channel (bias or input zero point) and for its own zero point. Measured
# with kernels of `mma`, `wgmma` and `pointwise` that differ in nothing else.
OFFSET, Y_ZERO_POINT = 1.5, 2.5


def of_activation(problem: Conv2d) -> int:
    """Return the instructions per output of a constant, of the activation and of a table that follows."""
    q = problem.quantization
    return CONSTANT[q.constant] + BY_NAME[q.activation].instructions + LOOK_UP * q.table


def of_residual(problem: Conv2d) -> int:
    """Return the instructions per output of the residual: convert, subtract and add, or round twice."""
    if problem.quantization.residual == "none":
        return 0
    return 7 if problem.quantization.mode.rounds_before_residual else 4


def of_parameters(problem: Conv2d) -> float:
    """Return the instructions per output of its channel's offset and of the zero point."""
    q = problem.quantization
    return OFFSET * has_offset(q) + Y_ZERO_POINT * q.y_zero_point


def moved_bytes(problem: Conv2d) -> float:
    """Return the bytes that move to and from device memory. Input rows that the stride skips are not read; of all
    others, whole sectors are."""
    down, _ = problem.stride
    if problem.r >= down:
        return problem.io_bytes
    return problem.io_bytes - (1 - problem.r / down) * problem.x_bytes


def copied(problem: Problem, target: Target) -> float:
    """Return the time of a kernel bound by device memory alone: its bytes, and a launch."""
    return problem.io_bytes / target.processors / MEMORY + LAUNCH


def at_once(a: float, b: float, power: float) -> float:
    """Return the clocks of two activities that overlap: the longer one's, and more where both take about as long and
    slow each other down."""
    longer: float = (a**power + b**power) ** (1 / power)
    return longer


def launched(problem: Conv2d, target: Target, issued: float) -> float:
    """Return the time of a kernel that issues for `issued` clocks while its bytes move."""
    return at_once(issued, moved_bytes(problem) / target.processors / MEMORY, 3) + LAUNCH
