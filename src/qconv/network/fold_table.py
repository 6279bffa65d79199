"""Folds the table behind an integer convolution into it: one kernel, which changes no bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qconv.network.graph import Network
from qconv.network.integer import IntegerConvolution, check_smallest
from qconv.network.served import Served, Unserved
from qconv.network.table import Tabulated


def fold_tables_behind(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """A convolution and any function of its output: one convolution, if only the function reads what it gives."""
    tables = {one.x: one for one in served.values() if isinstance(one, Tabulated)}
    convolutions = [one for one in served.values() if isinstance(one, IntegerConvolution) and one.y in tables]
    made = (with_table(network, one, tables[one.y]) for one in convolutions)
    found = {one.layer.name: one for one in made if one is not None}
    gone = {part.name for one in found.values() for part in one.layer.parts[1:]}
    left = (layer for layer in network.layers if layer.name not in gone)
    layers = tuple(found[layer.name].layer if layer.name in found else layer for layer in left)
    return replace(network, layers=layers), {name: one for name, one in {**served, **found}.items() if name not in gone}


def with_table(network: Network, convolution: IntegerConvolution, table: Tabulated) -> IntegerConvolution | None:
    """None where one kernel does not compute both."""
    if convolution.y != table.x or network.only_consumer(convolution.y) != table.layer:
        return None
    # A kernel looks up one byte by another of the same type, once, and neither a sum nor the largest of a window.
    types = {convolution.out_type, table.dtype, str(table.table.dtype)}
    if len(types) > 1 or not convolution.is_single:
        return None
    layer = replace(convolution.layer, outputs=table.layer.outputs, parts=(convolution.layer, table.layer))
    parameters = {**convolution.parameters, "table": table.table}
    made = replace(convolution, layer=layer, y=table.y, parameters=parameters)
    try:
        check_smallest(made)
    except Unserved:
        return None
    return made
