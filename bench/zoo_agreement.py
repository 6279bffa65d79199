"""Agreement of sessions with `bits="onnxruntime"` over the zoo's networks and three trained ones, on the CPU device.

    python bench/zoo_agreement.py --out FILE [NETWORK...]     # an object a line; adds what is missing
    python bench/zoo_agreement.py --out FILE --table

The networks of the zoo are small images (--size), with the types u8s8 and s8s8 of activations and weights. The trained
ones are those of rapidocr-onnxruntime, on images with drawn letters.
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
import quantized_networks as networks
from drawn_text import drawn

from qconv.onnx.built import with_batch

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
    model = fallback_table.load(name)
    key = model.graph.input[0].name
    calibration = [{key: drawn(1, shape, seed)} for seed in range(100, 100 + CALIBRATION)]
    model = networks.quantized(model, "QDQ", types, True, batches=calibration)
    fallback_table.fix(model, (BATCH, 3, *shape))
    return model, [{key: drawn(BATCH, shape, seed)} for seed in range(TRAINED_BATCHES)], DECIDE[name]


def row_of(name: str, size: int, types: str) -> dict[str, Any]:
    begin = time.perf_counter()
    trained = name in fallback_table.TRAINED
    model, batches, decide = of_trained(name, types) if trained else of_zoo(name, size, types)
    found = agreement.measured(model if trained else with_batch(model, BATCH), batches, decide)
    counts = {op: [one.elements, one.by_one, one.by_more] for op, one in found.layers.items()}
    return {
        "network": name, "types": types, "size": None if trained else size, "inputs": BATCH * len(batches),
        "outputs": [found.outputs.elements, found.outputs.by_one, found.outputs.by_more], "largest": found.largest,
        "same": found.same, "decisions": found.decisions, "layers": counts, "seconds": time.perf_counter() - begin,
    }  # fmt: skip


def share(counts: list[int]) -> str:
    """Return the shares that differ by one and by more."""
    elements, by_one, by_more = counts
    return f"{by_one / elements:.1e}, {by_more / elements:.1e}" if by_one + by_more else "0"


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| network | types | inputs | outputs by 1, by more | floats | decided alike | a layer alone |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "missing" in row:
            continue
        outputs = share(row["outputs"]) if row["outputs"][0] else "none"
        floats = "none" if row["largest"] is None else f"{row['largest']:.1e}" if row["largest"] else "0"
        alike = f"{100 * row['same'] / row['decisions']:.2f} %" if row["decisions"] else "none"
        alone = share([sum(each) for each in zip(*row["layers"].values(), strict=True)])
        lines.append(
            f"| {row['network']} | {row['types']} | {row['inputs']} | {outputs} | {floats} | {alike} | {alone} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--types", choices=TYPES, action="append")
    parser.add_argument("--table", action="store_true", help="print what FILE has")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    if given.table:
        print(table(rows))
        return
    there = {(row["network"], row["types"]) for row in rows}
    for types in given.types or TYPES:
        for name in given.networks:
            if (name, types) in there:
                continue
            try:
                row = row_of(name, SIZES.get(name, given.size), types)
            except Exception as error:
                row = {"network": name, "types": types, "missing": f"{type(error).__name__}: {error}"[:400]}
            with given.out.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
