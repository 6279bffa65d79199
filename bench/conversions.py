"""Quantize, dequantize and choose compared with a copy, on 1 GiB; writes the suite `quantize`.

    python bench/conversions.py --db tune.sqlite --out bench/results/nvidia-h200 [--gib 1] [--trials 24]

Configs are tuned on arrays of 16 MiB and looked up for the large ones. A copy of the same number of bytes, and
PyTorch's kernel if it has one, run in the same process; slices of every output are compared with the oracle.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from current import digest_of
from report import Report
from timing import torch_times_us

import qconv
from qconv.conversion import Choose, Conversion, Dequantize, Dynamic, Quantize
from qconv.device import Device, open_device
from qconv.dtypes import ELEMENT_TYPES
from qconv.ops import registry
from qconv.tune_db.database import Database
from qconv.tuner.search.tune import tune

ROW = 4096
REPEATS = 15

# Name -> the problem with a given number of rows of 4096 elements.
CASES: dict[str, Callable[[int], Conversion]] = {
    "quantize_f32_tensor": lambda rows: Quantize(1, 1, rows * ROW),
    "quantize_f32_tensor_zero": lambda rows: Quantize.of(
        "torch-fbgemm", outer=1, channels=1, inner=rows * ROW, zero_point=True
    ),
    "quantize_f32_token": lambda rows: Quantize(1, rows, ROW, zero_point=True),
    "quantize_f32_channel_last": lambda rows: Quantize(rows, ROW, 1, zero_point=True),
    "quantize_f32_block32": lambda rows: Quantize(rows, ROW, 1, block=32),
    "quantize_f16_token": lambda rows: Quantize(1, rows, ROW, x_type="float16"),
    "quantize_bf16_tensor_u8": lambda rows: Quantize(
        1, 1, rows * ROW, x_type="bfloat16", out_type="uint8", zero_point=True
    ),
    "dequantize_f32_tensor": lambda rows: Dequantize(1, 1, rows * ROW, zero_point=True),
    "dequantize_f32_token": lambda rows: Dequantize(1, rows, ROW, zero_point=True),
    "dequantize_f32_channel_last": lambda rows: Dequantize(rows, ROW, 1, zero_point=True),
    "dequantize_f16_tensor": lambda rows: Dequantize(1, 1, rows * ROW, out_type="float16"),
    "choose_f32_tensor": lambda rows: Choose(1, 1, rows * ROW),
    "choose_f32_token": lambda rows: Choose(1, rows, ROW),
    "dynamic_f32_token": lambda rows: Dynamic(1, rows, ROW),
    "dynamic_f32_tensor": lambda rows: Dynamic(1, 1, rows * ROW, out_type="uint8", rule="onnx"),
}


def rows_of(make: Callable[[int], Conversion], wide_bytes: int) -> int:
    """Return the number of rows for which the wider array has this size."""
    one = make(2)
    widest = max(ELEMENT_TYPES[t.dtype].bytes for t in (*one.inputs, *one.outputs) if t.name in ("x", "y"))
    return wide_bytes // (ROW * widest)


def fill(problem: Conversion) -> list[Any]:
    """Return random arrays made on the device: full-range integers, and reals over and beyond the output's range."""
    arrays = []
    for tensor in problem.inputs:
        kind = ELEMENT_TYPES[tensor.dtype]
        if "scale" in tensor.name:
            array = cupy.random.uniform(0.01, 0.1, tensor.shape, dtype=cupy.float32).astype(kind.numpy)
        elif "zero" in tensor.name:
            array = cupy.random.randint(-8, 9, tensor.shape).astype(cupy.int32)
        elif kind.limits is not None:
            array = cupy.random.randint(kind.limits[0], kind.limits[1] + 1, tensor.shape).astype(kind.numpy)
        else:
            array = cupy.random.standard_normal(tensor.shape, dtype=cupy.float32).astype(kind.numpy)
        arrays.append(array)
    return arrays


