"""The columns of the report's table of problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qconv.tuner.report.layer import Layer


@dataclass(frozen=True)
class Column:
    name: str
    says: str
    form: str
    value: Callable[[Layer], float | None]

    def sorted(self, layer: Layer) -> float | str:
        """Return the value as the page sorts it: unknown ones are empty."""
        value = self.value(layer)
        return "" if value is None else value

    def text(self, layer: Layer) -> str:
        value = self.value(layer)
        return "" if value is None else self.form.format(value)


COLUMNS = (
    Column("default us", "the untuned default's time", "{:,.2f}", lambda layer: layer.default_us),
    Column("tuned us", "the winner's time", "{:,.2f}", lambda layer: layer.best_us),
    Column("gain", "default over tuned, both timed in one race", "{:.2f}x", lambda layer: layer.gain),
    Column("TOPS", "10^12 operations per second; a product and its sum are two", "{:,.1f}", lambda layer: layer.tops),
    Column("floor us", "the roofline's time, which no kernel can beat", "{:,.2f}", lambda layer: layer.floor_us),
    Column("of floor", "floor over tuned: 100 % is the roofline", "{:.0%}", lambda layer: layer.of_floor),
    Column("peer us", "the best peer's time", "{:,.2f}", lambda layer: layer.peer_us),
    Column("over peer", "the peer's time over ours", "{:.2f}x", lambda layer: layer.over_peer),
    Column("trials", "configs measured", "{}", lambda layer: layer.trials),
)


def columns_of(layers: Sequence[Layer]) -> list[Column]:
    """Return the columns that have a value for some layer."""
    return [column for column in COLUMNS if any(column.value(layer) is not None for layer in layers)]
