"""Unusual environments: paths with any characters, no home, a full disk, a clock that goes back, two processes at
once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from measurement_samples import PROBLEM, make_measurement

from qconv import generator
from qconv.ops.registry import parse
from qconv.targets.target import target
from qconv.tune_db import text
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement

pytestmark = pytest.mark.thirds

KEY = "conv2d:n=1:h=4:w=4:c=5:k=6:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8"
PLAN = generator.default(parse(KEY), target("cpu"))
WINNER = Measurement(
    problem=PLAN.problem,
    config=PLAN.config,
    device="cpu of somebody",
    target="cpu",
    toolchain="g++ 0",
    digest=generator.render(PLAN).digest,
    outcome="correct",
    times_us=(2.0,),
    median_us=2.0,
)
# A space, letters of several scripts, characters that are special in URLs, shells, formats and SQL; and bytes that are
# not UTF-8, as an older system left them.
NAMES = ["with space", "\u00dcn\u00ef \u65e5\u672c", "%20?#&=;'\"{}$(x)`", "-rf", "line\nbreak", "bytes\udcff"]
compiled = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")


def command(
    *words: str, cwd: Path | None = None, prefix: tuple[str, ...] = (), **environment: str | None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process whose stdout accepts only UTF-8; None removes a variable."""
    known = {**os.environ, "PYTHONIOENCODING": "utf-8:strict", **environment}
    return subprocess.run(
        [*prefix, sys.executable, "-m", "qconv.cli", *words],
        cwd=cwd,
        env={name: value for name, value in known.items() if value is not None},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )


# All of them in one path, except the bytes, which not every file system accepts.
PATHS = {"letters": "/".join(NAMES[:-1]), "bytes": NAMES[-1]}


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = tmp_path / request.param
    try:
        made.mkdir(parents=True)
    except OSError:
        pytest.skip("this file system has no such names")
    return made


def says(done: subprocess.CompletedProcess[str], code: int, *parts: str) -> None:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr + done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("place", [PATHS["bytes"]], indirect=True, ids=["bytes"])
def test_a_path_that_is_no_utf_8_can_be_printed(place: Path) -> None:
    """The message contains the path, byte for byte."""
    with Database.open(place / "t.sqlite") as rows:
        rows.add(WINNER)
    done = command("db", "export", "--db", "./t.sqlite", "--out", "o.json", "--format", "text", cwd=place)
    says(done, 0, "1 rows to o.json")
    listed = command("export", "--db", str(place / "t.sqlite"), "--out", str(place / "out"))
    says(listed, 0, str(place / "out" / "manifest.json"))


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("place", PATHS.values(), indirect=True, ids=PATHS)
def test_everything_works_in_a_folder_of_any_name(place: Path) -> None:
    """Tunes, looks up, runs, exports, builds and merges, with every path in that folder."""
    where = {"QCONV_CACHE": str(place / "cache"), "QCONV_DB": None, "TMPDIR": str(place)}
    device = ("--device", "cpu")
    says(command("tune", KEY, *device, "--trials", "3", cwd=place, **where), 0, "winner")
    says(command("lookup", KEY, *device, "--json", cwd=place, **where), 0, '"origin": "exact"')
    says(command("run", KEY, *device, "--verify", cwd=place, **where), 0, "True")
    says(command("export", "--out", "./exported", cwd=place, **where), 0, "manifest.json")
    says(command("build", KEY, "--target", "cpu", "--out", str(place / "layer"), cwd=place, **where), 0)
    rows = str(place / "rows.json")
    says(command("db", "export", "--format", "text", "--out", rows, cwd=place, **where), 0)
    says(command("db", "merge", rows, "--db", str(place / "new.sqlite"), cwd=place, **where), 0, "3 added")
    # The separator of QCONV_PATH is a colon, as in PATH; no name here contains one.
    layered = {**where, "QCONV_CACHE": str(place / "none"), "QCONV_PATH": str(place / "layer"), "QCONV_NO_COMPILE": "1"}
    says(command("run", KEY, *device, "--verify", cwd=place, **layered), 0, "True")


