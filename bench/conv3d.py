"""Convolutions of volumes, each a network of its own, untuned, as one graph beside cuDNN's fp16 and bf16 (`conv3d`,
channels last).

    python bench/conv3d.py [LAYERS.csv] --out FOLDER [--limit-s S]

The channels of the input and of the output are last, as they are between layers. Each run is timed by events behind a
write of more bytes than the L2 cache holds, ours and the peers' in turns. Outputs are compared with PyTorch's products
in fp64, requantized in fp32 as ONNX Runtime does. `--device cpu --most 6` tries it without a GPU.
"""

from __future__ import annotations

import csv
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from beside_peers import mean, measure, over_peer, parser_of
from network_timing import Row
from onnx import TensorProto, helper, numpy_helper
from report import Report
from roofline import ROOFLINES
from timing import captured, torch_times_us

import qconv.onnx
from qconv.device import Device, open_device
from qconv.network.ship.opened import OpenedNetwork

LAYERS = Path(__file__).with_name("workloads") / "conv3d.csv"
ROUNDS, RUNS = 3, 10
FLUSHED_BYTES = 256 * 2**20
# Longer than the host takes to queue a run.
WAITED_CYCLES = 2_000_000
X_ZERO, Y_ZERO, X_SCALE = 117, 131, 0.02


@dataclass(frozen=True)
class Layer:
    shape: tuple[int, ...]  # NDHWC
    filters: tuple[int, ...]  # KCTRS
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    made: tuple[int, ...]  # ODHW

    @property
    def products(self) -> int:
        return self.shape[0] * math.prod(self.made) * math.prod(self.filters)

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) + math.prod(self.filters) + self.shape[0] * math.prod(self.made) * self.filters[0]

    def floor_us(self, card: str) -> float | None:
        roofline = ROOFLINES.get(card)
        if roofline is None:
            return None
        return max(2 * self.products / roofline.tops, self.bytes / roofline.tb_per_s) / 1e6


