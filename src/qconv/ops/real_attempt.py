"""One draw of random data for a convolution of floats. The sums of floats depend on their order, which is a kernel's
own; these are exact in any order, so that every kernel has to give the same bits.

Operands are whole numbers times a power of two of the tensor, and the magnitudes of a sum's products add up to a number
that the accumulator holds exactly. A convolution that another one reads gives whole numbers as well. Where its
activation does not, the filters behind it read one element each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qconv.dtypes import FLOAT8
from qconv.ops.attempt import Array, Attempt, Drawn
from qconv.ops.window import exact_sums
from qconv.sampling import calibration

# Whole numbers that the accumulator holds. On sm_90, that of 8-bit floats has 13 bits behind the leading one.
MOST_SUM, MOST_SUM_OF_8_BITS = 2**22, 2**13
# The largest whole number below which a type holds all.
MOST_FACTOR = {
    "float8_e4m3fn": 2**4,
    "float8_e5m2": 2**3,
    "float16": 2**11,
    "bfloat16": 2**8,
    "float32": 2**11,
    "tfloat32": 2**11,
}
# The exponents of a tensor's power of two.
LEAST_POWER, MOST_POWER = -4, 4
# Activations that give whole numbers of whole numbers.
WHOLE = ("none", "relu", "relu6")


class RealAttempt(Attempt):
    """Arrays hold whole numbers as float32 until `_stored`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.unplaced = False
        narrow = self.q.x_type in FLOAT8 or self.q.w_type in FLOAT8
        self.most_sum = MOST_SUM_OF_8_BITS if narrow else MOST_SUM
        # No factor of a product has a larger magnitude.
        self.largest_x, self.largest_w = self._largest_factors()

    def _largest_factors(self) -> tuple[int, int]:
        most_x, most_w = MOST_FACTOR[self.q.x_type], MOST_FACTOR[self.q.w_type]
        if self.given is not None:
            most_x = self.given.largest
        elif self.feeds:
            most_x = 1  # the sums are factors of the next convolution
        if self.given is not None and not most_x:
            return 0, most_w  # of one product each
        room = max(1, self.most_sum // self.problem.reduction)
        if self.given is None:
            most_x = min(most_x, int(2 ** self.rng.uniform(0, np.log2(room))))
        return most_x, 1 if self.feeds else int(np.clip(room // most_x, 1, most_w))

    def _x(self, zero: int, w_zero: Any) -> Array:
        return _whole_numbers(self.rng, self.problem.x_shape, self.largest_x)

    def _w(self, zero: Any) -> Array:
        """Draw filters. Where a sum of all products is too large for the accumulator, all but some elements are 0."""
        shape = (self.problem.k, self.problem.reduction)
        w = _whole_numbers(self.rng, shape, self.largest_w)
        kept = max(1, self.most_sum // (self.largest_x * self.largest_w)) if self.largest_x else 1
        if kept < shape[1]:
            places = np.argsort(self.rng.random(shape), axis=1)[:, kept:]
            np.put_along_axis(w, places, 0, axis=1)
        dead = ~w.any(axis=1)
        w[dead, self.rng.integers(0, shape[1], int(dead.sum()))] = 1
        return w

    def _acc(self, gathered_x: Array, w: Array) -> Array:
        return exact_sums(self.seen, gathered_x, w)

    def _calibrate(self, acc: Array, made: calibration.Sums, residual: Array | None) -> None:
        if not self.feeds:
            super()._calibrate(acc, made, residual)
            return
        q, k = self.q, self.problem.k
        self.parameters |= {"x_scale": 1.0, "w_scale": np.ones(k) if q.per_channel else 1.0, "y_zero_point": 0}
        if q.bias != "none":
            most = max(1, int(np.max(made.spread)))
            self.parameters["bias"] = self.rng.integers(-most, most + 1, k).astype(np.float32)
        if q.activation == "leaky_relu":
            self.parameters["slope"] = np.float32(0.25)
        if q.activation == "clamp":
            self.parameters |= {"low": np.float32(-8), "high": np.float32(24)}

    def _stored(self, drawn: Drawn) -> Drawn:
        """Multiply each operand by a power of two, divide its scale by the same, and convert it to its type."""
        x_power, w_power = (float(2.0 ** self.rng.integers(LEAST_POWER, MOST_POWER + 1)) for _ in range(2))
        if self.feeds or self.given is not None:
            x_power = w_power = 1.0
        arrays, parameters = list(drawn.arrays), dict(drawn.parameters)
        at_w = 0 if self.given is not None else 1
        if at_w:
            arrays[0] = (arrays[0] * np.float32(x_power)).astype(self.q.types.x.numpy)
        arrays[at_w] = (arrays[at_w] * np.float32(w_power)).astype(self.q.types.w.numpy)
        for name, power in (("x_scale", x_power), ("w_scale", w_power)):
            parameters[name] = np.asarray(parameters[name], np.float32) / np.float32(power)
        return Drawn(tuple(arrays), parameters, drawn.rows, drawn.lacks, largest=self._largest_output())

    def _largest_output(self) -> int:
        """Return a bound on the magnitude of whole outputs; 0 where they are none."""
        if not self.feeds or self.q.activation not in WHOLE:
            return 0
        bias = self.parameters.get("bias")
        added = 0 if bias is None else int(np.abs(bias).max())
        return self.problem.reduction * self.largest_x * self.largest_w + added


def _whole_numbers(rng: np.random.Generator, shape: tuple[int, ...], most: int) -> Array:
    return rng.integers(-most, most, shape, dtype=np.int32, endpoint=True).astype(np.float32)
