"""The examples run, and their results are right."""

from __future__ import annotations

import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from torchvision_models import import_models

pytestmark = pytest.mark.thirds

EXAMPLES = Path(__file__).parents[2] / "examples"
# They compile a library or several kernels, or measure.
SLOW = ("fleet", "frame_to_boxes", "from_float", "library", "network", "torchvision_network")
# Script -> the package that it needs, and the extra that provides it.
NEEDS = {
    "pytorch": ("torch", "torch"),
    "frame_to_boxes": ("onnxruntime", "onnx"),
    "from_float": ("rapidocr_onnxruntime", "networks"),
    "network": ("onnxruntime", "onnx"),
    "fleet": ("distributed", "fleet"),
    "torchvision_network": ("torchvision", "conformance"),
}
SCRIPTS = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])
    for path in sorted(EXAMPLES.glob("*.py"))
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_is_bit_exact(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if script.stem in NEEDS:
        package, extra = NEEDS[script.stem]
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install 'qconv-tune[{extra}]'")
        if package == "torchvision":
            import_models()
    monkeypatch.setattr(sys, "argv", [str(script), "cpu"])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.endswith("bit-exact: True\n")
