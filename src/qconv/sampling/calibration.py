"""Scales, biases, output zero points and activation parameters, derived from the sums that the data produces.

Each channel's sums, with residual and bias, are placed around the real zero so that values fall on both sides of the
activation's bend. The output's scale and zero point then make the results fill the type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.arithmetic.activation import BY_NAME
from qconv.arithmetic.epilogue import computed
from qconv.arithmetic.quantization import Parameters, Quantization

Array = NDArray[Any]

# A bound on the spread of values that all have one sign and so lie on one side of the bend: closer to it, outputs vary
# more.
SPREAD_OF_ONE_SIGN = 1.2
# With at least this many pixels, a channel's spread is measured rather than derived.
ENOUGH_PIXELS = 16
# The spread assumed for sums that consist of padding only.
OF_NOTHING = 1000.0
# With fewer codes between the output zero point and an end of the type, that side has no room.
ROOM = 40
# Fractions of the outputs that exceed an end of the type; one is drawn for each end.
SATURATED = (0.0, 0.005, 0.02, 0.05)


@dataclass(frozen=True)
class Style:
    """How data is drawn. `powers`: scales and the multiplier are powers of two, which makes ties. `coarse`: also,
    differences from the zero points are multiples of 8, which makes many ties. `attempt`: the number of earlier draws
    that lacked variety; later ones avoid what makes variety hard."""

    powers: bool
    coarse: bool
    attempt: int = 0


@dataclass(frozen=True)
class Sums:
    """The accumulator of each channel over some pixels, before the bias."""

    center: Array
    spread: Array

    @classmethod
    def of(cls, acc: Array, spread: Array) -> Sums:
        pooled = float(np.sqrt(np.mean(spread**2)))
        return cls(acc.mean(axis=0), np.maximum(spread, pooled / 20 or OF_NOTHING))


def side(q: Quantization, y_zero_point: int | None) -> int:
    """Return the sign that most values before the activation should have, 0 for either. With a relu, or with no room on
    one side of the output zero point, values of the other sign would all become one output. `y_zero_point` is None
    where it is not fixed."""
    inputs = BY_NAME[q.activation].inputs
    if inputs.one_sign:
        return 1
    if q.requantizes and y_zero_point is not None and not inputs.one_sided:
        low, high = q.limits
        if y_zero_point - low < ROOM:
            return 1
        return -1 if high - y_zero_point < ROOM else 0
    return 0


def centers(q: Quantization, towards: int, channels: int, style: Style, rng: np.random.Generator) -> Array:
    """Return the wanted mean of each channel's values, relative to the real zero, in units of their spread."""
    if towards:
        return towards * (rng.uniform(0.35, 1.1, channels) + min(0.6 * style.attempt, 1.8))
    end = BY_NAME[q.activation].inputs.center
    return rng.uniform(-end, end, channels)


def off_center(sums: Sums, wanted: Array, towards: int, added: Array | float) -> Array:
    """Return the change that the mean of each channel needs; 0 where it is acceptable. `added` is the mean of the
    residual's contribution, in units of the spread."""
    now = sums.center / sums.spread + added
    bad = (now * towards < np.abs(wanted) * 0.9) | (now * towards > 3) if towards else np.abs(now) > 2
    return np.where(bad, (wanted - now) * sums.spread, 0.0)


def snapped(value: Any, style: Style) -> Any:
    """Round to fp32, or to the nearest power of two where the style asks for it."""
    return np.float32(2.0 ** np.rint(np.log2(value)) if style.powers else value)


def scales(
    q: Quantization, sums: Sums, x_scale: np.float32 | None, style: Style, rng: np.random.Generator
) -> tuple[np.float32, Array]:
    """Return x_scale, drawn unless given, and w_scale."""
    x = snapped(np.exp(rng.uniform(np.log(0.003), np.log(0.3))), style) if x_scale is None else x_scale
    extent = sums.spread if q.bias != "none" else np.hypot(sums.spread, sums.center)
    pooled = float(np.sqrt(np.mean(extent**2)))
    spread = BY_NAME[q.activation].inputs.spread
    if spread is not None:
        real = rng.uniform(*spread)
        if q.bias == "none" and np.median(np.abs(sums.center) / sums.spread) > 2:
            real = min(real, SPREAD_OF_ONE_SIGN) if not style.attempt else real * rng.uniform(0.3, 1.5)
        if q.residual != "none":
            real *= 0.75
    else:
        real = float(x) * np.exp(rng.uniform(np.log(5e-4), np.log(0.05))) * pooled
    if not q.per_channel:
        return x, snapped(real / (float(x) * pooled), style)
    uneven = np.exp(rng.uniform(-0.5, 0.5, len(extent)))
    return x, snapped(real * uneven / (float(x) * extent), style)


def bias(
    q: Quantization,
    sums: Sums,
    unit: Array,
    wanted: Array,
    residual: Array | None,
    style: Style,
    rng: np.random.Generator,
) -> Array:
    """Return the bias that moves each channel's values to the wanted means. `unit` is the value of one accumulator
    unit, in the units in which the residual is added."""
    mean, spread = (0.0, 0.0) if residual is None else (residual.mean(), residual.std())
    total = np.hypot(sums.spread, spread / unit)
    whole = np.rint(wanted * total - sums.center - mean / unit)
    if style.coarse:
        whole = np.rint(whole / 64) * 64
    whole = np.clip(whole, -(2**31), 2**31 - 1)
    if q.bias == "int32":
        return whole.astype(np.int32)
    noise = 0.0 if style.powers else rng.uniform(-0.5, 0.5, len(whole))
    return ((whole + noise) * unit).astype(np.float32)


