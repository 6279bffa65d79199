"""Import path of the scripts of bench/, which are not a package: they import each other by name, as when run."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
