"""Agreement of sessions with ONNX Runtime over the zoo's networks and three trained ones, on the CPU device.

    python bench/zoo_agreement.py --out bench/results/cpu deit_tiny ch_PP-OCRv4_rec --types u8s8

The networks of the zoo have small images (--size), with the types u8s8 and s8s8 of activations and weights. The trained
ones are those of rapidocr-onnxruntime, on images with drawn letters. Rows that the file has are not measured again.
Weights have 7 bits, so that ONNX Runtime saturates no sum on processors without VNNI, and it may compute with int8
activations (`session.qdqisint8allowed`), as sessions do. A row has, beside each other,

- the outputs of the session and of ONNX Runtime, and each layer of the session given ONNX Runtime's tensors;
- `nudged`: ONNX Runtime and itself, where one element of each image is a quantum larger: how much the network itself
  makes of the smallest difference;
- `by_default`: ONNX Runtime and itself without that setting, with which it computes int8 layers in floats.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

import agreement
import fallback_table
import onnxruntime
import quantized_networks as networks
from drawn_text import drawn
from network_timing import Row
from report import Report

from qconv.device import open_device
from qconv.onnx.asked_shapes import with_batch

SUITE = "zoo_agreement"
SIZES = {"inception_v3": 96, "densenet121": 64, "googlenet": 64}
TYPES = {"u8s8": "uint8", "s8s8": "int8"}
BATCH, BATCHES, CALIBRATION = 4, 4, 8
TEXT, TRAINED_BATCHES = (48, 160), 24
PAGE = (96, 160)


def of_zoo(name: str, size: int, types: str) -> tuple[Any, list[dict[str, Any]], Any]:
    from torchvision_models import import_models

    import_models()
    import torch
    from quantize_network import SEED, export, with_statistics
    from zoo_networks import NETWORKS

    one = NETWORKS[name]
    torch.manual_seed(SEED)
    shape = one.shape(size)
    with tempfile.TemporaryDirectory() as folder:
        network = with_statistics(one.make(size), shape)
        model = onnx.load(export(network, shape, Path(folder, "network.onnx"), TYPES[types]))
    rng = np.random.default_rng(1)
    batches = [{"x": rng.standard_normal((BATCH, *shape), np.float32)} for _ in range(BATCHES)]
    return model, batches, agreement.largest_channel


def boxes(y: Any) -> Any:
    """Return which pixels of a detector's map are letters: boxes follow from these alone."""
    return y > 0.3


DECIDE: dict[str, Callable[[Any], Any]] = {
    "ch_PP-OCRv4_det": boxes,
    "ch_PP-OCRv4_rec": lambda y: y.argmax(-1),
    "ch_ppocr_mobile": lambda y: y.argmax(-1),
}


def of_trained(name: str, types: str) -> tuple[Any, list[dict[str, Any]], Any]:
    shape = PAGE if name.endswith("det") else TEXT
    model = fallback_table.with_weights(fallback_table.load(name))
    key = model.graph.input[0].name
    calibration = [{key: drawn(1, shape, seed)} for seed in range(100, 100 + CALIBRATION)]
    model = networks.quantized(model, "QDQ", types, True, batches=calibration)
    fallback_table.fix(model, (BATCH, 3, *shape))
    return model, [{key: drawn(BATCH, shape, seed)} for seed in range(TRAINED_BATCHES)], DECIDE[name]


def outputs_of(found: agreement.Agreement) -> Row:
    outputs = [found.outputs.elements, found.outputs.by_one, found.outputs.by_more]
    return {"outputs": outputs, "largest": found.largest, "same": found.same, "decisions": found.decisions}


def nudged(model: Any, feeds: dict[str, Any]) -> dict[str, Any]:
    """Return the images with one element of each a quantum larger."""
    ((name, images),) = feeds.items()
    readers = [node for node in model.graph.node if name in node.input]
    (scale,) = {node.input[1] for node in readers if node.op_type == "QuantizeLinear"}
    (held,) = (tensor for tensor in model.graph.initializer if tensor.name == scale)
    more = np.copy(images)
    more[(slice(None), *(extent // 2 for extent in images.shape[1:]))] += onnx.numpy_helper.to_array(held)
    return {name: more}


def of_itself(model: Any, batches: list[dict[str, Any]], decide: Any, types: str) -> Row:
    """Compare ONNX Runtime with itself."""
    allowed, found = networks.reference(model, networks.INT8_ALLOWED), {}
    others = {"nudged": (allowed, [nudged(model, feeds) for feeds in batches])}
    if types == "s8s8":
        others["by_default"] = (networks.reference(model), batches)
    for name, (other, given) in others.items():
        compared = agreement.Agreement()
        for mine, theirs in zip(given, batches, strict=True):
            got, want = other.run(None, mine), allowed.run(None, theirs)
            agreement.add_outputs(compared, model, got, want, decide)
        found[name] = outputs_of(compared)
    return found


def row_of(name: str, size: int, types: str) -> Row:
    begin = time.perf_counter()
    trained = name in fallback_table.TRAINED
    model, batches, decide = of_trained(name, types) if trained else of_zoo(name, size, types)
    model = model if trained else with_batch(model, BATCH)
    found = agreement.measured(model, batches, decide, config=networks.INT8_ALLOWED)
    return {
        "name": name, "types": types, "trained": trained, "size": None if trained else size,
        "inputs": BATCH * len(batches), **outputs_of(found),
        "layers": {op: [one.elements, one.by_one, one.by_more] for op, one in found.layers.items()},
        "of_floats": found.of_floats, "compared": [found.layers_compared, found.layers_in_all],
        **of_itself(model, batches, decide, types), "seconds": round(time.perf_counter() - begin, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--types", choices=TYPES, action="append")
    given = parser.parse_args()
    protocol = {"onnxruntime": onnxruntime.__version__, "batch": BATCH, "calibration": CALIBRATION}
    report = Report(given.out, SUITE, open_device("cpu"), protocol)

    def written() -> dict[tuple[str, str], Row]:
        rows = json.loads(report.path.read_text())["rows"] if report.path.exists() else []
        return {(row["name"], row["types"]): row for row in rows}

    for types in given.types or TYPES:
        for name in given.networks:
            if "outputs" in written().get((name, types), {}):
                continue
            try:
                row = row_of(name, SIZES.get(name, given.size), types)
            except Exception as error:  # of third parties, or of a network that is not supported: any is the reason
                row = {"name": name, "types": types, "missing": f"{type(error).__name__}: {error}"[:400]}
            row["commit"] = report.commit
            rows = written() | {(name, types): row}  # another process may have written others
            report.write([rows[key] for key in sorted(rows)])
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
