"""The part of the report about one network: what `qconv-tune explain --json` said of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = "qconv"
# The texts of a row, beside numbers that may be unknown.
OF_LAYER = ("name", "op", "runs_on", "why")


@dataclass(frozen=True)
class NetworkLayer:
    """A layer as it stands in a row. `part` is its share of the network's multiplications."""

    name: str
    op: str
    runs_here: bool
    why: str
    part: float | None
    predicted_us: float | None
    measured_us: float | None


@dataclass(frozen=True)
class NetworkPage:
    model: str
    device: str
    layers: tuple[NetworkLayer, ...]
    causes: tuple[str, ...]
    share: float | None
    float_share: float | None
    islands: int
    crossing_bytes: int | None

    @property
    def elsewhere(self) -> int:
        return sum(not layer.runs_here for layer in self.layers)

    @property
    def predicted_us(self) -> float | None:
        """Return the sum of the predicted times, or None where one is unknown."""
        known = [layer.predicted_us for layer in self.layers]
        return None if None in known else sum(time or 0.0 for time in known)

    @property
    def measured_us(self) -> float | None:
        known = [layer.measured_us for layer in self.layers if layer.measured_us is not None]
        return sum(known) if known else None

    @property
    def summary(self) -> str:
        """Return what is known of the whole network, as one sentence."""
        share = "" if self.share is None else f", with {100 * self.share:.1f} % of the multiplications"
        said = [f"{len(self.layers) - self.elsewhere} of {len(self.layers)} layers run on kernels{share}"]
        if self.float_share:
            said.append(f"{100 * self.float_share:.1f} % are of floats")
        if self.islands:
            said.append(f"subgraphs elsewhere: {self.islands}")
        if self.crossing_bytes is not None:
            said.append(f"{self.crossing_bytes:,} bytes cross between the device and the host")
        if self.predicted_us is not None:
            said.append(f"predicted {self.predicted_us:.1f} us")
        if self.measured_us is not None:
            said.append(f"measured {self.measured_us:.1f} us, each layer by itself")
        return "; ".join(said)


def network_of(path: Path) -> NetworkPage:
    """Read the explanation of a network from a file."""
    try:
        return _page(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is no explanation of a network ({error}): give what qconv-tune explain MODEL.onnx --json printed"
        ) from None


def _page(said: Mapping[str, Any]) -> NetworkPage:
    rows = said["layers"]
    whole = sum(row["operations"] or 0 for row in rows)
    return NetworkPage(
        str(said["model"]),
        str(said["device"]),
        tuple(_layer(row, whole) for row in rows),
        tuple(_cause(cause) for cause in said["causes"]),
        said["share"],
        said["float_share"],
        int(said["islands"]),
        said["crossing_bytes"],
    )


def _layer(row: Mapping[str, Any], whole: int) -> NetworkLayer:
    name, op, runs_on, why = (str(row[key]) for key in OF_LAYER)
    part = None if row["operations"] is None or not whole else row["operations"] / whole
    return NetworkLayer(name, op, runs_on == HERE, why, part, row["predicted_us"], row["measured_us"])


def _cause(cause: Mapping[str, Any]) -> str:
    ops = ", ".join(f"{op} {count}" for op, count in cause["ops"].items())
    return f"{ops}: {cause['why']}" + (f"; {cause['cure']}" if cause["cure"] else "")
