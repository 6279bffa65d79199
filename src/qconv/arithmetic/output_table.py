"""A lookup table as the last step of a convolution's epilogue: the requantized value is the index of the output.

Where the output zero point is added after the rounding, the kernel's table begins with the entry of that zero point:
the rounded number is then the index, and nothing is added. Reads go through the L1 cache, which holds the table's two
lines, so that no page needs shared memory for it or a barrier that all of its warps reach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qconv.arithmetic.parameter import ENTRIES
from qconv.arithmetic.quantization import Parameters, Quantization
from qconv.arithmetic.step import Argument, Array, Step, Values


def entry(rounded: str) -> str:
    """Return the C++ line that looks up the rounded and clamped value, without a zero point that is added after
    rounding."""
    return f"tile::load(channel.table + static_cast<unsigned char>(\n        {rounded}))"


def begins_with_zero(quantization: Quantization) -> bool:
    """True where the kernel's table begins with the entry of the output zero point."""
    return quantization.y_zero_point and quantization.mode.zero_point_add == "after_round"


def look_up(quantization: Quantization, indexes: Step) -> Step:
    """Return the step that looks the output up: `entry` in its C++ line, the byte itself in its NumPy line."""
    from_zero = begins_with_zero(quantization)

    def words(q: Quantization, parameters: Parameters) -> Array:
        turned: Array = np.roll(parameters.table, -int(parameters.y_zero_point) if from_zero else 0)
        return turned.view(np.int32)

    def looked_up(value: Array, v: Values) -> Array:
        byte = indexes.numpy(value, v).astype(np.int32) - (v["y_zero"].astype(np.int32) if from_zero else 0)
        outputs: Array = v["table"].view(quantization.out_type)[byte % ENTRIES]
        return outputs

    says = f"{ENTRIES} outputs, one for each byte{', from that of y_zero on' if from_zero else ''}"
    table = Argument("table", "const Output*", False, says, words, ENTRIES // 4)
    return replace(indexes, numpy=looked_up, arguments=(*indexes.arguments, table))
