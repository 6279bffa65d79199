"""README stays a front page, and no page links to what is not there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "bench/README.md")] + sorted(
    ROOT.glob("docs/**/*.md")
)
MOST_LINES = 110
MOST_NUMBERS = 10


def anchors(page: Path) -> set[str]:
    """The fragments that a git host makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_readme_is_at_most_110_lines() -> None:
    assert len(README.splitlines()) <= MOST_LINES


def test_readme_has_at_most_ten_measured_numbers() -> None:
    numbers = re.findall(r"\b\d+(?:\.\d+)?(?:x\b| us\b| ms\b| TOPS\b| TB/s| ?%)", README)
    assert 0 < len(numbers) - numbers.count("1x") <= MOST_NUMBERS, numbers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} is not there"
        assert not fragment or fragment in anchors(target), f"{link}: {target.name} has no such heading"


def test_readme_names_every_page_of_docs() -> None:
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= set(re.findall(r"docs/([\w-]+\.md)", README))


def test_the_python_of_readme_runs() -> None:
    """On the CPU device, where NumPy arrays are."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    code = code.replace("qconv.lookup(problem)", 'qconv.lookup(problem, "cpu")')
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["y"].shape == (1, 14, 14, 64)
    assert names["instance"].reason


def test_the_torch_python_of_usage_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
    text = (ROOT / "docs/usage.md").read_text()
    blocks = re.findall(r"^```python torch\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile("".join(blocks), "usage.md", "exec"), names)
    assert names["y"].shape == (1, 64, 14, 14)
    assert capsys.readouterr().out == "conv2d: qconv.conv2d, with relu, quantized\n"


@pytest.mark.parametrize("page", ["README.md", "docs/usage.md"])
def test_the_onnx_python_of_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the CPU device; the model is one that `strict` takes."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    blocks = re.findall(r"^```python onnx\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    node = onnx.helper.make_node("ConvInteger", ["x", "w"], ["y"])
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, ["N", 3, 4, 4])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, ["N", 2, 4, 4])
    w = onnx.numpy_helper.from_array(np.ones((2, 3, 1, 1), np.uint8), "w")
    graph = onnx.helper.make_graph([node], "g", [x], [y], [w])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    code = "".join(blocks).replace('Session("model.onnx"', 'Session("model.onnx", device="cpu"')
    names: dict[str, Any] = {"x": np.full((2, 3, 4, 4), 7, np.uint8)}
    exec(compile(code, page, "exec"), names)
    assert (names["y"] == 21).all()
    assert "1 of 1 layers run on qconv's kernels" in capsys.readouterr().out
