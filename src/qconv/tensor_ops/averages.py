"""From the sum of a window, or of an image, to the output, as data: each line of C++ beside its NumPy line.

It is ONNX Runtime's arithmetic, operation by operation. The C++ lines see `sum` (float of a window, int of an image),
the kernel's `args`, and of a window `taps`, how many elements were counted; the last returns.
"""

from __future__ import annotations

import numpy as np

from qconv.dtypes import RANGES
from qconv.step import Argument, Step
from qconv.tensor_ops.pooling import AveragePool, GlobalAveragePool, PoolParameters


def _scale(problem: GlobalAveragePool, p: PoolParameters) -> np.float32:
    scale: np.float32 = p.x_scale / (p.y_scale * np.float32(problem.pixels))
    return scale


X_SCALE = Argument("x_scale", "float", False, "the scale of x", lambda problem, p: p.x_scale)
X_ZERO = Argument("x_zero", "int", False, "the zero point of x", lambda problem, p: p.x_zero_point)
Y_SCALE = Argument("y_scale", "float", False, "the scale of y", lambda problem, p: p.y_scale)
Y_ZERO = Argument("y_zero", "float", False, "the zero point of y", lambda problem, p: p.y_zero_point)
SCALE = Argument("scale", "float", False, "x_scale / (y_scale * pixels)", _scale)
OFFSET = Argument("offset", "int", False, "-x_zero * pixels", lambda problem, p: -p.x_zero_point * problem.pixels)
LOWEST = Argument(
    "lowest", "float", False, "the least output, less zero", lambda pr, p: RANGES[pr.out_type][0] - p.y_zero_point
)
HIGHEST = Argument(
    "highest", "float", False, "the largest output, less zero", lambda pr, p: RANGES[pr.out_type][1] - p.y_zero_point
)
ZERO = Argument("zero", "int", False, "the zero point of y", lambda problem, p: p.y_zero_point)
LOW = Argument("low", "float", False, "the least output", lambda problem, p: RANGES[problem.out_type][0])
HIGH = Argument("high", "float", False, "the largest output", lambda problem, p: RANGES[problem.out_type][1])

# What an element adds to the sum of a window.
REAL = Step(
    "real",
    "return tile::multiply(args.x_scale, static_cast<float>(x - args.x_zero));",
    lambda x, v: v["x_scale"] * (x.astype(np.int32) - v["x_zero"]).astype(np.float32),
    (X_SCALE, X_ZERO),
)
OF_WINDOW = (
    Step(
        "average",
        "float value = tile::divide(sum, static_cast<float>(taps));",
        lambda value, v: value / v["taps"].astype(np.float32),
        wants=("divide",),
    ),
    Step(
        "quantize",
        "value = tile::add(tile::divide(value, args.y_scale), args.y_zero);",
        lambda value, v: value / v["y_scale"] + v["y_zero"],
        (Y_SCALE, Y_ZERO),
        ("divide",),
    ),
    Step(
        "round",
        "return static_cast<Output>(tile::round_to_int(tile::clamp(value, args.low, args.high)));",
        lambda value, v: np.rint(np.clip(value, v["low"], v["high"])),
        (LOW, HIGH),
    ),
)
OF_IMAGE = (
    Step(
        "rescale",
        "const float value = tile::multiply(static_cast<float>(sum + args.offset), args.scale);",
        lambda value, v: (value + v["offset"]).astype(np.float32) * v["scale"],
        (OFFSET, SCALE),
    ),
    Step(
        "round",
        "const int rounded = tile::round_to_int(tile::clamp(value, args.lowest, args.highest));",
        lambda value, v: np.rint(np.clip(value, v["lowest"], v["highest"])).astype(np.int32),
        (LOWEST, HIGHEST),
    ),
    Step("zero", "return static_cast<Output>(rounded + args.zero);", lambda value, v: value + v["zero"], (ZERO,)),
)


def arguments(problem: AveragePool | GlobalAveragePool) -> tuple[Argument, ...]:
    steps = (REAL, *OF_WINDOW) if isinstance(problem, AveragePool) else OF_IMAGE
    return tuple(argument for step in steps for argument in step.arguments)
