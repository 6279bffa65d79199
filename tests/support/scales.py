"""Scales that expose the order of the arithmetic. With random scales, one output in a million depends on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qconv import Conv2d
from qconv.ops import registry


def ties(drawn: registry.Sample) -> registry.Sample:
    """Use powers of two, and a bias of whole and half accumulator units: everything is exact until the rounding, and
    many outputs are half-way between two integers."""
    values = drawn.parameters
    scales = [name for name in values if name.endswith("_scale")]
    chosen = {name: np.float32(2) ** np.rint(np.log2(values[name])) for name in scales}
    if _has_real_bias(drawn):
        half = chosen["x_scale"] * chosen["w_scale"] / 2
        chosen["bias"] = np.float32(np.rint(values["bias"] / half) * half)
    return replace(drawn, parameters=values | chosen)


def near_ties(problem: Conv2d, drawn: registry.Sample, seed: int) -> registry.Sample:
    """Make x_scale * w_scale / y_scale a power of two except for the rounding of w_scale, so that the last bit of every
    fp32 operation decides near ties. An fp32 bias is within one accumulator unit of half of one."""
    values, rng = drawn.parameters, np.random.default_rng([seed, 1])
    first = "inner_scale" if "inner_scale" in values else "y_scale"  # the unit of the first rounded value
    x_scale, y_scale = (np.float32(rng.uniform(1, 2) * values[name]) for name in ("x_scale", first))
    shift = np.rint(np.log2(np.asarray(values["w_scale"], np.float64) * x_scale / y_scale))
    w_scale = (y_scale.astype(np.float64) * 2.0**shift / x_scale).astype(np.float32)
    chosen = {"x_scale": x_scale, "w_scale": w_scale, first: y_scale}
    if first != "y_scale":
        y_scale = np.float32(y_scale * 2.0 ** np.rint(np.log2(values["y_scale"] / values[first])))
        chosen["y_scale"] = y_scale
    if _has_real_bias(drawn):
        unit = x_scale.astype(np.float64) * w_scale
        halves = np.rint(values["bias"] / (values["x_scale"] * values["w_scale"]) * 2)
        chosen["bias"] = (halves / 2 * unit).astype(np.float32)
    if "residual_scale" in values:
        halvings = np.rint(np.log2(values["residual_scale"] / values["y_scale"]))
        chosen["residual_scale"] = np.float32(y_scale * 2.0**halvings)
    return replace(drawn, parameters=values | chosen)


VARIANTS = {"ties": lambda p, drawn, seed: ties(drawn), "near": near_ties, "generic": lambda p, drawn, seed: drawn}


def _has_real_bias(drawn: registry.Sample) -> bool:
    return "bias" in drawn.parameters and drawn.parameters["bias"].dtype == np.float32
