"""Transposed convolutions as lookup serves them, untuned, beside cuDNN's fp16 (`conv_transpose2d`, channels last).

    python bench/transposed.py [LAYERS.csv] --out FOLDER [--limit-s S]

Outputs are compared with the oracle. Without a GPU there is no peer, and nothing is timed with --verify.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from beside_peers import mean, measure, over_peer, parser_of
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
    """Return the layers by name. `most` limits the extents and the number of images."""
    made = {}
    for row in csv.DictReader(path.read_text().splitlines()):
        sizes: dict[str, Any] = {name.lower(): int(row[name]) for name in SIZES}
        for name in ("n", "h", "w") if most else ():
            sizes[name] = min(sizes[name], most or 0)
        sizes |= {name: int(row[name]) for name in WINDOW}
        made[f"{row['model']}.{row['layer']}"] = ConvTranspose2d(**sizes)
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


def summary(rows: Sequence[Row]) -> Row:
    over_floor = [row["time_us"] / row["floor_us"] for row in rows if row.get("floor_us")]
    return over_peer(rows) | {"over_floor": mean(over_floor)}


def main() -> None:
    begin = time.monotonic()
    parser = parser_of(__doc__, LAYERS)
    parser.add_argument("--verify", action="store_true", help="time nothing")
    given = parser.parse_args()
    device = open_device(given.device)
    protocol = protocol_for(device)
    report = Report(given.out, "transposed", device, described(protocol), given.commit)

    def row(problem: ConvTranspose2d) -> Row:
        release(device)
        return measured(problem, device, protocol, not given.verify)

    layers = ((name, partial(row, problem)) for name, problem in layers_of(given.layers, given.most).items())
    measure(report, layers, summary, ("time_us", "peer_us", "floor_us", "verified", "config"), begin + given.limit_s)


if __name__ == "__main__":
    main()