def layers_of(path: Path, most: int | None) -> dict[str, Layer]:
    """Return the layers that differ, by the name of the first. With `most`, extents are at most that."""
    names: dict[Layer, str] = {}
    for row in csv.DictReader(path.read_text().splitlines()):
        cut = [min(int(row[name]), most or 2**31) for name in "NDHW"]
        filters = (int(row["K"]), int(row["C"]) // int(row["groups"]), int(row["T"]), int(row["R"]), int(row["S"]))
        stride, pad = (tuple(int(row[f"{word}_{axis}"]) for axis in "dhw") for word in ("stride", "pad"))
        extents = zip(cut[1:], pad, filters[2:], stride, strict=True)
        made = tuple((extent + 2 * before - taps) // step + 1 for extent, before, taps, step in extents)
        layer = Layer((cut[0], *cut[1:], int(row["C"])), filters, stride, pad, made)
        names.setdefault(layer, f"{row['model']}.{row['layer']}")
    return {name: layer for layer, name in names.items()}


@dataclass(frozen=True)
class Drawn:
    """The parameters of a layer."""

    w: Any  # int8, KCTRS
    bias: Any
    w_scale: Any
    y_scale: float


def drawn_of(layer: Layer) -> Drawn:
    rng = np.random.default_rng(3)
    k, sums = layer.filters[0], math.prod(layer.filters[1:])
    w_scale = rng.uniform(0.5, 1.5, k).astype(np.float32) / 1000
    y_scale = float(np.float32(X_SCALE * 0.001 * 73 * 73 * math.sqrt(sums) / 60))
    w = rng.integers(-128, 128, layer.filters).astype(np.int8)
    return Drawn(w, rng.integers(-20000, 20000, k).astype(np.int32), w_scale, y_scale)


def model_of(layer: Layer, drawn: Drawn) -> onnx.ModelProto:
    k = layer.filters[0]
    held = {
        "x_scale": np.float32(X_SCALE),
        "x_zero": np.uint8(X_ZERO),
        "w": drawn.w,
        "w_scale": drawn.w_scale,
        "w_zero": np.zeros(k, np.int8),
        "y_scale": np.float32(drawn.y_scale),
        "y_zero": np.uint8(Y_ZERO),
        "bias": drawn.bias,
    }
    names = ["first", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "bias"]
    pads = [*layer.pad, *layer.pad]
    nodes = [
        helper.make_node("Transpose", ["x"], ["first"], perm=[0, 4, 1, 2, 3]),
        helper.make_node("QLinearConv", names, ["planes"], strides=list(layer.stride), pads=pads),
        helper.make_node("Transpose", ["planes"], ["y"], perm=[0, 2, 3, 4, 1]),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.UINT8, layer.shape)]
    made = [helper.make_tensor_value_info("y", TensorProto.UINT8, [layer.shape[0], *layer.made, k])]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "layer", given, made, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected(layer: Layer, drawn: Drawn, x: Any, place: str) -> Any:
    """Return the output by PyTorch, NDHWC: the sums are exact in fp64, by whatever algorithm, once they are rounded."""
    with torch.no_grad():
        images = torch.from_numpy(x).to(place).permute(0, 4, 1, 2, 3).double() - X_ZERO
        sums = torch.nn.functional.conv3d(
            images, torch.from_numpy(drawn.w).to(place).double(), None, layer.stride, layer.pad
        ).round()
        sums = sums + torch.from_numpy(drawn.bias).to(place).double().reshape(1, -1, 1, 1, 1)
        scale = np.float32(X_SCALE) * drawn.w_scale / np.float32(drawn.y_scale)
        scaled = sums.float() * torch.from_numpy(scale).to(place).reshape(1, -1, 1, 1, 1)
        made = (scaled.round() + Y_ZERO).clamp(0, 255).to(torch.uint8)
    return made.permute(0, 2, 3, 4, 1).cpu().numpy()


def peer_of(layer: Layer, dtype: torch.dtype) -> Callable[[], None]:
    """Return a function that launches the graph of one `conv3d`."""
    torch.backends.cudnn.benchmark = True
    n, *extents, c = layer.shape
    last = {"memory_format": torch.channels_last_3d}
    x = torch.randn((n, c, *extents), dtype=dtype, device="cuda").to(**last)
    w = (torch.randn(layer.filters, dtype=dtype, device="cuda") / 64).to(**last)
    made = captured(lambda: (x, w, torch.nn.functional.conv3d(x, w, None, layer.stride, layer.pad)))

    def launch() -> None:
        made.graph.replay()  # and not the graph's method, which would not keep the arrays

    return launch


def cold_times_us(launch: Callable[[], Any], runs: int) -> list[float]:
    """Return the time of each run behind a write that fills the L2 cache. The host queues it while the GPU waits."""
    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")

    def flush() -> None:
        torch.cuda._sleep(WAITED_CYCLES)
        flushed.fill_(1)

    return torch_times_us(launch, runs, flush)


def measured(layer: Layer, drawn: Drawn, network: OpenedNetwork, device: Device) -> Row:
    is_gpu = device.target.vendor != "cpu"
    x = np.random.default_rng(5).integers(0, 256, layer.shape, np.uint8)
    graph = network.graph(0, [device.upload(x)])
    graph.launch()
    device.synchronize()
    wanted = expected(layer, drawn, x, "cuda" if is_gpu else "cpu")
    wrong = int((device.download(graph.outputs[0]) != wanted).sum())
    row: Row = {
        "shape": layer.shape,
        "filters": layer.filters,
        "stride": layer.stride,
        "verified": not wrong,
        "wrong": wrong,
    }
    if not is_gpu:
        return row
    runners: dict[str, Callable[[], Any]] = {"ours": graph.launch}
    runners |= {"cudnn_fp16": peer_of(layer, torch.float16), "cudnn_bf16": peer_of(layer, torch.bfloat16)}
    times: dict[str, list[float]] = {name: [] for name in runners}
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), device.on(stream.cuda_stream):
        for _ in range(ROUNDS):
            for name, launch in runners.items():
                times[name] += cold_times_us(launch, RUNS)
    median = {name: statistics.median(some) for name, some in times.items()}
    peer = min(median["cudnn_fp16"], median["cudnn_bf16"])
    row |= {"times_us": median, "floor_us": layer.floor_us(device.name), "over_peer": peer / median["ours"]}
    return row


def summary(rows: Sequence[Row]) -> Row:
    dense = [row for row in rows if row.get("floor_us") and min(row["filters"][:2]) >= 64]
    return over_peer(rows) | {"dense_over_floor": mean([row["times_us"]["ours"] / row["floor_us"] for row in dense])}


def main() -> None:
    begin = time.monotonic()
    parser = parser_of(__doc__, LAYERS)
    parser.add_argument("--processes", type=int, default=8)
    given = parser.parse_args()
    device = open_device(given.device)
    protocol = {"runs": RUNS, "rounds": ROUNDS, "statistic": "median", "flushed_bytes": FLUSHED_BYTES}
    report = Report(given.out, "conv3d", device, protocol, given.commit)
    layers = layers_of(given.layers, given.most)
    drawn = {name: drawn_of(layer) for name, layer in layers.items()}

    with tempfile.TemporaryDirectory() as there, ThreadPoolExecutor(given.processes) as pool:

        def exported(name: str) -> Path:
            model, folder = model_of(layers[name], drawn[name]), Path(there, name)
            return qconv.onnx.export(model, folder, device.target.name, device=device.name, vectors=False).folder

        folders = dict(zip(layers, pool.map(exported, layers), strict=True))

        def row(name: str) -> Row:
            return measured(layers[name], drawn[name], OpenedNetwork(folders[name], device), device)

        rows = ((name, partial(row, name)) for name in layers)
        measure(report, rows, summary, ("times_us", "floor_us", "over_peer", "wrong"), begin + given.limit_s)


if __name__ == "__main__":
    main()
