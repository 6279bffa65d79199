"""The tables of README.md and docs/tasks/devices.md that say which GPU runs what, from the table of targets, the names
of GPUs, and the records of `bench/suite.py` (runs) and `tests/support/target_objects.py` (objects, machine code)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import suite

from qconv.instances.choose.shipped import file_name
from qconv.targets.gpu_names import GPU_NAMES
from qconv.targets.target import TARGETS, Target, emulation_of

Row = dict[str, Any]

OBJECTS = Path("machine-code", "objects.json")
NOTHING = "-"
# `ROOT/` stands for the way from a page to the root, as in page_tables.py.
TESTS = "[{} GPU tests](ROOT/docs/performance.md#exactness-on-the-gpu)"
SHIPPED = Path(__file__).parents[1] / "instances/shipped"
FEW = 2  # names of GPUs per target, in README.md
# The beginning of an instruction's name, and what users call it.
PRODUCTS = {"tcgen05": "`tcgen05`", "wgmma": "`wgmma`", "mma": "`mma.sync`", "mfma": "MFMA", "wmma": "WMMA"}
# The releases of NVRTC that the extra `cuda12` installs compile for no architecture of these.
NEW_IN_CUDA_13 = frozenset({"sm_88", "sm_110a"})


def gpu_targets() -> list[Target]:
    return [entry for entry in TARGETS.values() if entry.vendor != "cpu"]


def objects(results: Path) -> dict[str, list[Row]]:
    """Return the recorded objects of each target."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    path = results / OBJECTS
    for row in json.loads(path.read_text())["rows"] if path.is_file() else ():
        found[row["target"]].append(row)
    return dict(found)


def runs(results: Path) -> dict[str, list[str]]:
    """Return the GPUs of each target on which the tests of a GPU ran, and how many passed there."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(results.glob(f"*/{suite.NAME}")):
        record = json.loads(path.read_text())
        name, target = record["device"]["name"], record["device"]["target"]
        said = [TESTS.format(record["tests"]["passed"])]
        if failed := len(record["tests"]["failed"]):
            said.append(f"{failed} failed")
        if all(tool["clean"] for tool in record["sanitizer"].values()):
            said.append("compute-sanitizer clean")
        if (SHIPPED / file_name(name)).is_file():
            said.append("tuned winners are shipped")
        found[target].append(f"**{name}** ({', '.join(said)})")
    return dict(found)


def ran(entries: Iterable[Target], known: dict[str, list[str]]) -> str:
    """Return where kernels of the targets ran: on GPUs, and else as the CPU device emulates them."""
    listed = list(entries)
    said = [gpu for entry in listed for gpu in known.get(entry.name, ())]
    emulated = dict.fromkeys(f"`{emulation_of(entry).name}`" for entry in listed if entry.name not in known)
    if emulated:
        said.append(f"{'others ' if said else ''}never on hardware; emulated as {', '.join(emulated)}")
    return ", ".join(said)


def products_of(entry: Target) -> str:
    given = (entry.tensor_memory, entry.warpgroup, *entry.instructions)
    kinds = [PRODUCTS[one.name.partition("_")[0]] for one in given if one is not None and one.sum.is_integer]
    return ", ".join(dict.fromkeys([*kinds, *(f"`{dot.name}`" for dot in entry.dots if dot.sum.is_integer)]))


def read_of(rows: Iterable[Row]) -> str:
    """Return how many objects were made, by which compilers, and the reader's verdict."""
    listed = list(rows)
    if not listed:
        return NOTHING
    refused = sum(bool(row["refused"]) for row in listed)
    made_by = ", ".join(sorted({row["toolchain"] for row in listed}))
    return f"{len(listed)} by {made_by}: {refused or 'none'} refused"


def what_runs_where(results: Path) -> str:
    """Return a line for all targets with the same products."""
    made, known = objects(results), runs(results)
    lines: defaultdict[str, list[Target]] = defaultdict(list)
    for entry in gpu_targets():
        lines[products_of(entry)].append(entry)
    rows = []
    for products, entries in lines.items():
        named = ", ".join(f"`{entry.name}`{few_names(entry)}" for entry in entries)
        read = read_of(row for entry in entries for row in made.get(entry.name, ()))
        rows.append((named, products, read, ran(entries, known)))
    every = "every kernel of the tests runs here, under sanitizers as well"
    rows.append(("CPU device: `cpu`, `cpu.sm_90a` and others", "C++", NOTHING, every))
    return table(("targets and GPUs", "int8 products", "objects, machine code read", "run"), rows)


def few_names(entry: Target) -> str:
    names = GPU_NAMES.get(entry.name, ())
    return f" ({', '.join(names[:FEW])}{', ...' if len(names) > FEW else ''})" if names else ""


def devices(results: Path) -> str:
    """Return a line for each target, with all names of its GPUs."""
    made, known = objects(results), runs(results)
    rows = []
    for entry in gpu_targets():
        own = made.get(entry.name, [])
        names = ", ".join(f"`{name}`" for name in GPU_NAMES.get(entry.name, ())) or "no product is known"
        spilled = sum(row["spill_bytes"] > 0 for row in own)
        rows.append((f"`{entry.name}`", names, extra_of(entry), read_of(own), spilled, ran([entry], known)))
    head = ("target", "GPUs, in any spelling", "extra", "objects, machine code read", "that spill", "run")
    return table(head, rows)


def extra_of(entry: Target) -> str:
    if entry.vendor == "amd":
        return "`rocm`"
    return "`cuda`" if entry.name in NEW_IN_CUDA_13 else "`cuda` or `cuda12`"


def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in (head, ["---"] * len(head), *rows))
