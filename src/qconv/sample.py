"""Random data for a problem: full-range arrays and parameters that spread the outputs over their type."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.conversion import Conversion
from qconv.conversion import sample as conversion_sample
from qconv.dtypes import RANGES
from qconv.fused import Chain
from qconv.op import Problem
from qconv.problem import Conv2d

Array = NDArray[Any]


@dataclass(frozen=True)
class Sample:
    """The arrays of one call in their order, and its parameters by name."""

    arrays: tuple[Array, ...]
    parameters: dict[str, Any] = field(default_factory=dict)


def draw(problem: Problem, seed: int, fixed: dict[str, int] | None = None) -> Sample:
    """`fixed` holds zero points that the caller chose. Same seed, same sample."""
    if isinstance(problem, Conversion):
        return Sample(conversion_sample.draw(problem, seed))
    rng = np.random.default_rng(seed)
    if isinstance(problem, Chain):
        return _draw_chain(problem, rng, fixed or {})
    assert isinstance(problem, Conv2d)
    return _draw_conv2d(problem, rng, fixed or {})


def _draw_chain(problem: Chain, rng: np.random.Generator, fixed: dict[str, int]) -> Sample:
    arrays: list[Array] = []
    parameters: dict[str, Any] = {}
    scale, zero = None, dict[str, Any]()
    for stage, one in problem.stages.items():
        drawn = _draw_conv2d(one, rng, problem.of_stage(stage, fixed) | zero, scale)
        arrays += drawn.arrays[1:] if arrays else drawn.arrays
        names = problem.names(stage)
        parameters |= {names[own]: value for own, value in drawn.parameters.items() if own in names}
        if one is not problem.last:
            scale, zero = drawn.parameters["y_scale"], {"x_zero_point": drawn.parameters["y_zero_point"]}
    return Sample(tuple(arrays), parameters)


def _draw_conv2d(
    problem: Conv2d, rng: np.random.Generator, fixed: dict[str, Any], x_scale: np.float32 | None = None
) -> Sample:
    q = problem.quantization

    def integers(dtype: str, shape: tuple[int, ...]) -> Array:
        low, high = RANGES[dtype]
        return rng.integers(low, high, shape, dtype=dtype, endpoint=True)

    def zero_point(name: str, dtype: str, shape: tuple[int, ...] = ()) -> Any:
        if not getattr(q, name):
            return 0
        return np.full(shape, fixed[name]) if name in fixed else integers(dtype, shape)

    channels = (problem.k,) if q.per_channel else ()
    parameters: dict[str, Any] = {
        "x_zero_point": zero_point("x_zero_point", q.x_type),
        "w_zero_point": zero_point("w_zero_point", q.w_type, channels),
        "y_zero_point": zero_point("y_zero_point", q.out_type),
        "residual_zero_point": zero_point("residual_zero_point", q.residual),
    }
    # The standard deviation of a sum of products of two uniform bytes, about: most outputs fall inside the type, some
    # saturate.
    spread = 74.0**2 * problem.reduction**0.5
    if q.scaled:
        parameters["x_scale"] = np.float32(rng.uniform(0.01, 0.1)) if x_scale is None else x_scale
        parameters["w_scale"] = rng.uniform(0.001, 0.01, channels).astype(np.float32)
    if q.sees_real:
        # Most values on the curve's bend, some on its flat ends.
        bend = np.float32(3 / (spread * np.mean(parameters["w_scale"])))
        if x_scale is None:
            parameters["x_scale"] = bend
        else:
            parameters["w_scale"] = (parameters["w_scale"] * (bend / x_scale)).astype(np.float32)
    if q.requantizes:
        parameters["y_scale"] = np.float32(parameters["x_scale"] * np.mean(parameters["w_scale"]) * spread / 60)
    if q.bias != "none":
        bias = rng.integers(-int(spread), int(spread), (problem.k,), dtype="int32", endpoint=True)
        parameters["bias"] = bias
        if q.bias == "float32":
            noise = rng.uniform(-0.5, 0.5, problem.k)
            parameters["bias"] = ((bias + noise) * parameters["x_scale"] * parameters["w_scale"]).astype(np.float32)
    if q.activation == "leaky_relu":
        parameters["slope"] = np.float32(rng.uniform(0.01, 0.5))
    if q.activation == "clamp":
        unit = float(parameters["x_scale"] * np.mean(parameters["w_scale"]) * spread)
        parameters["low"] = np.float32(rng.uniform(-1.0, 0.0) * unit)
        parameters["high"] = np.float32(rng.uniform(0.0, 1.5) * unit)
    if q.residual != "none":
        # About as large as what it is added to.
        unit = float(parameters["x_scale"] * np.mean(parameters["w_scale"]) * spread)
        parameters["residual_scale"] = np.float32(rng.uniform(0.3, 1.0) * unit / 74)
    return Sample(tuple(integers(tensor.dtype, tensor.shape) for tensor in problem.inputs), parameters)
