"""A library of single kernels of every family: its self-test, and the host's time of a launch with other arrays at each
call, beside the driver's own and the driver's encoding of tensor maps, with the driver's calls counted.

    python bench/library.py --out FOLDER [--target sm_90a]

The kernels are those of the library's tests. Without a GPU it builds everything, and stops before the first launch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from driver_calls import CPP, SUPPORT, calls_of, summed
from network_timing import Row
from report import Report

from qconv.device import open_device
from qconv.instances.library.write import write

sys.path.append(str(SUPPORT))
from library_cases import gpu_winners

PROTOCOL = {"calls": 50, "rounds": 100, "statistic": "median", "clock": "the host's"}


def built(folder: Path, cuda: Path) -> Path:
    """Build the library with its self-test, and the program that times its launches."""
    configure = ["cmake", "-S", folder, "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release"]
    for command in (configure, ["cmake", "--build", folder / "build", "-j8"]):
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    includes = [f"-I{path}" for path in (folder / "include", folder / "src", CPP, SUPPORT, cuda)]
    source, program = CPP / "kernel_launches.cpp", folder / "kernel_launches"
    vectors = next(folder.rglob("self_test_vectors.cpp"))
    flags = ["-std=c++17", "-O2", *includes, f"-I{vectors.parent}"]
    subprocess.run(["g++", *flags, source, vectors, "-o", program, "-ldl", "-pthread"], check=True)
    return program


def self_tested(folder: Path) -> str:
    """Return the last line of the self-test, which counts what is right."""
    (program,) = (path for path in (folder / "build").rglob("*self_test") if path.is_file())
    run = subprocess.run([program], capture_output=True, text=True, check=False)
    sys.stdout.write("".join(line + "\n" for line in run.stdout.splitlines() if "wrong" in line))
    return run.stdout.splitlines()[-1] if run.stdout else run.stderr


def summary(rows: list[Row]) -> Row:
    over = [row["launch_ns"] - row["driver_ns"] - row["encoding_ns"] for row in rows]
    return {
        "kernels": len(rows),
        "over_driver_ns": {"median": statistics.median(over), "most": max(over)},
        "encoding_of_a_map_ns": statistics.median([row["encoding_ns"] / row["maps"] for row in rows if row["maps"]]),
        "driver_ns": statistics.median([row["driver_ns"] / row["launches"] for row in rows]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="such as bench/results/h200")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--cuda", type=Path, default=Path("/usr/local/cuda/include"), help="the folder of cuda.h")
    parser.add_argument("--commit", help="where there is no checkout")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as there:
        folder = Path(there, "library")
        write(gpu_winners(given.target, given.target), folder)
        program = built(folder, given.cuda)
        device = open_device(None)
        if device.target.vendor == "cpu":
            sys.exit("there is no GPU here: all is built, and nothing ran")
        report = Report(given.out, "library", device, PROTOCOL, given.commit)
        tested = self_tested(folder)
        rows: list[Row] = [json.loads(line) for line in subprocess.check_output([program], text=True).splitlines()]
        counted = calls_of([program])
        for row, calls in zip(rows, counted or [], strict=counted is not None):
            row |= summed(calls, row["calls"]) | {"driver": calls}
        found = summary(rows) | {"self_test": tested}
        report.write(rows, found)
        print(json.dumps(found))


if __name__ == "__main__":
    main()
