"""Transposed convolutions as lookup serves them, untuned, beside cuDNN's fp16 (`conv_transpose2d`, channels last).

    python bench/transposed.py [LAYERS.csv] --out FOLDER [--limit-s S]

Outputs are compared with the oracle. Without a GPU there is no peer, and nothing is timed with --verify.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
from pathlib import Path

from network_timing import Row
from peers import Unavailable, cudnn_fp16
from report import Report
from roofline import floor_us
from timing import described, interleaved_us, release, runner_of

from qconv import ConvTranspose2d, lookup
from qconv.device import Device, open_device
from qconv.ops import registry
from qconv.tuner.measure.protocol import TimingProtocol, protocol_for
from qconv.tuner.measure.verification import mismatch

LAYERS = Path(__file__).with_name("workloads") / "transposed.csv"
SIZES = ("N", "H", "W", "C", "K", "R", "S")
WINDOW = ("stride", "pad", "output_padding", "dilation", "groups")


def layers_of(path: Path, most: int | None) -> dict[str, ConvTranspose2d]:
    """Return the layers by name. With `most`, their images are at most so large and so many."""
    made = {}
    for row in csv.DictReader(path.read_text().splitlines()):
        sizes = {name.lower(): int(row[name]) for name in SIZES}
        for name in ("n", "h", "w") if most else ():
            sizes[name] = min(sizes[name], most or 0)
        made[f"{row['model']}.{row['layer']}"] = ConvTranspose2d(**sizes, **{name: int(row[name]) for name in WINDOW})
    return made


def measured(problem: ConvTranspose2d, device: Device, protocol: TimingProtocol, is_timed: bool) -> Row:
    phases = problem.phases
    instance, drawn = lookup(phases, device.spec), registry.draw(phases, 1)
    wrong = mismatch(instance.executable, drawn)
    row: Row = {"problem": str(phases), "origin": instance.origin, "config": str(instance.plan.config)}
    row |= {"verified": wrong is None, "mismatch": wrong}
    if not is_timed:
        return row
    runners = {"ours": runner_of(instance.executable, drawn, protocol)}
    try:
        peer = cudnn_fp16.transposed(problem, protocol)
        runners["cudnn_fp16"], row["peer_facts"] = peer.run, peer.facts
    except (ImportError, Unavailable) as error:
        row["missing"] = str(error)
    times = interleaved_us(runners, protocol)
    row |= {"time_us": times["ours"], "floor_us": floor_us(phases, device.name), "peer_us": times.get("cudnn_fp16")}
    row["over_peer"] = row["peer_us"] / row["time_us"] if row["peer_us"] else None
    return row


def summary(rows: list[Row]) -> Row:
    over = [row["over_peer"] for row in rows if row.get("over_peer")]
    floors = [row["time_us"] / row["floor_us"] for row in rows if row.get("floor_us")]
    return {
        "rows": len(rows),
        "verified": sum(row["verified"] for row in rows),
        "over_peer": math.exp(sum(map(math.log, over)) / len(over)) if over else None,
        "least_over_peer": min(over, default=None),
        "over_floor": math.exp(sum(map(math.log, floors)) / len(floors)) if floors else None,
    }


def main() -> None:
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="?", type=Path, default=LAYERS)
    parser.add_argument("--out", type=Path, required=True, help="such as bench/results/h200")
    parser.add_argument("--limit-s", type=float, default=math.inf)
    parser.add_argument("--verify", action="store_true", help="time nothing")
    parser.add_argument("--most", type=int, help="the largest extent of an image, and the most images")
    parser.add_argument("--device")
    parser.add_argument("--commit", help="where there is no checkout")
    given = parser.parse_args()
    device = open_device(given.device)
    protocol = protocol_for(device)
    report = Report(given.out, "transposed", device, described(protocol), given.commit)
    rows: list[Row] = []
    for name, problem in layers_of(given.layers, given.most).items():
        if time.monotonic() - begin > given.limit_s:
            print(f"{given.limit_s:g} s are over", file=sys.stderr)
            break
        rows.append({"name": name, **measured(problem, device, protocol, not given.verify)})
        release(device)
        report.write(rows, summary(rows))
        print(
            json.dumps(
                {key: rows[-1].get(key) for key in ("name", "time_us", "peer_us", "floor_us", "verified", "config")}
            )
        )
    print(json.dumps(summary(rows)))
    if not all(row["verified"] for row in rows):
        sys.exit("these differ from the oracle: " + ", ".join(row["name"] for row in rows if not row["verified"]))


if __name__ == "__main__":
    main()
