"""Checks of single run-time values: each returns an array of the right type or raises ValueError."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.arithmetic.activation import BY_NAME
from qconv.dtypes import RANGES
from qconv.host_array import check_unmasked

# A table has one entry per byte value.
ENTRIES = 256
# With a larger scale, the product with a residual would be infinite.
LARGEST_RESIDUAL_SCALE = 2.0**119
# Smaller ratios of scales are denormal, which a GPU may flush to zero.
LEAST_RATIO = 2.0**-126
# Up to this ratio, a sum of two products with bytes fits an int32. Above it, ONNX Runtime's conversion returns the
# wrong end of the range.
MOST_OF_ADD = 2.0**20
# Likewise for a product of two bytes, each without its zero point.
MOST_OF_MUL = 2.0**14
# For messages: what problems with a parameter do, and what others do.
ROUNDS = ("rounds its output before it adds the residual", "does not round its output before it adds the residual")
HAS_ONE = ("has a constant", "has no constant")
LOOKS_UP = ("looks its outputs up in one", "looks no outputs up in one")


def _array(name: str, value: Any) -> NDArray[Any]:
    check_unmasked(name, value)
    return np.asarray(value)


def _broadcast(name: str, value: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    array = _array(name, value)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name}={value!r} must be a number{' or one per output channel' if shape else ''}")
    if array.shape not in ((), (1,), shape):
        of_weights = name.startswith("w_")  # only weights have one per channel
        single = "a scalar (ask for per_channel to give one per channel)" if of_weights else "one number for all"
        rule = f"a scalar or {shape[0]} values" if shape else single
        raise ValueError(f"{name} has shape {array.shape}; it must be {rule}")
    return np.array(np.broadcast_to(array.reshape(()) if array.size == 1 else array, shape))


def check_scale(name: str, value: Any, shape: tuple[int, ...], used: bool) -> NDArray[Any]:
    array = _broadcast(name, value, shape if used else ())
    if not used:
        if array != 1:
            raise ValueError(f"{name}={value!r} was given, but this out_type has no use for it: leave it out")
        return array.astype(np.float64)
    check_positive(name, array)
    # Not rounded to float32 here: most modes do that first, but not all.
    return array.astype(np.float64)


def check_positive(name: str, scales: NDArray[Any]) -> None:
    with np.errstate(over="ignore"):
        single = scales.astype(np.float32)
    if not (np.isfinite(single) & (single > 0)).all():
        raise ValueError(
            f"{name} holds {single.min()}..{single.max()} as float32; every scale must be finite and positive"
        )


def check_residual_scale(value: Any, residual: str, y_scale: NDArray[Any]) -> NDArray[Any] | None:
    if value is None and residual != "none" and residual not in RANGES:
        value = 1.0  # floats need no scale
    if (residual == "none") != (value is None):
        says = "was not given" if value is None else "was given"
        raise ValueError(f"residual_scale {says}, but the problem has residual={residual!r}: make the two agree")
    if value is None:
        return None
    array = check_scale("residual_scale", value, (), True)
    largest = float(np.maximum(array, array / y_scale))
    if largest > LARGEST_RESIDUAL_SCALE:
        raise ValueError(
            f"residual_scale={value!r} is {largest:g}, in real units or in those of the output; it must be at most "
            f"{LARGEST_RESIDUAL_SCALE:g}, or its product would be infinite"
        )
    return array


def _check_agrees(name: str, value: Any, used: bool, rules: tuple[str, str]) -> None:
    if used != (value is not None):
        says, rule = ("was not given", rules[0]) if used else ("was given", rules[1])
        raise ValueError(f"{name} {says}, but the problem {rule}: make the two agree")


def _integers(name: str, value: Any, count: int, dtype: str, what: str) -> NDArray[Any]:
    """Return a vector of integers of a type. `what` says what each is."""
    array = _array(name, value)
    low, high = RANGES[dtype]
    if array.shape != (count,) or array.dtype.kind not in "iu" or not ((array >= low) & (array <= high)).all():
        raise ValueError(
            f"{name} has shape {array.shape} and type {array.dtype}; it must have {count} integers from {low} to "
            f"{high} ({dtype}): {what}"
        )
    return array


def check_scale_of_sum(name: str, value: Any, used: bool, rules: tuple[str, str]) -> NDArray[Any] | None:
    """Check a scale that only problems with a sum have."""
    _check_agrees(name, value, used, rules)
    return check_scale(name, value, (), True) if used else None


def check_constant(value: Any, dtype: str, k: int, used: bool) -> NDArray[Any] | None:
    """Check a constant: a byte for each output channel."""
    _check_agrees("constant", value, used, HAS_ONE)
    if value is None:
        return None
    return np.ascontiguousarray(_integers("constant", value, k, dtype, "one for each output channel"), np.int32)


def check_zero_points(name: str, value: Any, shape: tuple[int, ...], dtype: str, used: bool) -> NDArray[Any]:
    array = _broadcast(name, value, shape if used else ())
    if not used:
        if array != 0:
            raise ValueError(
                f"{name}={value!r} was given, but the problem was made without {name}: ask for it there "
                f"({name}=True), so that it cannot be ignored in silence"
            )
        return array.astype(np.int32)
    check_zero_point(name, value, dtype)
    return array.astype(np.int32)


def check_zero_point(name: str, value: Any, dtype: str) -> None:
    """Check one or several zero points: each is a value of its tensor's type."""
    low, high = RANGES[dtype]
    array = _array(name, value)
    if array.dtype.kind == "f" or not ((array >= low) & (array <= high)).all():
        raise ValueError(f"{name}={value!r} must be integers from {low} to {high} ({dtype})")


