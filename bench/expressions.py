"""Maps, softmax and LayerNorm, large and small, beside a copy of as many bytes; writes the suite `expressions`.

    python bench/expressions.py --out bench/results/nvidia-h200 [--mib 64,256] [--only softmax]

Kernels are those that a lookup chooses; nothing is tuned. The copy is the faster of the driver's and a kernel's, in the
same process. The first and the last rows of every output are compared with the oracle. `--device cpu --mib 1` runs
everything without a GPU, and without copies.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from current import digest_of
from report import Report
from timing import release, torch_times_us

import qconv
from qconv.device import Device, open_device
from qconv.dtypes import ELEMENT_TYPES
from qconv.op import Problem
from qconv.ops import registry

Row = dict[str, Any]

REPEATS = 15
# Columns of the large ones; rows and columns of the small ones: a layer and the scores of a small transformer.
COLUMNS, SMALL = 1024, ((196, 192), (588, 196))
# Rows that are compared with the oracle, at both ends.
COMPARED = 64
SCALE, ZERO_POINT, LEAST_VARIANCE = 0.05, 3.0, 1e-5


def real(dtype: str, element: str) -> str:
    """Return an element as a float; an integer is dequantized."""
    if dtype.startswith("float"):
        return element
    return f"multiply(subtract(to_float32({element}),{ZERO_POINT}),{SCALE})"


def kept(dtype: str, value: str, scale: float = SCALE) -> str:
    """Return a float as it is stored; an integer is quantized."""
    if dtype.startswith("float"):
        return value
    return f"quantize({value},{scale},{ZERO_POINT},-128.0,127.0)"


@dataclass(frozen=True)
class Case:
    """An expression over rows and columns. `do` has the position of an element as @, and the column as c0."""

    name: str
    dtype: str
    do: str
    operands: int = 1  # with an element for each of the output
    vectors: int = 0  # with an element for each column
    is_map: bool = False
    x_type: str = ""

    def problem(self, rows: int, columns: int) -> Problem:
        inputs = [f"{self.x_type or self.dtype}*{rows * columns}"] * self.operands
        inputs += [f"float32*{columns}!"] * self.vectors
        row, column = ("i0", "i1") if self.is_map else ("r0", "c0")
        axes = f"map:shape={rows},{columns}" if self.is_map else f"reduce:rows={rows}:columns={columns}"
        do = self.do.replace("@", f"{row}*{columns}+{column}").replace("$", str(1.0 / columns))
        return registry.parse(f"{axes}:in={','.join(inputs)}:out={self.dtype}:do={do}")


def cases_of(dtype: str) -> Iterator[Case]:
    x, fine = real(dtype, "x0[@]"), 1 / 128  # the scale of a softmax's result
    softmax = f"x={x};e=exp(subtract(x,maximum_of(x)));"
    yield Case("softmax", dtype, f"{softmax}y={kept(dtype, 'multiply(e,divide(1.0,sum_of(e)))', fine)}")
    centred = f"x={x};d=subtract(x,multiply(sum_of(x),$));v=multiply(sum_of(multiply(d,d)),$);"
    scaled = f"multiply(multiply(d,divide(1.0,sqrt(add(v,{LEAST_VARIANCE})))),x1[c0])"
    yield Case("layer_norm", dtype, f"{centred}y={kept(dtype, f'add({scaled},x2[c0])')}", vectors=2)
    both = f"add({x},{real(dtype, 'x1[@]')})"
    yield Case("add_relu", dtype, f"y={kept(dtype, f'maximum({both},0.0)')}", operands=2, is_map=True)
    yield Case("silu", dtype, f"y={kept(dtype, f'silu({x})')}", is_map=True)


def cases() -> Iterator[Case]:
    for dtype in ("float32", "float16", "int8"):
        yield from cases_of(dtype)
    yield Case("quantize", "int8", f"y={kept('int8', 'x0[@]')}", is_map=True, x_type="float32")
    yield Case("dequantize", "float32", f"y={real('int8', 'x0[@]')}", is_map=True, x_type="int8")


def sizes(case: Case, mebibytes: list[int]) -> Iterator[tuple[str, int, int]]:
    """Yield names, rows and columns; the wider one of the tensors has the given size."""
    widest = max(ELEMENT_TYPES[dtype].bytes for dtype in (case.dtype, case.x_type or case.dtype))
    for size in mebibytes:
        yield f"{size} MiB", size * 2**20 // widest // COLUMNS, COLUMNS
    for rows, columns in SMALL:
        yield f"{rows}x{columns}", rows, columns


def drawn(case: Case, rows: int, columns: int) -> list[Any]:
    """Return the inputs: the same random rows again and again."""
    some = registry.draw(case.problem(min(rows, 4 * COMPARED), columns), 1).arrays
    whole = case.problem(rows, columns)
    return [np.resize(array, tensor.shape) for array, tensor in zip(some, whole.inputs, strict=True)]


def is_right(case: Case, rows: int, columns: int, arrays: list[Any], y: Any) -> bool:
    """Compare the first and the last rows."""
    count = min(rows, COMPARED)
    part, elements = case.problem(count, columns), count * columns
    for end in (slice(None, elements), slice(-elements, None)):
        given = [array[end] if at < case.operands else array for at, array in enumerate(arrays)]
        (want,) = registry.compute(part, registry.Sample(tuple(given)))
        if y.reshape(-1)[end].tobytes() != want.tobytes():
            return False
    return True


def torch_us(case: Case, arrays: list[Any], rows: int, columns: int) -> float | None:
    """Return the time of PyTorch's own kernel, or None if it has none."""
    calls: dict[str, Callable[..., Any]] = {}
    if case.dtype.startswith("float") and not case.x_type:
        import torch
        from torch.nn import functional

        kind = getattr(torch, case.dtype)
        x, *more = (torch.from_numpy(array).cuda().to(kind) for array in arrays)
        x = x.reshape(rows, columns)
        calls = {
            "softmax": lambda: functional.softmax(x, 1),
            "layer_norm": lambda: functional.layer_norm(x, (columns,), more[0], more[1], LEAST_VARIANCE),
            "silu": lambda: functional.silu(x),
        }
    if case.name not in calls:
        return None
    calls[case.name]()
    return statistics.median(torch_times_us(calls[case.name], REPEATS))


