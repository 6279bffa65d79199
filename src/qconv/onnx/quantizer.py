"""From a float model to a quantized one whose layers end on integer kernels, by ONNX Runtime's quantizer."""

from __future__ import annotations

import io
import logging
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnx import version_converter
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

from qconv.device import folders
from qconv.errors import first_line
from qconv.network import Choices
from qconv.onnx.asked_shapes import with_batch
from qconv.onnx.fallback import Fallback
from qconv.onnx.graph import STANDARD
from qconv.onnx.lowering import lower
from qconv.onnx.model import CPU_ONLY, Source, loaded, read, rewritten, source_of
from qconv.onnx.options import OWN_FUSIONS, Meaning, settings
from qconv.onnx.tensor import Unsupported
from qconv.op import check_choice, quoted

ACTIVATIONS = {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8}
METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
}
# Ops with weights, whose products take the time.
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
# The first opset with scales per channel.
PER_CHANNEL = 13
# Ops that the quantizer quantizes and that have an integer kernel, or move bytes. All others stay in floats, which run
# as expressions: a quantized softmax or normalization loses accuracy and gains nothing.
QUANTIZED = (
    *PRODUCTS,
    *("Add", "ArgMax", "AveragePool", "Clip", "Concat", "Flatten", "GlobalAveragePool", "LeakyRelu", "MaxPool", "Mul"),
    *("Pad", "Relu", "Reshape", "Resize", "Sigmoid", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"),
)


@dataclass(frozen=True)
class Quantizing:
    """The settings. Activations are uint8, as ONNX Runtime computes them in integers on every processor, and weights
    int8 per channel. With `weight_bits` 7, processors without VNNI have the same bits. `leave_out` are names of layers,
    or ops, that stay in floats."""

    activations: str = "uint8"
    per_channel: bool = True
    weight_bits: int = 8
    method: str = "minmax"
    leave_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("activations", self.activations, tuple(ACTIVATIONS))
        check_choice("method", self.method, tuple(METHODS))
        if self.weight_bits not in (7, 8):
            raise ValueError(f"weight_bits={quoted(self.weight_bits)} must be 7 or 8")


@dataclass(frozen=True)
class Quantized:
    """A quantized model: how many of the layers with weights are quantized, how many layers run on kernels, and how
    many of each op run elsewhere; the last two are None where the shapes are open."""

    path: Path
    quantized: int
    products: int
    on_kernels: int | None
    elsewhere: Mapping[str, int] | None

    def as_dict(self) -> dict[str, Any]:
        return vars(self) | {"path": str(self.path)}


class _Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
    def __init__(self, samples: Iterable[Mapping[str, Any]]) -> None:
        self._left = iter(samples)

    def get_next(self) -> Mapping[str, Any] | None:
        return next(self._left, None)


def quantize(
    model: onnx.ModelProto | bytes | str | Path,
    out: Path,
    samples: Iterable[Mapping[str, Any]],
    how: Quantizing | None = None,
) -> Quantized:
    """Calibrate on the samples, inputs by their names, and write the quantized model in the QDQ format."""
    how = how or Quantizing()
    real = prepared(source_of(model))
    products = [node for node in real.graph.node if node.op_type in PRODUCTS]
    if not products:
        raise ValueError(f"the model has none of {', '.join(PRODUCTS)}: there is nothing to quantize")
    left_out = _left_out(real, loaded(source_of(model)), how.leave_out)
    with tempfile.TemporaryDirectory() as folder, _without_advice():
        made = Path(folder, "quantized.onnx")
        quantize_static(
            real,
            made,
            _Reader(samples),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=list(QUANTIZED),
            per_channel=how.per_channel,
            reduce_range=how.weight_bits == 7,
            activation_type=ACTIVATIONS[how.activations],
            weight_type=QuantType.QInt8,
            nodes_to_exclude=left_out,
            calibrate_method=METHODS[how.method],
        )
        folders.write_whole(out, made.read_bytes())
    proto = loaded(str(out))
    on_kernels, elsewhere = _kernels_of(proto)
    return Quantized(out, _quantized_products(proto), len(products), on_kernels, elsewhere)


def prepared(source: Source) -> onnx.ModelProto:
    """Return the float model as the quantizer takes it: constants become initializers, which it takes for weights, and
    batch norms parts of convolutions."""
    real = _of_opset(rewritten(source, {}, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC, without=OWN_FUSIONS))
    if any(node.op_type == "DequantizeLinear" for node in real.graph.node):
        raise ValueError("the model is quantized already, as its DequantizeLinear says: give the float model")
    return real


def _of_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with an operator set that has scales per channel."""
    version = next((opset.version for opset in model.opset_import if opset.domain in STANDARD), 0)
    if version >= PER_CHANNEL:
        return model
    try:
        return version_converter.convert_version(model, PER_CHANNEL)
    except Exception as error:  # of onnx's C++, of many kinds
        raise Unsupported(
            f"the model has opset {version}, and scales per channel need {PER_CHANNEL}; onnx cannot convert it "
            f"({first_line(error)}): export it again with a newer opset"
        ) from None


def _left_out(prepared: onnx.ModelProto, original: onnx.ModelProto, words: Iterable[str]) -> list[str]:
    """Return the names of the prepared layers that the words name: by themselves, as an op, or as a layer of the
    original whose output they make."""
    layers = [*prepared.graph.node]
    outputs_of = {node.name: set(node.output) for node in original.graph.node if node.name}
    names: dict[str, None] = {}
    for word in words:
        outputs = outputs_of.get(word, set())
        found = [one for one in layers if word in (one.name, one.op_type) or outputs.intersection(one.output)]
        if not found:
            known = {word for one in layers for word in (one.name, one.op_type)}
            near = get_close_matches(word, known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ValueError(
                f"the model has no layer and no op {word!r}{hint}: give names as qconv-tune compare has them"
            )
        names |= {one.name: None for one in found}
    return list(names)


def _quantized_products(proto: onnx.ModelProto) -> int:
    """Return the number of layers with weights whose operands are dequantized."""
    made_by = {name: node.op_type for node in proto.graph.node for name in node.output}
    products = (node for node in proto.graph.node if node.op_type in PRODUCTS)
    return sum(all(made_by.get(name) == "DequantizeLinear" for name in node.input[:2]) for node in products)


def _kernels_of(proto: onnx.ModelProto) -> tuple[int | None, Mapping[str, int] | None]:
    """Return the number of layers on kernels and those elsewhere by op, for one sample."""
    config = settings(None, Meaning().bits)
    try:
        known = read(rewritten(with_batch(proto, 1).SerializeToString(), config, without=OWN_FUSIONS), config)
        lowered = lower(known.network, Fallback(known, config, CPU_ONLY).function, Choices(), Meaning())
    except Unsupported:
        return None, None
    if lowered.waits_for_shapes:
        return None, None
    ops = {layer.name: layer.op for layer in lowered.network.layers}
    return len(lowered.network.layers) - len(lowered.why_not), dict(Counter(ops[name] for name in lowered.why_not))


@contextmanager
def _without_advice() -> Iterator[None]:
    """Silence the quantizer, which recommends the preparation that has just been done and prints its progress."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
