"""What no kernel can beat: a device's peak rates against a problem's operations and bytes."""

from __future__ import annotations

from dataclasses import dataclass

from qconv.op import Problem


@dataclass(frozen=True)
class Roofline:
    """`tops`: dense int8 on the tensor cores, by the data sheet. `tb_per_s`: what a device copy was seen to move."""

    tops: float
    tb_per_s: float

    def floor_us(self, problem: Problem) -> float:
        return max(problem.operations / self.tops, problem.io_bytes / self.tb_per_s) / 1e6


ROOFLINES = {"NVIDIA H200": Roofline(tops=1979.0, tb_per_s=4.27)}


def floor_us(problem: Problem, device: str) -> float | None:
    """None for a device whose rates nobody has written down: a guess would look like a measurement."""
    known = ROOFLINES.get(device)
    return None if known is None else known.floor_us(problem)