@pytest.mark.slow
def test_without_a_home_what_is_needed_is_said(tmp_path: Path) -> None:
    """A user without HOME and without an entry in the user database."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root becomes another user, by setpriv")
    caps = "+dac_read_search"
    other = (
        "setpriv",
        "--reuid",
        "65533",
        "--regid",
        "65533",
        "--clear-groups",
        "--inh-caps",
        caps,
        "--ambient-caps",
        caps,
    )
    bare = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "QCONV_CACHE", "QCONV_DB", "QCONV_PATH"))
    for words in (("tune", KEY, "--device", "cpu"), ("db", "list")):
        says(command(*words, prefix=other, **bare), 3, "set QCONV_CACHE to a folder of your own")
    done = command("lookup", KEY, "--device", "cpu", prefix=other, QCONV_NO_COMPILE="1", **bare)
    says(done, 3, "qconv-tune build")
    says(command("source", KEY, "--target", "sm_80", prefix=other, **bare), 0, "__global__")


@pytest.fixture
def tiny() -> Iterator[Path]:
    """Mount a file system of 640 KiB."""
    folder = Path(tempfile.mkdtemp(prefix="qconv-hostile-"))
    mounted = ["mount", "-t", "tmpfs", "-o", "size=640k,mode=0700", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mounted, capture_output=True, check=False).returncode:
        folder.rmdir()
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


@pytest.mark.slow
@compiled
def test_a_disk_that_is_full(tiny: Path) -> None:
    """Every command reports it, and stored data stays readable; with free space, the commands succeed."""
    database, filler = str(tiny / "t.sqlite"), tiny / "filler"
    with Database.open(database) as rows:
        rows.add(WINNER)
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError:
            pass
    where = {"QCONV_CACHE": str(tiny / "cache"), "TMPDIR": tempfile.gettempdir(), "QCONV_DB": None}
    full = ("tune", KEY, "--device", "cpu", "--trials", "3")
    for words in (
        (*full, "--db", database),
        ("lookup", KEY, "--device", "cpu"),
        ("db", "export", "--db", database, "--format", "text", "--out", str(tiny / "rows.json")),
        ("export", "--db", database, "--out", str(tiny / "out")),
    ):
        done = command(*words, **where)
        assert (done.returncode in (3, 4), "Traceback" in done.stderr) == (True, False), (words, done.stderr)
        assert any(word in done.stderr.lower() for word in ("space", "full", "disk")), done.stderr
        assert "is damaged" not in done.stderr, "nothing was there that could be"
    assert not (tiny / "rows.json").exists(), "half a file"
    with Database.open(database, create=False) as rows:
        assert rows.measurements() == [WINNER]
    filler.unlink()
    says(command("db", "export", "--db", database, "--format", "text", "--out", str(tiny / "rows.json"), **where), 0)


def test_a_clock_that_goes_back(tmp_path: Path) -> None:
    """A repeated measurement replaces the row from the future; when two databases are merged, the newer time wins;
    stored rows come back with their own time."""
    now = datetime(2026, 1, 2, tzinfo=UTC)
    early, late = (make_measurement(0, created_at=now + timedelta(days=days), median_us=10.0 + days) for days in (0, 9))
    with Database.open(tmp_path / "a.sqlite") as rows, Database.open(tmp_path / "b.sqlite") as others:
        rows.add(late)
        rows.add(early)
        assert rows.measurements() == [early]
        assert rows.best(PROBLEM, "NVIDIA H200", "sm_90a") == early
        others.add(late)
        assert rows.merge(others).replaced == 1
        assert others.merge(rows).unchanged == 1


def test_no_duration_is_of_a_clock_that_can_go_back() -> None:
    root = Path(__file__).parents[2]
    for folder in ("src", "generator", "instances", "tune_db", "tuner"):
        for path in (root / folder).rglob("*.py"):
            assert "time.time()" not in path.read_text(), f"{path}: use time.monotonic, or perf_counter"


@pytest.mark.slow
def test_two_processes_make_one_database(tmp_path: Path) -> None:
    """Both find it missing, and both add their rows."""
    rows = tmp_path / "rows.json"
    rows.write_text(text.dump([make_measurement(0)]))
    words = [sys.executable, "-m", "qconv.cli", "db", "merge", str(rows), "--db", str(tmp_path / "t.sqlite"), "--json"]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    counts = [json.loads(out)[str(rows)] for out, _ in answers]
    assert sorted(count["added"] for count in counts) == [0, 1]