def check_bias(value: Any, kind: str, k: int) -> NDArray[Any] | None:
    if kind == "none" or value is None:
        if (kind == "none") != (value is None):
            says = "was not given" if value is None else "was given"
            raise ValueError(f"bias {says}, but the problem has bias={kind!r}: make the two agree")
        return None
    array = _array("bias", value)
    if array.shape != (k,):
        raise ValueError(f"bias has shape {array.shape}; it must be ({k},), one per output channel")
    low, high = RANGES["int32"]
    if kind == "int32":
        if array.dtype.kind not in "iu":
            raise ValueError(
                f"bias must hold int32 integers, not {array.dtype} (or make the problem with bias='float32')"
            )
        if not ((array >= low) & (array <= high)).all():
            raise ValueError(f"bias holds {array.min()}..{array.max()}; it must hold int32 integers, {low} to {high}")
        return np.ascontiguousarray(array, dtype=np.int32)
    if array.dtype.kind != "f":
        raise ValueError(f"bias must hold floats, not {array.dtype} (or make the problem with bias='int32')")
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(array).all():
        raise ValueError(f"bias holds {array.min()}..{array.max()} as float32; every bias must be finite")
    return array


def check_activation_parameter(name: str, value: Any, activation: str) -> NDArray[Any] | None:
    used = name in BY_NAME[activation].parameters
    if value is None:
        if used:
            raise ValueError(f"activation={activation!r} needs {name}: give a number at run time")
        return None
    if not used:
        raise ValueError(f"{name}={value!r} was given, but activation={activation!r} has none: leave it out")
    array = _broadcast(name, value, ())
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    if not np.isfinite(single):
        raise ValueError(f"{name}={value!r} is {single} as float32; it must be finite")
    # Flush a denormal to zero, as a GPU may. The addition makes a negative zero positive.
    return np.asarray(single * (np.abs(single) >= np.finfo(np.float32).tiny) + np.float32(0), np.float32)


def check_table(value: Any, dtype: str, used: bool) -> NDArray[Any] | None:
    """Check a table with one output per requantized byte: entry `i` belongs to the byte `i`; in int8, 255 is -1."""
    _check_agrees("table", value, used, LOOKS_UP)
    if value is None:
        return None
    says = "one output for each byte that is requantized"
    return np.ascontiguousarray(_integers("table", value, ENTRIES, dtype, says), dtype)


def check_ratio(says: str, ratio: Any, most: float) -> None:
    if not LEAST_RATIO <= ratio <= most:
        raise ValueError(
            f"{says} = {ratio:g} in float32: it must be {LEAST_RATIO:g} to {most:g}, or every output would be at an "
            "end of its range; check the scales"
        )
