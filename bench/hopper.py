"""The five kernels of docs/hopper: build them with nvcc, run them on a Hopper GPU, print a table and write JSON.

This needs only Python, nvcc and a driver. Every output of the first and the last set of inputs is compared with a plain
kernel's, bit for bit. The times follow the tuner's protocol: a cold cache, one graph of back-to-back launches, the
median.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from document import write_document

ROOT = Path(__file__).parents[1]
KERNELS = ("1_wgmma", "2_tma", "3_warps", "4_persistent", "5_halo")
NVCC = ("nvcc", "-O3", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a")
PROTOCOL = {
    "name": "cold cache, one graph of back-to-back launches, events",
    "rotated_bytes": 200_000_000,
    "repeats": 9,
    "statistic": "median",
}

Row = dict[str, Any]


def build(folder: Path) -> None:
    def one(name: str) -> None:
        subprocess.run([*NVCC, str(ROOT / f"docs/hopper/{name}.cu"), "-o", str(folder / name)], check=True)

    with ThreadPoolExecutor() as pool:
        list(pool.map(one, KERNELS))


def measured(folder: Path, layers: list[str]) -> list[Row]:
    rows: list[Row] = []
    for name in KERNELS:
        answer = subprocess.run([str(folder / name), *layers], capture_output=True, text=True, timeout=300)
        rows += [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]
        said = [line for line in answer.stdout.splitlines() if not line.startswith("{")]
        print("\n".join(said[:20]), end="\n" if said else "")
        if answer.returncode != 0:
            raise SystemExit(f"{name} failed with {answer.returncode}: {answer.stderr.strip()[-500:]}")
    return rows


def peers() -> dict[str, float]:
    """Return layer -> microseconds of cuDNN's int8 convolution, from the suite `dense`, another run."""
    stored = json.loads((ROOT / "bench/results/nvidia-h200/dense.json").read_text())
    return {row["name"]: row["peers"]["cudnn_int8"] for row in stored["rows"] if "cudnn_int8" in row["peers"]}


def table(rows: list[Row], cudnn: dict[str, float]) -> str:
    """Return one line per layer: TOPS of the kernels that serve it, the fastest config of the last of them, and
    cuDNN."""
    lines = [f"{'layer':18}" + "".join(f"{name:>14}" for name in KERNELS) + f"{'us':>8}{'cuDNN us':>10}  config, MHz"]
    for layer in dict.fromkeys(row["layer"] for row in rows if not row["layer"].startswith("tiny")):
        cells, last = "", None
        for name in KERNELS:
            ran = [row for row in rows if row["layer"] == layer and row["kernel"].startswith(name)]
            best = min(ran, key=lambda row: float(row["time_us"]), default=None)
            cells += f"{best['tops']:14}" if best else f"{'-':>14}"
            last = best or last
        if last is not None:
            config = last["kernel"].partition(" ")[2]
            cells += f"{last['time_us']:8.1f}{cudnn.get(layer, 0):10.1f}  {config}, {last['sm_mhz']}"
        lines.append(f"{layer:18}{cells}")
    return "\n".join(lines)


def device() -> dict[str, str]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"]
    words = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    return dict(zip(("device", "driver", "max_sm_clock", "power_limit"), words, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("layers", nargs="*", help="names of layers, or how they begin; all without one")
    parser.add_argument("--out", type=Path, help="folder to write the results to")
    parser.add_argument("--suite", default="hopper", help="name of the file of results; default: %(default)s")
    parser.add_argument("--binaries", type=Path, help="folder of the programs, where they are built already")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.binaries is None:
            build(Path(folder))
        rows = measured(args.binaries or Path(folder), args.layers)
    cudnn = peers()
    print(table(rows, cudnn))
    wrong = sum(row["wrong"] for row in rows)
    print(f"{len(rows)} runs, {wrong} wrong outputs")
    if args.out is not None:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True)
        toolchain = version.stdout.splitlines()[-1]
        report = {"suite": args.suite, **device(), "toolchain": toolchain, "protocol": PROTOCOL, "at": at, "rows": rows}
        write_document(args.out / f"{args.suite}.json", report | {"cudnn_int8_us_of_dense": cudnn})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
