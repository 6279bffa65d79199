"""The examples run, and what they show is right."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_bit_exact(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "import torch\n" in script.read_text():
        pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
    monkeypatch.setattr(sys, "argv", [str(script), "cpu"])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.endswith("bit-exact: True\n")