def real_values(q: Quantization, k: int, given: dict[str, Any], acc: Array, residual: Array | None) -> Array:
    """Return the outputs of the activation, in real units."""
    if q.sums_bytes:
        return _sum_of_requantized(q, k, given, acc, residual)
    mode = replace(q.mode, residual_add="multiply_add") if q.mode.adds_dequantized else q.mode
    real = replace(q, out_type="float32", y_zero_point=False, table=False, mode=mode)
    unused = ("y_scale", "y_zero_point", "inner_scale")
    known = {name: value for name, value in given.items() if name not in unused}
    return computed(real, Parameters(**known).checked(real, k), acc, residual)


def own_values(q: Quantization, k: int, given: dict[str, Any], acc: Array) -> Array:
    """Return the values that are rounded before anything is added, in real units."""
    mode = replace(q.mode, residual_add="multiply_add")
    none: dict[str, Any] = {
        "residual": "none",
        "residual_zero_point": False,
        "inner_zero_point": False,
        "constant": "none",
        "activation": "none",
    }
    behind = ("residual", "inner", "own", "constant", "slope", "low", "high")
    known = {name: value for name, value in given.items() if name.split("_")[0] not in behind}
    return real_values(replace(q, mode=mode, **none), k, known, acc, None)


def before_residual(q: Quantization, k: int, given: dict[str, Any], acc: Array) -> Array:
    """Return the values that are rounded before the residual is added, in real units."""
    own = own_values(q, k, given, acc)
    if q.constant == "none":
        return own
    real = (given["constant"].astype(np.float64) - int(given["constant_zero_point"])) * float(given["constant_scale"])
    byte = _byte(q, given, "own", own)
    made: Array = byte * real if q.constant == "multiplied" else byte + real
    return made


def constant(q: Quantization, k: int, own: Array, style: Style, rng: np.random.Generator) -> dict[str, Any]:
    """Return the parameters of a constant that moves the channels of its own output apart, or scales each, which keeps
    its spread."""
    low, high = q.types.y.range
    scale, zero = output(q, own, None, style, rng)
    multiplies = q.constant == "multiplied"
    least = low + 2 * ROOM if multiplies else low  # so that no channel is multiplied with zero
    return {
        "own_scale": scale,
        "own_zero_point": zero,
        "constant": rng.integers(least, high, k, dtype=np.int32, endpoint=True),
        "constant_scale": snapped((0.01 if multiplies else float(scale)) * rng.uniform(0.1, 0.8), style),
        "constant_zero_point": rng.integers(low, low + ROOM if multiplies else high, endpoint=True),
    }


def _byte(q: Quantization, given: dict[str, Any], of: str, values: Array) -> Array:
    """Return the real numbers of values that were rounded to bytes."""
    zero, scale = int(given[f"{of}_zero_point"]), float(given[f"{of}_scale"])
    rounded: Array = (np.clip(np.rint(values / scale) + zero, *q.limits) - zero) * scale
    return rounded


def _sum_of_requantized(q: Quantization, k: int, given: dict[str, Any], acc: Array, residual: Array | None) -> Array:
    values = before_residual(q, k, given, acc)
    if residual is not None:
        added = (residual - int(given["residual_zero_point"])) * float(given["residual_scale"])
        values = _byte(q, given, "inner", values) + added
    return np.maximum(values, 0) if q.activation == "relu" else values


def scale_of_float8(q: Quantization, values: Array, rng: np.random.Generator) -> np.float32:
    """Return a scale with which values reach the end of the output's type, an 8-bit float, or some of them saturate."""
    return np.float32((float(np.abs(values).max()) or 1.0) / (q.types.y.largest_finite * rng.uniform(0.5, 1.2)))


def ends_of_clamp(values: Array, rng: np.random.Generator) -> dict[str, np.float32]:
    low, high = np.quantile(values, (rng.uniform(0.03, 0.25), rng.uniform(0.75, 0.97)))
    return {"low": np.float32(low), "high": np.float32(high)}


def output(
    q: Quantization, values: Array, zero: int | None, style: Style, rng: np.random.Generator
) -> tuple[np.float32, Any]:
    """Return y_scale and, unless given, y_zero_point, so that outputs fill the type and the drawn fraction of them
    saturates."""
    low, high = q.limits
    beyond = (0.0, 0.0) if style.attempt else rng.choice(SATURATED, 2)
    bottom, top = (float(end) for end in np.quantile(values, (beyond[0], 1 - beyond[1])))
    bottom, top = min(bottom, 0.0), max(top, 0.0)
    if top - bottom <= 0:
        top = 1.0
    if zero is None:
        # Filling the type to its ends would make its own clamp act as relu, so leave room in most samples.
        filled = 1.0 if style.attempt or rng.random() < 0.25 else rng.uniform(0.6, 1.0)
        step = (top - bottom) / ((high - low) * filled)
    else:
        # A side without room does not count.
        rooms = [(end, room) for end, room in ((top, high - zero), (-bottom, zero - low)) if end > 0 and room > 0]
        steps = sorted(end / room for end, room in rooms) or [1.0]
        step = steps[-1] if (top - bottom) / steps[-1] >= 2 * ROOM else steps[0]
    scale = np.float32(2.0 ** np.ceil(np.log2(step) - 0.3) if style.powers else step)
    if zero is not None:
        return scale, np.full((), zero)
    least = int(np.ceil(low - bottom / scale))
    most = int(np.floor(high - top / scale))
    drawn = rng.integers(least, most + 1) if least <= most else (least + most) // 2
    return scale, np.asarray(np.clip(drawn, low, high), q.out_type)
