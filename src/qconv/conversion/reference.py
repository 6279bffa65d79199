"""The oracle of quantize, dequantize, requantize, choose and dynamic: their NumPy lines in order."""

from __future__ import annotations

import numpy as np

from qconv.conversion.choice import choice_real, choice_steps
from qconv.conversion.problem import Choose, Conversion, Dequantize, Dynamic, Quantize, Requantize
from qconv.conversion.steps import Array, Elementwise, Values, prepared, steps
from qconv.dtypes import ELEMENT_TYPES
from qconv.op import Sample


def elementwise(problem: Quantize | Dequantize | Requantize, drawn: Sample) -> tuple[Array, ...]:
    _check(problem, drawn.arrays)
    with np.errstate(all="ignore"):
        return (_elementwise(problem, drawn.arrays),)


def choose(problem: Choose, drawn: Sample) -> tuple[Array, ...]:
    """Return the scales, and the zero points of integers."""
    _check(problem, drawn.arrays)
    with np.errstate(all="ignore"):
        return _choose(problem, drawn.arrays[0])


def dynamic(problem: Dynamic, drawn: Sample) -> tuple[Array, ...]:
    _check(problem, drawn.arrays)
    (x,) = drawn.arrays
    with np.errstate(all="ignore"):
        chosen = _choose(problem, x)
        return (_elementwise(problem.quantize, (x, *chosen)), *chosen)


def _check(problem: Conversion, arrays: tuple[Array, ...]) -> None:
    if len(arrays) != len(problem.inputs):
        names = ", ".join(tensor.name for tensor in problem.inputs)
        raise ValueError(f"{len(arrays)} arrays for {problem}: it takes {names}")
    for tensor, array in zip(problem.inputs, arrays, strict=True):
        if array.shape != tensor.shape or array.dtype != ELEMENT_TYPES[tensor.dtype].numpy:
            raise ValueError(
                f"{tensor.name} is {array.dtype} of shape {array.shape}; {problem} takes {tensor.dtype} of shape "
                f"{tensor.shape}: convert or reshape it"
            )


def _elementwise(problem: Elementwise, arrays: tuple[Array, ...]) -> Array:
    loaded: Values = {tensor.name: array for tensor, array in zip(problem.inputs, arrays, strict=True)}
    value = loaded.pop("x")
    if problem.is_turned and isinstance(problem, Dequantize):
        value = value.transpose(0, 2, 1)
    values = {entry.name: broadcast(problem, entry.numpy(loaded)) for entry in prepared(problem)}
    for step in steps(problem):
        value = step.numpy(value, values)
    if problem.is_turned and isinstance(problem, Quantize):
        value = value.transpose(0, 2, 1)
    return np.ascontiguousarray(value, ELEMENT_TYPES[problem.outputs[0].dtype].numpy)


def broadcast(problem: Conversion, scales: Array) -> Array:
    """Reshape an array with one number per scale so that it broadcasts over the elements."""
    if not problem.block:
        return scales.reshape(1, problem.channels, 1)
    blocks = scales.reshape(problem.outer, problem.blocks, problem.inner)
    return np.repeat(blocks, problem.block, axis=1)[:, : problem.channels]


def _choose(problem: Choose, x: Array) -> tuple[Array, ...]:
    real = choice_real(problem)
    values = x.astype(real.dtype)
    state: Values = {
        "smallest": np.fmin.reduce(values, axis=(0, 2), initial=np.inf),
        "largest": np.fmax.reduce(values, axis=(0, 2), initial=-np.inf),
    }
    for step in choice_steps(problem):
        state |= step.numpy(state)
    return (state["scale"], state["zero_point"]) if problem.has_zero_point else (state["scale"],)
