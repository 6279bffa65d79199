"""Trained networks in their exported form, quantized and compared as a whole: the detector, the recogniser and the
classifier that rapidocr-onnxruntime ships (`pip install '.[networks]'`). They have opset 12, hundreds of constants as
nodes, separate BatchNormalization, hard swish in four ops, squeeze-and-excite, Resize, ConvTranspose and dynamic
shapes."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import quantized_networks as networks
from fallback_table import TRAINED, feeds_of, lift_constants, load
from session_comparison import compare

FORMATS = (("QDQ", "u8s8", {}), ("QDQ", "s8s8", networks.INT8_ALLOWED), ("QOperator", "u8u8", {}))


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(("form", "types", "config"), FORMATS, ids=["u8s8-QDQ", "s8s8-QDQ", "u8u8-QOperator"])
@pytest.mark.parametrize("name", list(TRAINED))
def test_a_trained_network(name: str, form: str, types: str, config: dict[str, str]) -> None:
    model = load(name)
    if model is None:
        pytest.skip("rapidocr-onnxruntime, which ships the networks, is not installed: pip install '.[networks]'")
    if form == "QOperator":
        lift_constants(model)
    feeds = feeds_of(name)
    quantized = networks.quantized(model, form, types, per_channel=False, batches=[feeds])
    session, count = compare(quantized, config, feeds)
    explanation = session.explain()
    here = Counter(row.op for row in explanation.rows if row.runs_on == "qconv")
    fallen = ", ".join(f"{op} {number}" for op, number in explanation.fallen_back.items())
    print(f"\n{name} {form} {types}: {count} integer tensors, {dict(here)} here; elsewhere {fallen}")
    assert here["QLinearConv"] >= 30
    assert not {"Conv", "com.microsoft.nchwc.Conv", "QLinearConv"} & set(explanation.fallen_back)
