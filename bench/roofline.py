"""The lower bound on any kernel's time, as the scripts here import it."""

from __future__ import annotations

from qconv.tuner.report.roofline import ROOFLINES, Roofline, floor_us

__all__ = ["ROOFLINES", "Roofline", "floor_us"]
