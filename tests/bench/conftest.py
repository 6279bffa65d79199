"""The scripts of bench/ are no package: they import each other by their names, as when one of them is run."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
