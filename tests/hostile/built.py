"""Folders of built models: a session runs such a folder with the right bits, or refuses it by a sentence."""

from __future__ import annotations

import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import quantized_networks as networks
from onnx import TensorProto, helper

from qconv.onnx import Session
from qconv.onnx.ship import build
from tests.hostile.judge import Surface, Wrong
from tests.hostile.mutations import of_bytes

# Two sizes of images and two batches.
SIZES = ((1, 4), (2, 4), (1, 6), (2, 6))


@cache
def _model(op: str) -> Any:
    """Return a model of which one layer runs elsewhere, for images of any size."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, "h", 3])
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("LRN", ["positive"], ["normal"], size=3),
        helper.make_node(op, ["normal"], ["y"]),
    ]
    graph = helper.make_graph(nodes, op, [x], [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@cache
def _folder(op: str) -> dict[str, bytes]:
    """Return the files of a model's folder that a session reads, by their names."""
    folder = Path(tempfile.mkdtemp(prefix="qconv-hostile-")) / op
    made = build(_model(op), folder, "cpu", batches=[1, 2], extents={"h": [4, 6]})
    assert len(made.elsewhere) == 1
    left_out = ("sources/", "src/", "include/", "program/", "CMake")
    return {name: (folder / name).read_bytes() for name in made.files if not name.startswith(left_out)}


@cache
def _copy() -> Path:
    return Path(tempfile.mkdtemp(prefix="qconv-hostile-")) / "copy"


@cache
def _wanted(size: tuple[int, int]) -> tuple[Any, Any]:
    fed = {"x": np.random.default_rng(size).standard_normal((size[0], 2, size[1], 3), np.float32)}
    return fed, networks.by_ort(_model("Neg"), fed)[0]


def draw(rng: Random) -> bytes:
    """Draw the size of an input and the files of a folder, as JSON of latin-1; null is a folder of that name."""
    files: dict[str, str | None] = {name: content.decode("latin-1") for name, content in _folder("Neg").items()}
    name = rng.choice(list(files))
    way = rng.randrange(10)
    if way < 6:
        files[name] = of_bytes(rng, _folder("Neg")[name]).decode("latin-1")
    elif way == 6:
        del files[name]
    elif way == 7:
        files[name] = None
    elif way == 8:  # a file of another model's folder
        other = _folder("Abs")
        files[name] = other.get(name, next(iter(other.values()))).decode("latin-1")
    else:
        files["network.txt"] = str(files["network.txt"]).replace(
            "qconv-network-1", f"qconv-network-{rng.randrange(12)}"
        )
    return json.dumps([rng.choice([*SIZES, (3, 4), (1, 5)]), files]).encode()


def take(given: bytes) -> None:
    size, files = json.loads(given)
    folder = _copy()
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content.encode("latin-1"))
    fed, wanted = _wanted(tuple(size))
    if not np.array_equal(Session(folder, "cpu").run(None, fed)[0], wanted):
        raise Wrong("another output than ONNX Runtime's")
    if tuple(size) not in SIZES:
        raise Wrong(f"a size that was not asked for: {size}")


SURFACES = (Surface("folders", draw, take, cases=5_000),)
