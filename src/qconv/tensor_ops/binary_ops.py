"""The ops `add` and `mul`: their grammar, their options, and their random data."""

from __future__ import annotations

from typing import Any

import numpy as np

from qconv import operands
from qconv.dtypes import RANGES
from qconv.op import Array, Op, Sample
from qconv.option import Option
from qconv.tensor_ops.arithmetic import compute
from qconv.tensor_ops.binary import Add, Binary, Mul
from qconv.tensor_ops.problem import ACTIVATIONS, BYTES

# The shares of samples whose scales are powers of two, which make ties, and hundredths, which almost do.
POWERS_OF_TWO, HUNDREDTHS = 0.25, 0.25
# Outputs per standard deviation of what is rounded: some reach the ends of their type, most do not.
LEAST_SPREAD, MOST_SPREAD = 25.0, 90.0
# So far from its zero point is an element that meets many others: otherwise their products were all alike.
LEAST_DISTANCE = 32

OPTIONS = (
    Option("shape", "add, mul: of a, and of the output.", "extents", required=True),
    Option("b_shape", "add, mul: of b, which is broadcast to that of a. Default: the same.", "extents"),
    Option("a_type", "add, mul: of a. Default int8.", choices=BYTES),
    Option("b_type", "add, mul: of b. Default int8.", choices=BYTES),
    Option("out_type", "add, mul: int8 (default), uint8.", metavar="TYPE"),
    Option("activation", "add, mul: none or relu.", choices=ACTIVATIONS),
)


def _op(kind: type[Binary], made: str) -> Op:
    return Op(
        name=kind.op,
        says=f"The {made} of two quantized tensors, the second of which may be smaller.",
        problems=(kind,),
        read=kind.read,
        ask=lambda given: _asked(kind, given),
        options=OPTIONS,
        draw=draw,
        compute=compute,
    )


def _asked(kind: type[Binary], given: dict[str, Any]) -> Binary:
    shapes = [given["shape"], given.get("b_shape", given["shape"])]
    a_shape, b_shape = ((shape,) if isinstance(shape, int) else shape for shape in shapes)
    rest = {name: value for name, value in given.items() if name not in ("shape", "b_shape")}
    return kind.of(a_shape, b_shape, **rest)


def draw(problem: Binary, seed: int, fixed: dict[str, int]) -> Sample:
    """Full-range arrays, and scales with which the outputs spread over their type."""
    rng = np.random.default_rng(seed)
    a_zero = _zero_point(problem.a_type, problem, rng)
    b_zero = _zero_point(problem.b_type, problem, rng)
    a, b = (operands.uniform(tensor.dtype, tensor.shape, rng) for tensor in problem.inputs)
    if problem.repeat > 1 and isinstance(problem, Mul):
        b = _far_from(b, b_zero, problem.activation == "relu")
    kind = rng.random()
    powers = kind < POWERS_OF_TWO
    real_a, real_b = a - np.float64(a_zero), (b - np.float64(b_zero))[:, np.newaxis, :]
    share = 2.0 ** rng.integers(-2, 3) if powers else np.exp(rng.uniform(-1.2, 1.2))
    values = real_a + share * real_b if isinstance(problem, Add) else real_a * real_b
    ratio = rng.uniform(LEAST_SPREAD, MOST_SPREAD) / max(float(values.std()), 1.0)
    if powers:
        ratio = 2.0 ** np.rint(np.log2(ratio))
    low, high = RANGES[problem.out_type]
    y_zero = np.clip(np.rint((low + high) / 2 + rng.uniform(-30, 30) - ratio * values.mean()), low, high)
    y_scale = 2.0 ** rng.integers(-6, 3) if powers else np.exp(rng.uniform(-5, 1))
    if isinstance(problem, Add):
        a_scale, b_scale = ratio * y_scale, ratio * share * y_scale
    else:
        a_scale = 2.0 ** rng.integers(-6, 3) if powers else np.exp(rng.uniform(-5, 1))
        b_scale = ratio * y_scale / a_scale
    scales = {"a_scale": a_scale, "b_scale": b_scale, "y_scale": y_scale}
    if POWERS_OF_TWO <= kind < POWERS_OF_TWO + HUNDREDTHS and isinstance(problem, Add):
        unit = rng.uniform(0.2, 1.0) / min(scales.values())  # so that none of them is nearly zero
        scales = {name: round(float(scale * unit), 2) for name, scale in scales.items()}
    zeros = {"a_zero_point": a_zero, "b_zero_point": b_zero, "y_zero_point": int(y_zero)}
    return Sample((a, b), {name: float(np.float32(value)) for name, value in scales.items()} | zeros)


def _zero_point(dtype: str, problem: Binary, rng: np.random.Generator) -> int:
    """A relu needs room above."""
    low, high = RANGES[dtype]
    if problem.activation == "relu":
        return int(rng.integers(low, low + (high - low) // 4))
    return int(operands.zero_points(dtype, (), rng, False))


def _far_from(b: Array, zero: int, above: bool) -> Array:
    """Elements near the zero point, or of the wrong side, move to the end of the range that is farther."""
    low, high = RANGES[str(b.dtype)]
    end = high if above or high - zero > zero - low else low
    near = np.abs(b.astype(np.int32) - zero) < LEAST_DISTANCE
    return np.where(near | (above & (b < zero)), end, b).astype(b.dtype)


OPS = (_op(Add, "sum"), _op(Mul, "product"))
