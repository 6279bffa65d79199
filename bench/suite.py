"""Run the GPU tests and compute-sanitizer on this machine's GPU, and record the results.

    python bench/suite.py --out bench/results/nvidia-h200
    python bench/suite.py --out bench/results/nvidia-h200 --sentence

The first command runs every test marked `gpu`, then each test made for the sanitizer under each of its tools, with one
process and one time limit per pair of test and tool, and writes suite.json. The second runs nothing: it prints the
sentence of docs/performance.md about that record and the templates that changed since.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from document import write_document
from report import driver_version, head, versions

from qconv.device import gpu_specs, open_device
from qconv.device.compile import compiler_for

Record = dict[str, Any]

ROOT = Path(__file__).parents[1]
NAME = "suite.json"
TESTS = ("-q", "-m", "gpu", "-p", "no:cacheprovider")
FOR_SANITIZERS = ("-k", "sanitizer")
MOST_NAMED = 12  # changed templates; the page has the count of more
PART_LIMIT_S = 240.0  # per test and tool
# Every warning of racecheck counts, not only those that it calls errors. initcheck is left out: kernels load the
# weights one step ahead, and the step after the last reads memory that is never written, whose values are not used.
TOOLS = {"memcheck": (), "racecheck": ("--racecheck-report", "all"), "synccheck": ()}
SUMMARY = re.compile(r"=+ (?:ERROR|RACECHECK) SUMMARY: (.*)")
SKIPPED = re.compile(r"^SKIPPED \[1\] \S+ (.*)", re.MULTILINE)
CLEAN = re.compile(r"0 errors|0 hazards displayed \(0 errors, 0 warnings\)")
# Templates that no CUDA source includes.
OTHER_VENDORS = re.compile(r"hip|cpu|mfma|wmma|sdot4|sudot4|emulated|loader/buffers")


def templates() -> dict[str, str]:
    """Return the digest of every template that a CUDA source may include."""
    folder = ROOT / "templates"
    found = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.j2"))}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        for name, path in found.items()
        if not OTHER_VENDORS.search(name)
    }


def changed_since(record: Record) -> list[str]:
    """Return the templates whose text is not among those of the recorded GPU run; a moved file is not listed."""
    then = set(record["templates"].values())
    return sorted(name for name, digest in templates().items() if digest not in then)


def counted(report: Path) -> Record:
    """Return the outcomes of a run, from pytest's JUnit report."""
    failed, reasons, passed = {}, Counter[str](), 0
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        if (bad := case.find("failure")) is not None or (bad := case.find("error")) is not None:
            failed[name] = (bad.get("message") or "").splitlines()[0][:300]
        elif (skipped := case.find("skipped")) is not None:
            reasons[skipped.get("message") or "no reason given"] += 1
        else:
            passed += 1
    return {"passed": passed, "failed": failed, "skipped": dict(reasons.most_common())}


def run_tests(workers: int) -> Record:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        many = ("-n", str(workers)) if workers > 1 else ()
        command = [sys.executable, "-m", "pytest", *TESTS, *many, f"--junitxml={report}"]
        subprocess.run(command, cwd=ROOT, check=False)
        return {"command": " ".join(["pytest", *TESTS]), **counted(report)}


def summary_of(output: str) -> tuple[str, bool]:
    """Return the tool's own summary, and true if it found nothing and the tests under it passed."""
    summaries = SUMMARY.findall(output)
    if not summaries:
        return "no summary: " + (output.strip().splitlines() or ["no output"])[-1][:300], False
    passed = re.search(r"\b[1-9]\d* passed", output) and not re.search(r"\b[1-9]\d* (failed|error)", output)
    return summaries[-1], bool(passed) and all(CLEAN.match(line) for line in summaries)


def sanitizer_tests() -> list[str]:
    """Collect the node ids of the tests made for the sanitizer."""
    command = [sys.executable, "-m", "pytest", *TESTS, *FOR_SANITIZERS, "--collect-only"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if "::" in line]