def is_right(problem: Conversion, arrays: list[Any], outputs: tuple[Any, ...]) -> bool:
    """Compare the first, middle and last rows with the oracle. Arrays for which one scale is chosen are compared as a
    whole."""
    if isinstance(problem, Choose) and problem.channels == 1:
        host = tuple(cupy.asnumpy(array) for array in arrays)
        want = registry.compute(problem, registry.Sample(host))
        return all(cupy.asnumpy(got).tobytes() == wanted.tobytes() for got, wanted in zip(outputs, want, strict=True))
    axis = next(i for i, extent in enumerate(problem.shape) if extent > 1)
    extent = problem.shape[axis]
    some = min(extent, 64 if axis < 2 else 64 * ROW)
    for begin in (0, extent // 2, extent - some):
        field = ("outer", "channels", "inner")[axis]
        changed: dict[str, Any] = {field: some}
        part = replace(problem, **changed)

        def cut(array: Any, shape: tuple[int, ...], begin: int = begin) -> Any:
            if len(shape) == 3:
                part = array[(slice(None),) * axis + (slice(begin, begin + some),)]
                return np.ascontiguousarray(cupy.asnumpy(part))
            per = shape[0] // extent if shape[0] % extent == 0 and shape[0] >= extent else 0
            moves = axis == 1 or (problem.block and axis == 0)
            return cupy.asnumpy(array[begin * per : (begin + some) * per] if moves else array)

        host = tuple(cut(array, t.shape) for array, t in zip(arrays, problem.inputs, strict=True))
        want = registry.compute(part, registry.Sample(host))
        got = [cut(array, t.shape) for array, t in zip(outputs, problem.outputs, strict=True)]
        if any(a.tobytes() != b.tobytes() for a, b in zip(got, want, strict=True)):
            return False
    return True


# Four 16-byte loads in flight per thread, as in the best of the kernels measured here.
COPY = """
extern "C" __global__ void copy(const uint4* x, uint4* y) {
    const long first = 1024L * blockIdx.x + threadIdx.x;
    uint4 held[4];
    for (int i = 0; i < 4; ++i) held[i] = x[first + 256 * i];
    for (int i = 0; i < 4; ++i) y[first + 256 * i] = held[i];
}
"""


def copies_us(device: Device, count: int) -> dict[str, float]:
    """Return the times of copies that read and write `count` bytes in total: the driver's and a kernel's."""
    x = cupy.zeros(count // 2 // 16384 * 16384, cupy.uint8)
    y = cupy.empty_like(x)
    runtime, kernel = cupy.cuda.runtime, cupy.RawKernel(COPY, "copy")

    def by_driver(stream: Any) -> None:
        runtime.memcpyAsync(y.data.ptr, x.data.ptr, x.nbytes, runtime.memcpyDeviceToDevice, stream or 0)

    def by_kernel(stream: Any) -> None:
        kernel((x.nbytes // 16384,), (256,), (x, y))

    kernel.compile()
    return {
        name: statistics.median(device.time_us([launch], REPEATS))
        for name, launch in (("memcpy", by_driver), ("copy kernel", by_kernel))
    }


def torch_us(problem: Conversion, arrays: list[Any], device: Device) -> float | None:
    """Return the time of PyTorch's own kernel on the same array, or None if it has none."""
    try:
        import torch
    except ImportError:
        return None
    tensors = problem.channels == 1 and not isinstance(problem, Choose)
    if not tensors or {problem.x_type, problem.out_type} != {"float32", "int8"}:  # type: ignore[attr-defined]
        return None
    x = torch.from_dlpack(arrays[0])
    if isinstance(problem, Dequantize):
        q = torch._make_per_tensor_quantized_tensor(x, 0.05, 3)
        return _torch_median(q.dequantize)
    return _torch_median(lambda: torch.quantize_per_tensor(x, 0.05, 3, torch.qint8))


def _torch_median(call: Callable[[], Any]) -> float:
    call()
    return statistics.median(torch_times_us(call, REPEATS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--only", default="")
    parser.add_argument("--db", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", help="the commit to record in the results; default: this checkout's HEAD")
    options = parser.parse_args()
    device = open_device(None)
    protocol = {"name": "1 launch a graph, inputs larger than any cache, events, median", "repeats": REPEATS}
    report = Report(options.out, "quantize", device, protocol, options.commit)
    results: list[dict[str, Any]] = []
    for name, make in CASES.items():
        if options.only not in name:
            continue
        with Database.open(options.db) as database:
            outcome = tune(make(rows_of(make, 2**24)), device, database, trials=options.trials)
        if outcome.best is None:
            sys.exit(f"{name}: no config worked: {outcome.failures}")
        problem = make(rows_of(make, int(options.gib * 2**30)))
        instance = qconv.lookup(problem, device.spec, options.db)
        arrays = fill(problem)
        bound = instance.bind(*arrays)
        bound()
        outputs = bound.y if isinstance(bound.y, tuple) else (bound.y,)
        verified = is_right(problem, arrays, outputs)
        time_us = statistics.median(device.time_us([bound.launch], REPEATS))
        peers = copies_us(device, problem.io_bytes)
        copied_us = min(peers.values())
        torch_time = torch_us(problem, arrays, device)
        if torch_time is not None:
            peers["torch"] = torch_time
        row: dict[str, Any] = {
            "name": name,
            "problem": str(problem),
            "time_us": time_us,
            "floor_us": copied_us,
            "gb_per_s": problem.io_bytes / time_us / 1e3,
            "copy_gb_per_s": problem.io_bytes / copied_us / 1e3,
            "of_copy": copied_us / time_us,
            "peers": peers,
            "best_peer_us": torch_time,
            "config": instance.plan.config.as_dict(),
            "digest": digest_of(instance.plan),
            "origin": instance.origin,
            "verified": verified,
        }
        results.append(row)
        report.write(results)
        against = f"{100 * row['of_copy']:5.1f} % of a copy ({row['copy_gb_per_s']:.0f} GB/s)"
        chosen = f"{instance.origin}: {instance.plan.config}"
        print(f"{name:<28}{time_us:10.1f} us {row['gb_per_s']:7.0f} GB/s {against}  {chosen}", flush=True)
        if not verified:
            sys.exit(f"{name}: the output differs from the oracle")
        del arrays, bound, outputs
        cupy.get_default_memory_pool().free_all_blocks()


if __name__ == "__main__":
    main()
