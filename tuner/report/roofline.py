"""The roofline of a device: the rates that bound every kernel."""

from __future__ import annotations

from dataclasses import dataclass

from qconv.dtypes import ELEMENT_TYPES
from qconv.op import Problem


@dataclass(frozen=True)
class Roofline:
    """Peak rates of a device. `tops` is dense int8 on the tensor cores, from the data sheet, which is the rate of 8-bit
    floats as well; operands of twice the bytes have half the rate. `tb_per_s` is the measured bandwidth of a device
    copy."""

    tops: float
    tb_per_s: float

    def floor_us(self, problem: Problem) -> float:
        widest = max(ELEMENT_TYPES[tensor.dtype].bytes for tensor in problem.inputs)
        return max(problem.operations * widest / self.tops, problem.io_bytes / self.tb_per_s) / 1e6


ROOFLINES = {"NVIDIA H200": Roofline(tops=1979.0, tb_per_s=4.27)}


def floor_us(problem: Problem, device: str) -> float | None:
    """Return the time that no kernel can beat. None for a device whose rates are unknown: a guess would look like a
    measurement."""
    known = ROOFLINES.get(device)
    return None if known is None else known.floor_us(problem)
