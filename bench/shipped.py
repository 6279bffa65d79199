"""Networks that were exported for C++, beside their sessions in the same run: the time of a run, the self-test, the
time until a folder is open, and bytes.

    python bench/shipped.py [NETWORK ...] --out FOLDER [--batch 1,8] [--device cuda:0] [--size PIXELS] [--runs N]

It exports each network of the zoo for the device's own target, builds its library as a stranger would, and runs it by
qconv_run, and by `cpp/network_runs.cpp` --runs times with the driver's calls counted. `--size` takes smaller images, to
try it on the CPU device.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from driver_calls import CPP, SUPPORT, calls_of, summed
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


def linked(folder: Path, name: str = "network_runs") -> Path:
    """Compile one of the C++ programs that run a network, and link it with the network's library."""
    program = folder / name
    libraries = sorted((folder / "build").glob("*.a"))
    includes = [f"-I{path}" for path in (folder / "include", folder / "program", CPP, SUPPORT)]
    flags = ["-std=c++17", "-O2", *includes]
    subprocess.run(["g++", *flags, CPP / f"{name}.cpp", *libraries, "-o", program, "-ldl", "-pthread"], check=True)
    return program


def repeated_row(program: Path, folder: Path, name: str, batch: int, runs: int) -> Row:
    """Return the host's time of a run's call, its calls of the driver, and what many runs took."""
    words = [str(program), str(folder), name, str(batch)]
    found: Row = json.loads(subprocess.check_output([*words, str(runs)], text=True))
    if marks := calls_of([*words, "1"]):
        found |= {"by_launches": summed(marks[0], found["calls"]), "by_graph": summed(marks[1], found["calls"])}
    return found


def shipped_row(program: Path, folder: Path, name: str, device: Device, batch: int, seconds: float) -> Row:
    """Run the exported network for some seconds. Its outputs are compared with the session's by the self-test."""
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
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--out", type=Path, required=True, help="such as bench/results/h200")
    parser.add_argument("--commit", help="where there is no checkout")
    given = parser.parse_args()
    device = open_device(given.device)
    spec = "cpu" if device.target.vendor == "cpu" else device.spec
    report = Report(given.out, "shipped", device, protocol(given.seconds), given.commit)
    batches = [int(number) for number in given.batch.split(",")]
    rows: list[Row] = []
    for name in given.networks:
        with tempfile.TemporaryDirectory() as there:
            path, shape = model_of(name, given.size, Path(there))
            folder = Path(there, "network")
            qconv.onnx.export(path, folder, device.target.name, batches=batches, device=device.name)
            program = built(folder)
            repeating = linked(folder)
            for batch in batches:
                ours = shipped_row(program, folder, spec, device, batch, given.seconds)
                ours |= {"repeated": repeated_row(repeating, folder, spec, batch, given.runs)}
                row = {"name": name, "batch": batch, "session_us": 1e3 * session_ms(path, batch, shape, device), **ours}
                rows.append(row)
                report.write(rows, summary(rows))
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