def measured(case: Case, rows: int, columns: int, device: Device) -> Row:
    problem, arrays = case.problem(rows, columns), drawn(case, rows, columns)
    instance = qconv.lookup(problem, device.spec)
    bound = instance.bind(*map(device.upload, arrays))
    bound()
    row: Row = {
        "problem": str(problem),
        "verified": is_right(case, rows, columns, arrays, np.asarray(device.download(bound.y))),
        "time_us": statistics.median(device.time_us([bound.launch], REPEATS)),
        "config": instance.plan.config.as_dict(),
        "digest": digest_of(instance.plan),
        "origin": instance.origin,
    }
    row["gb_per_s"] = problem.io_bytes / row["time_us"] / 1e3
    if device.target.vendor != "cpu":
        from conversions import copies_us

        row["peers"] = copies_us(device, problem.io_bytes)
        row["copy_us"] = min(row["peers"].values())
        row["of_copy"] = row["copy_us"] / row["time_us"]
        if (by_torch := torch_us(case, arrays, rows, columns)) is not None:
            row["peers"]["torch"] = by_torch
    return row


def line_of(row: Row) -> str:
    if "missing" in row:
        return f"{row['name']:<32} {row['missing'][:160]}"
    beside = ""
    if "copy_us" in row:
        beside = f" {row['of_copy']:5.2f} of a copy, {row['time_us'] - row['copy_us']:8.2f} us more"
    by_torch = f" PyTorch {row['peers']['torch']:9.2f} us" if "torch" in row.get("peers", {}) else ""
    wrong = "" if row["verified"] else "  DIFFERS"
    return f"{row['name']:<32}{row['time_us']:10.2f} us {row['gb_per_s']:7.0f} GB/s{beside}{by_torch}{wrong}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", default="64,256", help="sizes of the large ones; default: %(default)s")
    parser.add_argument("--only", default="", help="the cases that match a regular expression, such as 'softmax int8'")
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", help="the commit to record in the results; default: this checkout's HEAD")
    options = parser.parse_args(arguments)
    device = open_device(options.device)
    protocol = {"name": "1 launch a graph, events, median", "repeats": REPEATS}
    report = Report(options.out, "expressions", device, protocol, options.commit)
    found: list[Row] = []
    for case in cases():
        for size, rows, columns in sizes(case, [int(size) for size in options.mib.split(",") if size]):
            name = f"{case.name} {case.dtype} {size}"
            if not re.search(options.only, name):
                continue
            try:
                row = measured(case, rows, columns, device)
            except Exception as error:  # no kernel, or one that fails: the others are measured
                row = {"missing": f"{type(error).__name__}: {' '.join(str(error).split())}"}
            found.append({"name": name, **row})
            report.write(found)
            print(line_of(found[-1]), flush=True)
            release(device)
    if wrong := [row["name"] for row in found if not row.get("verified", True)]:
        sys.exit(f"these differ from the oracle: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
