"""A process that is killed at any of its writes, or whose disk is full from any of them on: its finished work survives,
existing files are complete, and repeating the work succeeds."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
from measurement_samples import PROBLEM, make_measurement

from qconv import generator
from qconv.device import cache
from qconv.device.binary import Resources
from qconv.errors import CacheError, DatabaseCut, DatabaseError
from qconv.targets.target import target
from qconv.tune_db import text
from qconv.tune_db.database import Database
from tests.hostile import traced

pytestmark = [pytest.mark.skipif(not traced.AVAILABLE, reason=traced.WHY), pytest.mark.thirds]
Say = Callable[[str], None]
ROWS = [make_measurement(number) for number in range(3)]
SOURCE = generator.render(generator.default(PROBLEM, target("sm_80")))
BINARY = bytes(range(256)) * 64


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="qconv-hostile-"))
    yield made
    shutil.rmtree(made)


# Each entry is work that changes files of a folder, and an invariant of the folder whenever the work stopped, given its
# output until then.


def store(folder: Path, say: Say) -> None:
    with Database.open(folder / "tune.sqlite") as rows:
        for number, row in enumerate(ROWS):
            rows.add(row)
            say(str(number))


def stored(folder: Path, said: list[str]) -> None:
    path = folder / "tune.sqlite"
    if not path.exists():
        assert not said
        return
    with Database.open(path) as rows:
        found = rows.measurements()
    finished = [ROWS[int(number)] for number in said if number.isdigit()]
    assert found[: len(finished)] == finished
    assert found == ROWS[: len(found)]


def build(folder: Path, say: Say) -> None:
    with mock.patch.dict("os.environ", {"QCONV_CACHE": str(folder / "cache"), "QCONV_PATH": ""}):
        needs = {"conv2d": Resources(32, 0, 0, 0, None)}
        cache.publish(SOURCE, "sm_80", ("-O3",), ".cubin", BINARY, "nvrtc 13.0", 1.0, needs)
        say("built")


def built(folder: Path, said: list[str]) -> None:
    """Every file with a name that is looked up is complete, without any repair."""
    for entry in folder.glob("cache/kernels/*/*/[!.]*"):
        assert (entry / "build.json").exists()
        assert (entry / "kernel.cubin").read_bytes() == BINARY
    with mock.patch.dict("os.environ", {"QCONV_CACHE": str(folder / "cache"), "QCONV_PATH": ""}):
        found = cache.find(SOURCE, "sm_80")
    assert found is None or found.data == BINARY
    assert found is not None or "built" not in said


def merge(folder: Path, say: Say) -> None:
    path = folder / "tune.sqlite"
    with Database.open(path) as rows:
        rows.merge(text.TextLayer(text.dump(ROWS), "rows"))
        say("merged")


def merged(folder: Path, said: list[str]) -> None:
    """The merge happened once or not at all."""
    if not (folder / "tune.sqlite").exists():
        return
    with Database.open(folder / "tune.sqlite") as rows:
        found = rows.measurements()
    assert sorted(found, key=lambda row: row.key) in ([], sorted(ROWS, key=lambda row: row.key))
    assert found or "merged" not in said


WORKS = {"store": (store, stored), "build": (build, built), "merge": (merge, merged)}
# At each of its writes, or at the one in the middle.
EVERY = [pytest.param(False, id="one"), pytest.param(True, id="each", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("every", EVERY)
def test_killed_at_every_write(name: str, every: bool, folder: Path) -> None:
    work, check = WORKS[name]
    for at in stops(work, folder, every):
        ended = traced.run(lambda say: work(folder, say), folder, at)
        assert ended.code is None, f"it was to be killed at {at}, but ended: {ended.said}"
        check(folder, ended.said.split())
        work(folder, lambda _: None)
        check(folder, ["0", "1", "2", "built", "merged"])
        clear(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS], ids=errno.errorcode.get)
def test_no_write_succeeds_from_one_on(name: str, number: int, folder: Path) -> None:
    """It is reported, by an error of ours or of the system, which the command line shows as a sentence."""
    work, check = WORKS[name]
    for at in stops(work, folder, True)[:: 1 if number == errno.ENOSPC else 8]:
        ended = traced.run(lambda say: work(folder, say), folder, at, number)
        assert "Traceback" not in ended.said, ended.said
        said = ended.said.splitlines()
        if ended.code != 0:
            kind = said[-1].partition(":")[0]
            refusals = (DatabaseError, DatabaseCut, CacheError, OSError)
            assert kind in [refusal.__name__ for refusal in refusals], ended.said
        check(folder, [line for line in said if " " not in line])
        work(folder, lambda _: None)
        check(folder, ["0", "1", "2", "built", "merged"])
        clear(folder)


def stops(work: Callable[[Path, Say], None], folder: Path, every: bool) -> range:
    """Return the numbers of the changes that the work makes."""
    whole = traced.run(lambda say: work(folder, say), folder, None)
    assert whole.code == 0, whole.said
    clear(folder)
    assert whole.changes > 5
    return range(1, whole.changes + 1) if every else range(whole.changes // 2, whole.changes // 2 + 1)


def clear(folder: Path) -> None:
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
