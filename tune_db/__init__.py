"""Measurements: stored in databases, merged, layered and exported.

Only `Database` needs SQLAlchemy, so it is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qconv.tune_db.layered import Layered, Source
from qconv.tune_db.measurement import OUTCOMES, Measurement
from qconv.tune_db.text import TextLayer

if TYPE_CHECKING:
    from qconv.tune_db.database import Database, Merged

__all__ = ["OUTCOMES", "Database", "Layered", "Measurement", "Merged", "Source", "TextLayer"]


def __getattr__(name: str) -> Any:
    if name not in ("Database", "Merged"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from qconv.tune_db import database

    return getattr(database, name)
