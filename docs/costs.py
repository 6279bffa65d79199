"""The shipped winners as the page "The cost of a layer" looks them up: the extents of each convolution of int8, its
time, and the time that no kernel can beat. docs/conf.py writes them when the site is built."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from qconv.instances.choose import shipped
from qconv.problem.convolution import Conv2d
from qconv.tuner.report.label import label_of
from qconv.tuner.report.roofline import ROOFLINES, floor_us

DEVICE = "NVIDIA H200"
EXTENTS = ("n", "h", "w", "c", "k", "r", "s", "groups")


def script() -> str:
    """Return the data as a script: a page that is opened as a file reads no other."""
    roofline = ROOFLINES[DEVICE]
    data = {"tops": roofline.tops, "tb_per_s": roofline.tb_per_s, "rows": list(rows())}
    return f"const COSTS = {json.dumps(data, separators=(',', ':'))};\n"


def rows() -> Iterator[dict[str, Any]]:
    for layer in shipped.layers():
        for row in layer.measurements(device=DEVICE):
            problem = row.problem
            if isinstance(problem, Conv2d) and is_plain(problem):
                made: dict[str, Any] = {name: getattr(problem, name) for name in EXTENTS}
                made |= {"stride": problem.stride[0], "pad": problem.pad[0], "us": row.median_us}
                yield made | {
                    "floor": floor_us(problem, DEVICE),
                    "family": row.config.family,
                    "label": label_of(problem),
                }


def is_plain(problem: Conv2d) -> bool:
    """True for a convolution of int8 that a form with one stride and one pad describes."""
    q = problem.quantization
    types = {q.x_type, q.w_type, q.out_type} == {"int8"}
    sides = len(set(problem.stride)) == len(set(problem.pad)) == 1 and problem.dilation == (1, 1)
    return types and sides and q.residual == "none"
