"""The part of the report about a network: from the file of its explanation to the page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qconv.network.run.report import ELSEWHERE, HERE, Explanation, LayerReport
from qconv.tuner.report import Report
from qconv.tuner.report.network import network_of

ROWS = (
    LayerReport("conv <1>", "QLinearConv", HERE, "wgmma", 128, 0, 750, measured_us=3.5),
    LayerReport("rnn", "LSTM", ELSEWHERE, "no kernel here computes LSTM", 0, 64, 250, cure="use a GRU"),
)


def written(folder: Path, rows: tuple[LayerReport, ...] = ROWS, **change: Any) -> Path:
    path = folder / "explained.json"
    said = {"model": "m.onnx", "device": "NVIDIA H200", **Explanation(rows, islands=1).as_dict()}
    path.write_text(json.dumps(said | change))
    return path


def test_what_it_says(tmp_path: Path) -> None:
    page = network_of(written(tmp_path))
    assert (page.model, page.device, page.share, page.elsewhere) == ("m.onnx", "NVIDIA H200", 0.75, 1)
    assert [layer.part for layer in page.layers] == [0.75, 0.25]
    assert (page.predicted_us, page.measured_us) == (None, 3.5)
    assert page.causes == ("LSTM 1: no kernel here computes LSTM; use a GRU",)
    html = Report("NVIDIA H200", "sm_90a", ("nvrtc 13.0",), (), (), page).html()
    assert "subgraphs elsewhere: 1" in html
    for text in (
        "1 of 2 layers run on",
        "75.0 % of the multiplications",
        "conv &lt;1&gt;",
        "the host",
        "3.50",
    ):
        assert text in html


def test_times_that_are_all_known_are_added(tmp_path: Path) -> None:
    known = tuple(replace(row, needs=replace(row.needs, predicted_us=2.0)) for row in ROWS)
    assert network_of(written(tmp_path, known)).predicted_us == 4.0


@pytest.mark.parametrize("change", [{"layers": None}, {"causes": [1]}, {"islands": "many"}])
def test_what_is_no_explanation(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"explained\.json is no explanation of a network .* MODEL.onnx --json"):
        network_of(written(tmp_path, **change))
    with pytest.raises(ValueError, match="is no explanation"):
        network_of(tmp_path / "none.json")
