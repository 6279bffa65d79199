"""Every code block in the documents runs: WORDS of `document_blocks` defines the words after a fence's language."""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from document_blocks import DOCUMENTS, ROOT, WORDS, Block, blocks_of, with_blocks

import qconv
import qconv.device
from qconv.device import Device

# The environment of a page's reader: a wide terminal, and the command on the path.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a temporary folder, with its own database and without a GPU, even if there is one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "own.sqlite"))
    monkeypatch.setattr(qconv.device, "default_spec", lambda: "cpu")
    qconv.forget()
    return tmp_path


def run(blocks: list[Block], names: dict[str, Any]) -> dict[str, Any]:
    for block in blocks:
        # A traceback then names the line of the document.
        code = "\n" * (block.line - 1) + block.code
        exec(compile(code, block.document, "exec"), names)
    return names


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_fence_is_of_a_kind_that_is_run(document: str) -> None:
    for block in blocks_of(document):
        known = WORDS.get(block.language, {})
        assert block.word in known, (
            f"{block.place} is {block.language} {block.word!r}: {block.language} takes {', '.join(map(repr, known))}"
        )


@pytest.mark.parametrize("document", with_blocks("python", ""))
def test_python_runs(document: str, here: Path) -> None:
    run(blocks_of(document, "python", ""), {})


@pytest.mark.slow
@pytest.mark.parametrize("document", with_blocks("python", "slow"))
def test_slow_python_runs(document: str, here: Path) -> None:
    run([block for block in blocks_of(document, "python") if block.word in ("", "slow")], {})


# It compiles a library.
SLOW = "docs/tasks/cpp-network.md"


@pytest.mark.parametrize(
    "document",
    [pytest.param(one, marks=[pytest.mark.slow] if one == SLOW else []) for one in with_blocks("python", "onnx")],
)
def test_python_of_onnx_runs(document: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`strict` accepts the model."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    nodes = [
        onnx.helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["integers"]),
        onnx.helper.make_node("ConvInteger", ["integers", "w"], ["y"]),
    ]
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3, 4, 4])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, ["N", 2, 4, 4])
    constants = {"w": np.ones((2, 3, 1, 1), np.uint8), "scale": np.float32(0.5), "zero": np.uint8(0)}
    given = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], given)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, here / "model.onnx")
    blocks = blocks_of(document, "python", "onnx")
    names = run(blocks, {"x": np.full((2, 3, 4, 4), 3.5, np.float32)})
    assert (names["y"] == 21).all()
    explains = any("print(session.explain())" in block.code for block in blocks)
    assert ("2 of 2 layers run on qconv's kernels" in capsys.readouterr().out) == explains


@pytest.mark.parametrize("document", with_blocks("python", "torch"))
def test_python_of_torch_runs(document: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
    names = run(blocks_of(document, "python", "torch"), {})
    assert names["y"].shape == (1, 64, 14, 14)
    assert capsys.readouterr().out == "conv2d: qconv.conv2d, with relu, quantized\n"


@pytest.mark.gpu
@pytest.mark.parametrize("document", with_blocks("python", "gpu"))
def test_python_of_a_gpu_runs(document: str, gpu: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(blocks_of(document, "python", "gpu"), {})


@pytest.mark.parametrize("document", with_blocks("python", "gpu", "torch", "onnx"))
def test_python_that_may_not_run_here_names_what_there_is(document: str) -> None:
    said = unknown("".join(block.code for block in blocks_of(document, "python")), document)
    assert not said, "\n".join(said)


def unknown(code: str, name: str, given: tuple[str, ...] = ("x",)) -> list[str]:
    """Return one sentence per undefined name, missing attribute of qconv, and unknown argument of its functions."""
    tree, said = ast.parse(code, name), list[str]()
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    stored |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    stored |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            stored |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in {*stored, *given} and not hasattr(builtins, node.id):
            said.append(f"{node.id} is not defined")
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "qconv":
            known = (*qconv.__all__, "onnx", "torch")
            said += [f"qconv has no {node.attr}"] if node.attr not in known else []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in qconv.__all__:
            taken = inspect.signature(getattr(qconv, node.func.attr)).parameters
            if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
                owner = ast.unparse(node.func.value)
                wrong = [word.arg for word in node.keywords if word.arg not in taken and owner == "qconv"]
                said += [f"qconv.{node.func.attr} takes no {arg}" for arg in wrong]
    return said


def test_what_is_not_there_is_seen() -> None:
    code = "import qconv\ny = qconv.conv4d(x)\nz = qconv.conv2d(x, v, padding=1)\n"
    assert sorted(unknown(code, "x.md")) == ["qconv has no conv4d", "qconv.conv2d takes no padding", "v is not defined"]


@pytest.mark.slow
@pytest.mark.parametrize("document", with_blocks("sh", ""))
def test_shell_runs(document: str, tmp_path: Path) -> None:
    """Each block runs in the folder of the page's first one, because a page tells one story."""
    environment = os.environ | {"PATH": PATH, "QCONV_DB": str(tmp_path / "own.sqlite"), "CUDA_VISIBLE_DEVICES": ""}
    for block in blocks_of(document, "sh", ""):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.code], cwd=tmp_path, env=environment, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, f"{block.place} ended with {done.returncode}\n{done.stdout[-3000:]}"


@pytest.mark.parametrize("document", with_blocks("cpp", ""))
def test_a_compiler_reads_cpp(document: str, tmp_path: Path) -> None:
    given = (
        "const void* w; const void* x; void* y; void* stream; const void* next_x; void* next_y; const void* next_image;"
    )
    programs = [
        f"void program_{i}() {{\n{given}\n{block.code}}}\n" for i, block in enumerate(blocks_of(document, "cpp", ""))
    ]
    headers = "".join(f'#include "{name}"\n' for name in ("qconv_kernels.hpp", "qconv_network.hpp"))
    (tmp_path / "block.cpp").write_text(headers + "".join(programs))
    command = ["g++", "-std=c++17", "-fsyntax-only", "-I", str(ROOT / "instances/library")]
    command += ["-I", str(ROOT / "src/qconv/network/ship"), "block.cpp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