def sanitize(tool: str, test: str, limit_s: float) -> Record:
    """Run one test under one tool. A test that exceeds its limit is recorded as such and is not clean."""
    binary = shutil.which("compute-sanitizer")
    if binary is None:
        return {"summary": "not run: compute-sanitizer is not installed", "clean": False, "seconds": 0.0}
    command = [binary, "--tool", tool, *TOOLS[tool], sys.executable, "-m", "pytest", *TESTS, test]
    began = time.monotonic()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return {"summary": f"ended at its limit of {limit_s:g} s", "clean": False, "seconds": limit_s}
    output = done.stdout + done.stderr
    if reason := SKIPPED.search(output):
        return {"summary": f"skipped: {reason[1]}", "clean": True, "seconds": None}
    summary, clean = summary_of(output)
    reports = [line for line in output.splitlines() if line.startswith("=========")]
    part = {"summary": summary, "clean": clean, "seconds": round(time.monotonic() - began, 1)}
    return part | ({} if clean else {"reports": reports[:60]})


def tool_record(parts: dict[str, Record]) -> Record:
    """Summarize the tests under one tool: the seconds of each clean one, the reason of each skipped one, and all
    details of the others."""
    skipped = {test: part["summary"] for test, part in parts.items() if part["seconds"] is None}
    clean = {test: part["seconds"] for test, part in parts.items() if part["clean"] and test not in skipped}
    others = {test: part for test, part in parts.items() if not part["clean"]}
    summary = f"{len(clean)} of {len(parts) - len(skipped)} tests clean"
    whole = bool(clean) and not others
    return {"summary": summary, "clean": whole, "seconds": clean, "skipped": skipped, "not_clean": others}


def sanitize_all(tools: list[str], workers: int, limit_s: float) -> Record:
    """Run the pairs of test and tool in parallel: most of a pair's time is host work.

    racecheck comes first, as its tests take longest.
    """
    tests = sanitizer_tests()
    pairs = [(tool, test) for tool in sorted(tools, key="racecheck".__ne__) for test in tests]
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(lambda pair: sanitize(pair[0], pair[1], limit_s), pairs))
    by_tool: dict[str, dict[str, Record]] = {tool: {} for tool in tools}
    for (tool, test), part in zip(pairs, parts, strict=True):
        by_tool[tool][test] = part
    return {tool: tool_record(found) for tool, found in by_tool.items()}


def is_green(record: Record) -> bool:
    tests = record["tests"]
    return bool(tests["passed"]) and not tests["failed"] and all(tool["clean"] for tool in record["sanitizer"].values())


def sentence(record: Record) -> str:
    """Return the sentence of docs/performance.md about the record. It changes with the templates, so the page is
    accurate."""
    tests = record["tests"]
    skipped = sum(tests["skipped"].values())
    clean = [name for name, tool in record["sanitizer"].items() if tool["clean"]]
    changed = changed_since(record)
    names = ", ".join(changed) if len(changed) <= MOST_NAMED else f"{len(changed)} of {len(templates())}"
    return (
        f"GPU tests on {record['device']['name']}, driver {record['driver']}, commit {record['commit'][:7]}: "
        f"{tests['passed']} passed, {len(tests['failed'])} failed, {skipped} skipped; compute-sanitizer found "
        f"nothing with {', '.join(clean) or 'no tool'}. Templates of CUDA sources changed since: {names or 'none'}."
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sentence", action="store_true", help="print what the docs say of it, and run nothing")
    parser.add_argument("--tools", default=",".join(TOOLS), metavar="NAMES", help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=1, help="of pytest; more than one needs pytest-xdist")
    parser.add_argument("--limit-s", type=float, default=PART_LIMIT_S, help="for one test under one tool")
    parser.add_argument("--commit", help="the commit to record; default: this checkout's HEAD")
    options = parser.parse_args(arguments)
    path = options.out / NAME
    if options.sentence:
        print(sentence(json.loads(path.read_text())))
        return
    names = [name for name in options.tools.split(",") if name]
    if unknown := set(names) - set(TOOLS):
        parser.error(f"--tools {','.join(sorted(unknown))}: not known; use some of {','.join(TOOLS)}")
    if not gpu_specs():
        parser.error("no GPU here: the tests would all be skipped; run this on a machine with one")
    device = open_device(gpu_specs()[0])
    record: Record = {
        "device": device.facts(),
        "driver": driver_version(),
        "toolchain": compiler_for(device.target).toolchain,
        "packages": versions(),
        "commit": options.commit or head(),
        "templates": templates(),
        "tests": run_tests(options.workers),
        "sanitizer": sanitize_all(names, options.workers, options.limit_s),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_document(path, record)
    print(sentence(record))
    for name, message in record["tests"]["failed"].items():
        print(f"failed: {name}: {message}")
    sys.exit(not is_green(record))


if __name__ == "__main__":
    main()
