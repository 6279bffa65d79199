"""Networks that were exported for C++, beside their sessions in the same run: the time of a run, the self-test, the
time until a folder is open, and bytes.

    python bench/shipped.py [NETWORK ...] --out FOLDER [--batch 1,8] [--device cuda:0] [--size PIXELS]

It exports each network of the zoo for the device's own target, builds its library as a stranger would, and runs it by
qconv_run. `--size` takes smaller images, to try it on the CPU device.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from network_timing import Row, protocol, stopwatch_of, timed_ms
from quantize_network import SEED, with_statistics
from quantize_network import export as quantized
from report import Report
from zoo_networks import NETWORKS

import qconv.onnx
from qconv.device import Device, open_device

DEFAULT = ("resnet50", "mobilenet_v2", "detector", "unet")
INPUTS = 4


def model_of(name: str, size: int | None, folder: Path) -> tuple[Path, tuple[int, ...]]:
    """Write the quantized network, and return its file and the shape of an image."""
    torch.manual_seed(SEED)
    network = NETWORKS[name]
    shape = network.shape(size or network.size)
    made = with_statistics(network.make(size or network.size), shape)
    return quantized(made, shape, folder / f"{name}.onnx"), shape


def session_ms(path: Path, batch: int, shape: tuple[int, ...], device: Device) -> float:
    session = qconv.onnx.Session(path, device.spec)
    rng = np.random.default_rng(batch)
    images = [device.upload(rng.standard_normal((batch, *shape), np.float32)) for _ in range(INPUTS)]

    def run(number: int) -> None:
        session.run_on_device(None, {"x": images[number]})

    for _ in range(3):  # recordings read inputs where they lie from the third run on
        for number in range(INPUTS):
            run(number)
    return timed_ms(run, device.synchronize, stopwatch_of(device))


def built(folder: Path) -> Path:
    """Build the library and qconv_run with CMake, and return the program."""
    for command in (["cmake", "-S", folder, "-B", folder / "build"], ["cmake", "--build", folder / "build", "-j4"]):
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    return folder / "build/qconv_run"


def shipped_row(program: Path, folder: Path, device: Device, batch: int, seconds: float) -> Row:
    """Run the exported network for some seconds. Its outputs are compared with the session's by the self-test."""
    name = "cpu" if device.target.vendor == "cpu" else device.spec
    tested = subprocess.run(
        [program, folder, "--device", name, "--self-test"], capture_output=True, text=True, check=False
    )
    figures = folder / "figures.json"
    words = ["--device", name, "--batch", str(batch), "--seconds", str(seconds), "--json", str(figures)]
    subprocess.run([program, folder, *words], check=True, stdout=subprocess.DEVNULL)
    found = json.loads(figures.read_text())
    target = folder / device.target.name
    return {
        "verified": tested.returncode == 0,
        "run_us": 1e6 / found["runs_per_s"],
        "p50_us": found["p50_us"],
        "p99_us": found["p99_us"],
        "open_ms": found["open_ms"],
        "launches": len((target / "plan.txt").read_text().split("\nlaunch ")) - 1,
        "plan_bytes": (target / "plan.txt").stat().st_size,
        "kernel_bytes": sum(path.stat().st_size for path in target.glob("kernels.*")),
        "weight_bytes": (folder / "weights.bin").stat().st_size,
        "workspace_bytes": found["workspace_bytes"],
    }


def summary(rows: list[Row]) -> Row:
    ratios = [row["run_us"] / row["session_us"] for row in rows]
    return {"over_session": float(np.exp(np.mean(np.log(ratios)))), "verified": all(row["verified"] for row in rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=DEFAULT)
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--device")
    parser.add_argument("--size", type=int)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--out", type=Path, required=True, help="such as bench/results/h200")
    parser.add_argument("--commit", help="where there is no checkout")
    given = parser.parse_args()
    device = open_device(given.device)
    report = Report(given.out, "shipped", device, protocol(given.seconds), given.commit)
    batches = [int(number) for number in given.batch.split(",")]
    rows: list[Row] = []
    for name in given.networks:
        with tempfile.TemporaryDirectory() as there:
            path, shape = model_of(name, given.size, Path(there))
            folder = Path(there, "network")
            qconv.onnx.export(path, folder, device.target.name, batches=batches, device=device.name)
            program = built(folder)
            for batch in batches:
                ours = shipped_row(program, folder, device, batch, given.seconds)
                row = {"name": name, "batch": batch, "session_us": 1e3 * session_ms(path, batch, shape, device), **ours}
                rows.append(row)
                report.write(rows, summary(rows))
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
