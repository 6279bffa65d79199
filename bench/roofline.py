"""What no kernel can beat, as the scripts here import it."""

from __future__ import annotations

from qconv.tuner.roofline import ROOFLINES, Roofline, floor_us

__all__ = ["ROOFLINES", "Roofline", "floor_us"]
