"""What zero points cost: layers symmetric and with every zero point, by the same config in the same run.

    python bench/zero_points.py --out bench/results/nvidia-h200

The configs are the best known of the symmetric layers. Times are interleaved; both kernels are verified.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from report import write

import qconv
from qconv import generator, sample
from qconv.device import open_device
from qconv.instances.lookup import load
from qconv.tuner.protocol import protocol_for, time_us
from qconv.tuner.verify import mismatch

SYMMETRIC = qconv.Quantization(per_channel=True, bias="int32")
LAYERS = {
    "rn50_l1_3x3": qconv.Conv2d(32, 56, 56, 64, 64, 3, 3, pad=1),
    "rn50_l2_3x3": qconv.Conv2d(32, 28, 28, 128, 128, 3, 3, pad=1),
    "rn50_l3_3x3": qconv.Conv2d(32, 14, 14, 256, 256, 3, 3, pad=1),
    "rn50_l4_3x3": qconv.Conv2d(32, 7, 7, 512, 512, 3, 3, pad=1),
    "rn50_l2_1x1": qconv.Conv2d(32, 28, 28, 512, 128, 1, 1),
    "rn50_l3_1x1": qconv.Conv2d(32, 14, 14, 256, 1024, 1, 1),
    "rn50_l1_1x1": qconv.Conv2d(32, 56, 56, 64, 256, 1, 1),
}
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", help="where the symmetric layers were tuned; default: the shipped winners")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", help="what the results say they were measured on; default: this checkout's HEAD")
    options = parser.parse_args()
    device = open_device(None)
    protocol = protocol_for(device)
    every = replace(SYMMETRIC, x_zero_point=True, w_zero_point=True, y_zero_point=True)
    rows: list[dict[str, Any]] = []
    for name, layer in LAYERS.items():
        config = qconv.lookup(layer, device.spec, options.db).plan.config
        instances, drawn, times = {}, {}, {"symmetric": [], "every": []}
        verified = True
        for kind, quantization in (("symmetric", SYMMETRIC), ("every", every)):
            problem = replace(layer, quantization=quantization)
            plan = generator.plan(problem, config, device.target)
            instances[kind] = load(plan, device, "bench", "the config of the symmetric layer")
            drawn[kind] = sample.draw(problem, 1)
            verified = verified and mismatch(instances[kind], drawn[kind]) is None
        for _ in range(ROUNDS):
            for kind, instance in instances.items():
                times[kind] += time_us(instance, drawn[kind], protocol)
        medians = {kind: float(np.median(values)) for kind, values in times.items()}
        ratio = medians["every"] / medians["symmetric"]
        rows.append(
            {
                "name": name,
                "problem": str(replace(layer, quantization=every)),
                "time_us": medians["every"],
                "symmetric_us": medians["symmetric"],
                "ratio": ratio,
                "config": config.as_dict(),
                "verified": verified,
            }
        )
        print(
            f"{name:<14}{medians['symmetric']:9.2f} us symmetric {medians['every']:9.2f} us with every zero point "
            f"{100 * (ratio - 1):+6.2f} %  verified {verified}  {config}",
            flush=True,
        )
    mean = statistics.geometric_mean(row["ratio"] for row in rows)
    print(f"geometric mean {100 * (mean - 1):+.2f} %")
    write(options.out, "zero_points", device, protocol.as_dict(), options.commit, rows)


if __name__ == "__main__":
    main()
