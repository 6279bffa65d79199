"""One draw of random data for a convolution of integers: arrays and parameters, from its operands to its outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.arithmetic.epilogue import computed
from qconv.arithmetic.parameter import ENTRIES
from qconv.dtypes import ELEMENT_TYPES
from qconv.ops.frames import beside_each_other
from qconv.ops.pixel_shuffle import to_channels
from qconv.ops.window import Windows, gathered, rows_of, sums
from qconv.sampling import calibration, operands
from qconv.sampling.calibration import Style, Sums
from qconv.sampling.operands import Variety

Array = NDArray[Any]

# The most frequent value's largest share of the sampled outputs: below the promised half, because others follow.
MOST_OF_ONE_VALUE = 0.4
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
    largest: int = 0  # see `Drawn`

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
    largest: int = 0  # of floats that another convolution reads: a bound on whole numbers, 0 where there are others


class Attempt:
    """One convolution's arrays and parameters, from its operands to its outputs."""

    def __init__(
        self,
        seen: Windows,
        rng: np.random.Generator,
        fixed: dict[str, int],
        style: Style,
        towards: int,
        given: Given | None,
        feeds: bool,
    ) -> None:
        self.feeds = feeds  # another convolution reads the outputs
        self.seen, self.problem, self.q = seen, seen.problem, seen.problem.quantization
        self.rng, self.fixed, self.style, self.towards, self.given = rng, fixed, style, towards, given
        self.parameters: dict[str, Any] = {}
        self.residual_share = 0.0
        # Without a bias, only the operands can place the sums.
        self.unplaced = self.q.scaled and self.q.bias == "none"

    def drawn(self) -> Drawn:
        p, q = self.problem, self.q
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
            read = rows_of(beside_each_other(p, x[0], x_zero), p.layout, self.seen.reads)
        gathered_x = gathered(self.seen, read, int(x_zero))
        w = self._w(w_zero)
        acc = self._acc(gathered_x, w)
        if self.unplaced:
            w = self._placed(w, acc, gathered_x)
            acc = self._acc(gathered_x, w)
        self._calibrate(acc, self._sums(acc, w, gathered_x), rows)
        outputs = computed(q, p.checked(self.parameters), acc.astype(q.types.sum.numpy), rows)
        most = 0.5 if self.seen.complete else MOST_OF_ONE_VALUE
        lacks = Variety.of(outputs).lacks(most)
        return self._stored(Drawn((*x, self._laid_out(w), *residual), self.parameters, outputs, lacks))

    def _stored(self, drawn: Drawn) -> Drawn:
        """Return what a caller passes for these operands."""
        return drawn

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
        if not q.types.residual_is_integer:
            return self._real_residual()
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
        return (array,), self._rows_of_residual(array).astype(np.int32)

    def _real_residual(self) -> tuple[tuple[Array, ...], Array | None]:
        assert self.q.types.residual is not None
        self.parameters["residual_zero_point"] = 0
        self.residual_share = float(self.rng.uniform(0.3, 1.0))
        drawn = self.rng.standard_normal(self.problem.y_shape, np.float32) * np.float32(SPREAD_OF_BYTES)
        array = drawn.astype(self.q.types.residual.numpy)
        return (array,), self._rows_of_residual(array).astype(np.float32)

    def _rows_of_residual(self, array: Array) -> Array:
        return rows_of(to_channels(self.problem, array), self.problem.layout, self.seen.pixels)

    def _w(self, zero: Any) -> Array:
        """Draw the filters, by [output channel, element]."""
        w = operands.alive(operands.uniform(self.q.w_type, (self.problem.k, self.problem.reduction), self.rng), zero)
        return operands.coarse(w, self._by_channel(zero)) if self.style.coarse and not self.unplaced else w

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
        if self.residual_share and self.q.types.residual_is_integer:
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
        made_sums = acc.astype(q.types.sum.numpy)
        if q.activation == "clamp":
            straight = replace(q, activation="none")
            given |= calibration.ends_of_clamp(
                calibration.real_values(straight, self.problem.k, given, made_sums, residual), rng
            )
        if q.constant != "none":
            own = calibration.own_values(q, self.problem.k, given, made_sums)
            given |= calibration.constant(q, self.problem.k, own, style, rng)
        if q.mode.requantizes_before_residual:
            own = calibration.before_residual(q, self.problem.k, given, made_sums)
            zero = self.fixed.get("inner_zero_point") if q.inner_zero_point else 0
            given["inner_scale"], given["inner_zero_point"] = calibration.output(q, own, zero, style, rng)
        if q.mode.adds_dequantized:
            own = calibration.own_values(q, self.problem.k, given, made_sums)
            given["inner_scale"] = calibration.scale_of_float8(q, own, rng)
        if q.has_y_scale:
            values = calibration.real_values(q, self.problem.k, given, made_sums, residual)
        if q.requantizes:
            zero = self.fixed.get("y_zero_point") if q.y_zero_point else 0
            given["y_scale"], given["y_zero_point"] = calibration.output(q, values, zero, style, rng)
        elif q.has_y_scale:
            given["y_scale"] = calibration.scale_of_float8(q, values, rng)
        if q.table:  # a permutation: every byte has an output of its own
            given["table"] = rng.permutation(ENTRIES).astype(np.uint8).view(q.out_type)

    def _laid_out(self, w: Array) -> Array:
        p = self.problem
        shaped = w.reshape(p.k, p.r, p.s, p.c_group)
        return shaped if p.layout == "nhwc" else np.ascontiguousarray(shaped.transpose(0, 3, 1, 2))
