"""The driver's calls of a C++ program between two marks, from the driver's own callbacks (CUPTI): see
`cpp/driver_calls.cpp`."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

CPP = Path(__file__).with_name("cpp")
# Headers that the C++ programs share with the tests.
SUPPORT = Path(__file__).parents[1] / "tests" / "support"
# Parts of the names of calls that allocate, and of those in which the host waits.
ALLOCATES, WAITS = ("Alloc", "MemCreate", "MemFree"), ("Synchronize", "Memcpy", "Memset")
ASYNC = "Async"


def cupti() -> Path | None:
    """Return the folder with CUPTI's include and lib folders: the toolkit's, or that of NVIDIA's package."""
    packaged = sorted(Path(sysconfig.get_path("purelib"), "nvidia").glob("cu*/include/cupti.h"))
    known = [Path("/usr/local/cuda/extras/CUPTI"), *(path.parents[1] for path in packaged)]
    return next((folder for folder in known if (folder / "include/cupti.h").exists() and library_of(folder)), None)


def library_of(folder: Path) -> Path | None:
    found = [path for name in ("lib64", "lib") for path in sorted((folder / name).glob("libcupti.so*"))]
    return found[0] if found else None


def calls_of(command: Sequence[str | Path]) -> list[dict[str, int]] | None:
    """Run the program and return the calls of each of its marks, or None where there is no CUPTI."""
    folder = cupti()
    if folder is None:
        return None
    library = library_of(folder)
    assert library is not None
    with tempfile.TemporaryDirectory() as there:
        counter, lines = Path(there, "driver_calls.so"), Path(there, "lines")
        includes = [f"-I{folder / 'include'}", "-I/usr/local/cuda/include"]
        flags = ["-std=c++17", "-O2", "-shared", "-fPIC", *includes, f"-Wl,-rpath,{library.parent}"]
        subprocess.run(["g++", *flags, CPP / "driver_calls.cpp", library, "-o", counter], check=True)
        known = {"CUDA_INJECTION64_PATH": str(counter), "DRIVER_CALLS": str(lines)}
        subprocess.run(command, check=True, env={**os.environ, **known}, stdout=subprocess.DEVNULL)
        return [json.loads(line) for line in lines.read_text().splitlines()]


def summed(calls: dict[str, int], runs: int) -> dict[str, float]:
    """Return, per run: all calls, those that allocate, and those in which the host waits."""
    waits = {name for name in calls if ASYNC not in name and any(part in name for part in WAITS)}
    allocates = {name for name in calls if any(part in name for part in ALLOCATES)}
    return {
        "calls_of_the_driver": sum(calls.values()) / runs,
        "allocations": sum(calls[name] for name in allocates) / runs,
        "waits": sum(calls[name] for name in waits) / runs,
    }
