"""Trained networks, as exports are, quantized and compared whole: the detector, the recogniser and the classifier that
rapidocr-onnxruntime ships (`pip install '.[networks]'`). They have opset 12, hundreds of constants that are nodes,
BatchNormalization by itself, hard swish in four ops, squeeze-and-excite, Resize, ConvTranspose and dynamic shapes."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import quantized_networks as networks
from session_comparison import compare

# Images that are as small as the networks take them, so that the CPU device is done in seconds.
SHAPES = {"ch_PP-OCRv4_det": (1, 3, 64, 96), "ch_PP-OCRv4_rec": (1, 3, 48, 96), "ch_ppocr_mobile": (1, 3, 48, 96)}
FORMATS = (("QDQ", "u8s8", {}), ("QDQ", "s8s8", networks.INT8_ALLOWED), ("QOperator", "u8u8", {}))


def load(name: str) -> Any:
    spec = find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        pytest.skip("rapidocr-onnxruntime, which ships the networks, is not installed: pip install '.[networks]'")
    (path,) = Path(spec.origin).parent.glob(f"models/{name}*.onnx")
    return onnx.load(path)


def lift_constants(model: Any) -> None:
    """Makes initializers of nodes: quantize_static takes no weights that are nodes into a QOperator model."""
    nodes = list(model.graph.node)
    for node in nodes:
        if node.op_type == "Constant":
            tensor = node.attribute[0].t
            tensor.name = node.output[0]
            model.graph.initializer.append(tensor)
    del model.graph.node[:]
    model.graph.node.extend(node for node in nodes if node.op_type != "Constant")


@pytest.mark.slow
@pytest.mark.parametrize(("form", "types", "config"), FORMATS, ids=["u8s8-QDQ", "s8s8-QDQ", "u8u8-QOperator"])
@pytest.mark.parametrize("name", list(SHAPES))
def test_a_trained_network(name: str, form: str, types: str, config: dict[str, str]) -> None:
    model = load(name)
    if form == "QOperator":
        lift_constants(model)
    feeds = {"x": np.random.default_rng(1).uniform(-1, 1, SHAPES[name]).astype(np.float32)}
    quantized = networks.quantized(model, form, types, per_channel=False, batches=[feeds])
    session, count = compare(quantized, config, feeds)
    explanation = session.explain()
    here = Counter(row.op for row in explanation.rows if row.runs_on == "qconv")
    fallen = ", ".join(f"{op} {number}" for op, number in explanation.fallen_back.items())
    print(f"\n{name} {form} {types}: {count} integer tensors, {dict(here)} here; elsewhere {fallen}")
    assert here["QLinearConv"] >= 30
    assert not {"Conv", "QLinearConv"} & set(explanation.fallen_back)
