"""The table of agreement, and which rows it says are beyond the bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agreement_table import agreement, layers_beyond, misses

ITSELF = {"outputs": [1000, 100, 900], "largest": None, "same": 1, "decisions": 2}


def row(**more: Any) -> dict[str, Any]:
    return {
        "name": "a", "types": "u8s8", "trained": False, "inputs": 16, "outputs": [100_000, 10, 0], "largest": None,
        "same": 199, "decisions": 200, "layers": {"QLinearConv": [50_000, 2, 0], "QGemm": [50_000, 0, 1]},
        "of_floats": {"Sub": 1e-4}, "nudged": ITSELF, **more,
    }  # fmt: skip


def test_a_row_is_within_the_bounds_or_names_what_misses_them() -> None:
    assert [*misses(row())] == []
    assert [*misses(row(outputs=[100_000, 11, 0]))] == ["outputs"]
    assert [*misses(row(outputs=[100_000, 0, 1]))] == ["outputs"]
    assert [*misses(row(largest=1e-3))] == []
    assert [*misses(row(largest=1.1e-3))] == ["floats"]
    assert [*misses(row(same=198))] == []
    assert [*misses(row(same=198, trained=True))] == ["decisions"]


def test_layers_beyond_the_bounds_are_named() -> None:
    assert layers_beyond(row()) == ["QGemm"]
    layers = {"few": [10, 1, 0], "many": [100_000, 11, 0], "enough": [100_000, 10, 0]}
    assert layers_beyond(row(layers=layers, of_floats={"Sub": 2e-3, "Div": 1e-3})) == ["many", "Sub"]


def test_the_table_has_a_line_a_row_with_trained_networks_first(tmp_path: Path) -> None:
    rows = [
        row(),
        row(name="b", types="s8s8", trained=True, by_default=ITSELF, outputs=[0, 0, 0], largest=0.5),
        {"name": "c", "types": "u8s8", "missing": "it is not supported"},
    ]
    path = tmp_path / "zoo_agreement.json"
    path.write_text(json.dumps({"rows": rows}))
    _, _, first, second, empty, said = agreement(path).splitlines()
    alone, nudged = "2.0e-05, 1.0e-05 | 1.0e-04", "1.0e-01, 9.0e-01; 50.00 %"
    assert first == f"| b | s8s8 | 16 | - | 5.0e-01 | 99.50 % | {alone} | {nudged} | {nudged} |"
    assert second == f"| a | u8s8 | 16 | 1.0e-04, 0.0e+00 | - | 99.50 % | {alone} | {nudged} | - |"
    assert empty == ""
    assert said == (
        "Within the bounds: 1 of 2; beyond: b s8s8 (floats). Layers beyond them by themselves: a u8s8: QGemm; "
        "b s8s8: QGemm."
    )
