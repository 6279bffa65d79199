"""The page about networks: its table is what the command makes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from fallback_table import load, table

PAGE = (Path(__file__).parents[2] / "docs/networks.md").read_text()


@pytest.mark.slow
def test_the_table_is_what_the_command_makes() -> None:
    if load("ch_PP-OCRv4_det") is None:
        pytest.skip("rapidocr-onnxruntime is not installed: pip install '.[networks]'")
    assert [line for line in table() if line not in PAGE] == []
