"""Random data for one convolution: arrays and parameters, drawn until the outputs have the promised variety."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.arithmetic.epilogue import computed
from qconv.arithmetic.parameter import ENTRIES
from qconv.dtypes import ELEMENT_TYPES
from qconv.ops.pixel_shuffle import to_channels
from qconv.ops.window import Windows, gathered, rows_of, sums
from qconv.sampling import calibration, operands
from qconv.sampling.calibration import Style, Sums
from qconv.sampling.operands import Variety

Array = NDArray[Any]

ATTEMPTS = 8
# The most frequent value's largest share of the sampled outputs: below the promised half, because others follow.
MOST_OF_ONE_VALUE = 0.4
# The share of windows in the padding above which those alone may explain one dominant value.
MOSTLY_PADDING = 0.45
# Means of (x - x_zero_point) with which weights can place the sums of a channel. The sums grow with the number of
# products, their spread with its square root.
SPREAD_OF_BYTES = 74.0
LEAST_MEAN, MOST_MEAN, MEAN_AT_ONE = 4.0, 32.0, 69.0


@dataclass(frozen=True)
class Given:
    """The output of the previous layer: its scale, its zero point, and some of its pixels."""

    scale: np.float32
    zero_point: Any
    pixels: Array
    rows: Array

    def read_by(self, seen: Windows) -> Array:
        read: Array = self.rows[np.searchsorted(self.pixels, seen.reads)]
        return read


@dataclass(frozen=True)
class Drawn:
    arrays: tuple[Array, ...]
    parameters: dict[str, Any]
    rows: Array  # the sampled outputs
    lacks: str
    forced: str = ""


def draw_layer(
    seen: Windows,
    rng: np.random.Generator,
    fixed: dict[str, int],
    style: Style,
    towards: int,
    given: Given | None = None,
    next_reads: Array | None = None,
) -> Drawn:
    """Return the first attempt with enough variety, also among the pixels that the next layer reads. Without one,
    return the last attempt with the reason why the problem prevents variety."""
    for attempt in range(ATTEMPTS):
        drawn = _Attempt(seen, rng, fixed, replace(style, attempt=attempt), towards, given).drawn()
        if drawn.lacks:
            continue
        # The next layer's sampled windows may lie in the padding entirely.
        if next_reads is None or not len(next_reads):
            return drawn
        if not Variety.of(drawn.rows[np.searchsorted(seen.pixels, next_reads)]).lacks():
            return drawn
    return replace(drawn, forced=_why(seen, fixed, drawn.lacks)) if drawn.lacks else drawn


def _why(seen: Windows, fixed: dict[str, int], lacks: str) -> str:
    """Return which part of the problem prevents variety, or an empty text if none is known to."""
    padded = int(seen.padding_only.sum())
    if padded >= MOSTLY_PADDING * len(seen.pixels):
        return f"{lacks}: {padded} of {len(seen.pixels)} windows lie in the padding"
    if fixed:
        return f"{lacks}: given are {', '.join(f'{name}={value}' for name, value in fixed.items())}"
    return ""


class _Attempt:
    """One convolution's arrays and parameters, from its operands to its outputs."""

    def __init__(
        self,
        seen: Windows,
        rng: np.random.Generator,
        fixed: dict[str, int],
        style: Style,
        towards: int,
        given: Given | None,
    ) -> None:
        self.seen, self.problem, self.q = seen, seen.problem, seen.problem.quantization
        self.rng, self.fixed, self.style, self.towards, self.given = rng, fixed, style, towards, given
        self.parameters: dict[str, Any] = {}
        self.residual_share = 0.0
        # Without a bias, only the operands can place the sums.
        self.unplaced = self.q.scaled and self.q.bias == "none"

    def drawn(self) -> Drawn:
        p, q, rng = self.problem, self.q, self.rng
        x: tuple[Array, ...]
        channels = (p.k,) if q.per_channel else ()
        x_zero = self.given.zero_point if self.given else self._zero_point("x_zero_point", q.x_type)
        w_zero = self._zero_point("w_zero_point", q.w_type, channels, self.unplaced)
        self.parameters |= {"x_zero_point": x_zero, "w_zero_point": w_zero}
        residual, rows = self._residual()
        if self.given:
            x, read = (), self.given.read_by(self.seen)
        else:
            x = (self._x(int(x_zero), w_zero),)
            read = rows_of(x[0], p.layout, self.seen.reads)
        gathered_x = gathered(self.seen, read, int(x_zero))
        w = operands.alive(operands.uniform(q.w_type, (p.k, p.reduction), rng), w_zero)
        if self.style.coarse and not self.unplaced:
            w = operands.coarse(w, self._by_channel(w_zero))
        acc = self._acc(gathered_x, w)
        if self.unplaced:
            w = self._placed(w, acc, gathered_x)
            acc = self._acc(gathered_x, w)
        self._calibrate(acc, self._sums(acc, w, gathered_x), rows)
        outputs = computed(q, p.checked(self.parameters), acc.astype(np.int32), rows)
        most = 0.5 if self.seen.complete else MOST_OF_ONE_VALUE
        lacks = Variety.of(outputs).lacks(most)
        return Drawn((*x, self._laid_out(w), *residual), self.parameters, outputs, lacks)

    def _zero_point(self, name: str, dtype: str, channels: tuple[int, ...] = (), inside: bool = False) -> Any:
        if not getattr(self.q, name):
            return 0
        if name in self.fixed:
            return np.full(channels, self.fixed[name])
        return operands.zero_points(dtype, channels, self.rng, inside or self.style.attempt > 1)

    def _by_channel(self, value: Any) -> Array:
        return np.broadcast_to(np.asarray(value), (self.problem.k,))[:, np.newaxis]

    def _residual(self) -> tuple[tuple[Array, ...], Array | None]:
        """Draw the residual. Return its arrays, and its int32 values for the sampled outputs."""
        q, rng = self.q, self.rng
        if q.residual == "none":
            self.parameters["residual_zero_point"] = 0
            return (), None
        zero = self._zero_point("residual_zero_point", q.residual, (), self.unplaced)
        low, high = ELEMENT_TYPES[q.residual].range
        if q.residual_zero_point and "residual_zero_point" not in self.fixed and self.unplaced and self.towards:
            # The residual adds values of the wanted sign.
            half = (high - low) // 2
            drawn = low + rng.integers(0, half) if self.towards > 0 else high - rng.integers(0, half)
            zero = np.asarray(drawn, q.residual)
        self.parameters["residual_zero_point"] = zero
        mean = (low + high) / 2 - float(zero)
        # The residual is about as large as the value, and smaller where it has the opposite sign.
        self.residual_share = 0.3 if mean * self.towards < 0 else float(rng.uniform(0.3, 1.0))
        array = operands.uniform(q.residual, self.problem.y_shape, rng)
        by_pixel = to_channels(self.problem, array)
        return (array,), rows_of(by_pixel, self.problem.layout, self.seen.pixels).astype(np.int32)

    def _x(self, zero: int, w_zero: Any) -> Array:
        p, q, rng = self.problem, self.q, self.rng
        x = operands.uniform(q.x_type, p.x_shape, rng)
        if not self.unplaced:
            if self.style.coarse:
                codes = np.arange(2**q.types.x.bits).astype(operands.bits_of(x.dtype))
                x = operands.coarse(codes.view(x.dtype), zero)[x.view(codes.dtype)]
            return x
        one_sided, w_one_sided = operands.is_one_sided(q.x_type, zero), operands.is_one_sided(q.w_type, w_zero)
        low, high = q.types.x.range
        middle = (low + high) / 2
        if not (self.towards or w_one_sided or abs(zero - middle) > 9):
            return x
        if one_sided:
            sign = operands.sign_of_differences(q.x_type, zero)
        elif w_one_sided and self.towards:
            sign = self.towards * operands.sign_of_differences(q.w_type, w_zero)
        else:
            sign = int(rng.choice((-1, 1)))
        mean = float(np.clip(MEAN_AT_ONE / np.sqrt(p.reduction), LEAST_MEAN, MOST_MEAN))
        x = operands.leaning(x, zero + sign * mean * (1 + self.style.attempt / 2), rng)
        if one_sided and w_one_sided:
            x = operands.dimmed(x, zero, 3 if p.layout == "nhwc" else 1, rng)
        return x

    def _acc(self, gathered_x: Array, w: Array) -> Array:
        return sums(self.seen, gathered_x, w - self._by_channel(self.parameters["w_zero_point"]).astype(np.float32))

    def _sums(self, acc: Array, w: Array, gathered_x: Array) -> Sums:
        read = ~self.seen.padding_only
        acc = acc[read] if read.any() else acc
        if len(acc) >= calibration.ENOUGH_PIXELS:
            return Sums.of(acc, acc.std(axis=0))
        # The spread for independent pixels, derived from the weights, where that exceeds the spread of these few
        # pixels.
        real = w - self._by_channel(self.parameters["w_zero_point"]).astype(np.float64)
        derived = float(gathered_x.std()) * np.sqrt((real**2).sum(axis=1))
        return Sums.of(acc, np.maximum(derived, acc.std(axis=0)))

    def _placed(self, w: Array, acc: Array, gathered_x: Array) -> Array:
        """Return filters whose sums suit the activation and the output zero point."""
        added = 0.0
        if self.residual_share:
            low, high = ELEMENT_TYPES[self.q.residual].range
            mean = (low + high) / 2 - float(self.parameters["residual_zero_point"])
            added = self.residual_share * mean / SPREAD_OF_BYTES
        made = self._sums(acc, w, gathered_x)
        wanted = calibration.centers(self.q, self.towards, self.problem.k, self.style, self.rng)
        change = calibration.off_center(made, wanted, self.towards, added)
        means = np.repeat(self._means(gathered_x), self.problem.k_group, axis=0)
        w = operands.shifted(w, means, change, self.rng)
        return operands.alive(w, self.parameters["w_zero_point"])

    def _means(self, gathered_x: Array) -> Array:
        """Return the mean over all pixels of the factors of a weight, by [group, tap and input channel]. An input drawn
        here has one mean for all channels. Over few pixels the means per channel are noise, and weights that follow it
        would place the sums of these pixels only."""
        means: Array = gathered_x.mean(axis=1)
        if self.given:
            return means
        by_tap = means.reshape(len(means), -1, self.problem.c_group)
        return np.broadcast_to(by_tap.mean(axis=2, keepdims=True), by_tap.shape).reshape(means.shape)

    def _calibrate(self, acc: Array, made: Sums, residual: Array | None) -> None:
        q, rng, style, given = self.q, self.rng, self.style, self.parameters
        given["y_zero_point"] = 0
        if not q.scaled:
            if q.bias != "none":
                most = int(np.max(made.spread)) + 1
                given["bias"] = rng.integers(-most, most, self.problem.k, dtype=np.int32, endpoint=True)
            return
        x_scale = self.given.scale if self.given else None
        given["x_scale"], given["w_scale"] = calibration.scales(q, made, x_scale, style, rng)
        unit = np.asarray(given["x_scale"] * given["w_scale"], np.float64)
        added = None
        if residual is not None:
            share = self.residual_share / SPREAD_OF_BYTES
            given["residual_scale"] = calibration.snapped(share * float(np.mean(unit * made.spread)), style)
            added = (residual - int(given["residual_zero_point"])) * float(given["residual_scale"])
        if q.bias != "none":
            wanted = calibration.centers(q, self.towards, self.problem.k, style, rng)
            given["bias"] = calibration.bias(q, made, unit, wanted, added, style, rng)
        if q.activation == "leaky_relu":
            given["slope"] = np.float32(rng.uniform(0.01, 0.5))
        sums32 = acc.astype(np.int32)
        if q.activation == "clamp":
            straight = replace(q, activation="none")
            given |= calibration.ends_of_clamp(
                calibration.real_values(straight, self.problem.k, given, sums32, residual), rng
            )
        if q.mode.requantizes_before_residual:
            own = calibration.own_values(q, self.problem.k, given, sums32)
            zero = self.fixed.get("inner_zero_point") if q.inner_zero_point else 0
            given["inner_scale"], given["inner_zero_point"] = calibration.output(q, own, zero, style, rng)
        if q.requantizes:
            values = calibration.real_values(q, self.problem.k, given, sums32, residual)
            zero = self.fixed.get("y_zero_point") if q.y_zero_point else 0
            given["y_scale"], given["y_zero_point"] = calibration.output(q, values, zero, style, rng)
        if q.table:  # a permutation: every byte has an output of its own
            given["table"] = rng.permutation(ENTRIES).astype(np.uint8).view(q.out_type)

    def _laid_out(self, w: Array) -> Array:
        p = self.problem
        shaped = w.reshape(p.k, p.r, p.s, p.c_group)
        return shaped if p.layout == "nhwc" else np.ascontiguousarray(shaped.transpose(0, 3, 1, 2))
