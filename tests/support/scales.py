"""Scales that expose the order of the arithmetic. With random scales, one output in a million depends on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
    first, *behind = (name for name in ("own_scale", "inner_scale", "y_scale") if name in values)
    x_scale, unit_of_first = (np.float32(rng.uniform(1, 2) * values[name]) for name in ("x_scale", first))
    shift = np.rint(np.log2(np.asarray(values["w_scale"], np.float64) * x_scale / unit_of_first))
    w_scale = (unit_of_first.astype(np.float64) * 2.0**shift / x_scale).astype(np.float32)
    chosen = {"x_scale": x_scale, "w_scale": w_scale, first: unit_of_first}
    for name, to in zip(behind, (first, *behind), strict=False):
        chosen[name] = _halved(values, name, to, chosen[to])
    if "constant_scale" in values:
        chosen["constant_scale"] = _halved(values, "constant_scale", behind[0], chosen[behind[0]])
    if _has_real_bias(drawn):
        unit = x_scale.astype(np.float64) * w_scale
        halves = np.rint(values["bias"] / (values["x_scale"] * values["w_scale"]) * 2)
        chosen["bias"] = (halves / 2 * unit).astype(np.float32)
    if "residual_scale" in values:
        chosen["residual_scale"] = _halved(values, "residual_scale", "y_scale", chosen["y_scale"])
    return replace(drawn, parameters=values | chosen)


def _halved(values: dict[str, Any], name: str, to: str, unit: Any) -> np.float32:
    """Return the number of halvings or doublings of a unit that is nearest to what a scale was of another."""
    return np.float32(unit * 2.0 ** np.rint(np.log2(values[name] / values[to])))


VARIANTS = {"ties": lambda p, drawn, seed: ties(drawn), "near": near_ties, "generic": lambda p, drawn, seed: drawn}


def _has_real_bias(drawn: registry.Sample) -> bool:
    return "bias" in drawn.parameters and drawn.parameters["bias"].dtype == np.float32
