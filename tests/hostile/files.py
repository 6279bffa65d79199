"""Files that qconv reads back: databases, cache entries, workloads."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sqlite3
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from unittest import mock

from measurement_samples import PROBLEM, make_measurement

from qconv.device import cache as kernels
from qconv.device.binary import Resources
from qconv.generator import Source
from qconv.tune_db import text
from qconv.tune_db.database import Database
from qconv.tuner.workloads import listing
from tests.hostile.judge import Refused, Surface, Wrong, check_sentence
from tests.hostile.mutations import VALUES, encoded, of_bytes, of_json, of_words

WHERE = ("NVIDIA H200", "sm_90a")
STATEMENTS = (
    "drop table qconv_measurement",
    "delete from qconv_problem",
    "delete from qconv_config",
    "alter table qconv_measurement add column more text not null default ''",
    "create view other as select * from qconv_measurement",
    "create trigger t after insert on qconv_measurement begin delete from qconv_measurement; end",
    "pragma user_version = 99",
    "pragma application_id = 7",
    "pragma journal_mode = delete",
    "vacuum",
)


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="qconv-hostile-"))


@cache
def _database() -> bytes:
    path = _folder() / "whole.sqlite"
    with Database.open(path) as rows:
        for number in range(3):
            rows.add(make_measurement(number))
        rows.add(make_measurement(3, outcome="compile"))
    return path.read_bytes()


def draw_database(rng: Random) -> bytes:
    if rng.random() < 0.5:
        return of_bytes(rng, _database())
    path = _folder() / "drawn.sqlite"
    path.write_bytes(_database())
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        for _ in range(rng.choice((1, 1, 2))):
            with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                file.execute(*_statement(rng, file))
    return path.read_bytes()


def _statement(rng: Random, file: sqlite3.Connection) -> tuple[str, tuple[object, ...]]:
    if rng.random() < 0.2:
        return rng.choice(STATEMENTS), ()
    tables = [name for (name,) in file.execute("select name from sqlite_master where type = 'table'")]
    table = rng.choice([name for name in tables if name.startswith("qconv")] or tables)
    columns = [row[1] for row in file.execute(f"pragma table_info({table})")]
    value = rng.choice(VALUES)
    plain = value if isinstance(value, (int, float, str)) or value is None else json.dumps(value)
    shown = encoded(plain) if isinstance(plain, str) and rng.random() < 0.3 else plain
    return f"update {table} set {rng.choice(columns)} = ?", (shown,)


def take_database(given: bytes) -> None:
    """Check that readable rows are sound and can be stored elsewhere, and that rows can be added."""
    path = _folder() / "taken.sqlite"
    for old in _folder().glob("taken.sqlite*"):
        old.unlink()
    path.write_bytes(given)
    with Database.open(path, create=False) as rows:
        found = rows.measurements()
        best = rows.best(PROBLEM, *WHERE)
        if best is not None and best not in found:
            raise Wrong("the best is none of the rows")
        list(rows.near(PROBLEM, *WHERE, 4.0))
        added = make_measurement(9)
        rows.add(added)
        if added not in rows.measurements(problem=PROBLEM):
            raise Wrong("what was added is not there")
    if sorted(map(str, text.parse(text.dump(found), "copy"))) != sorted(map(str, found)):
        raise Wrong("the rows cannot be written as text")


@cache
def _source() -> Source:
    from qconv import generator
    from qconv.targets.target import target

    return generator.render(generator.default(PROBLEM, target("sm_80")))


BINARY = bytes(range(256)) * 4


@cache
def _entry() -> tuple[Path, dict[str, bytes]]:
    """Return the path of an entry in its own cache, and its files."""
    with _in_cache():
        needs = {"conv2d": Resources(32, 0, 0, 1024, 256)}
        built = kernels.publish(_source(), "sm_80", ("-O3",), ".cubin", BINARY, "nvrtc 13.0", 12.5, needs)
    return built.path.parent, {path.name: path.read_bytes() for path in built.path.parent.iterdir()}


def _in_cache() -> contextlib.AbstractContextManager[object]:
    return mock.patch.dict(os.environ, {"QCONV_CACHE": str(_folder() / "cache"), "QCONV_PATH": ""})


def draw_entry(rng: Random) -> bytes:
    """Draw the files of an entry, as JSON of latin-1; null is a folder of that name."""
    files: dict[str, str | None] = {name: content.decode("latin-1") for name, content in _entry()[1].items()}
    name = rng.choice(list(files))
    content = str(files[name])
    way = rng.randrange(10)
    if way < 5:
        files["build.json"] = of_json(rng, str(files["build.json"])).encode("utf-8", "replace").decode("latin-1")
    elif way < 8:
        files[name] = of_bytes(rng, content.encode("latin-1")).decode("latin-1")
    elif way == 8:
        del files[name]
    else:
        files[name] = None
    return json.dumps(files).encode()


def take_entry(given: bytes) -> None:
    """Check that the entry is found with the built bytes, or is removed and can be built again."""
    folder, _ = _entry()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    for name, content in json.loads(given).items():
        path = folder / name
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content.encode("latin-1"))
            path.chmod(0o600)
    said = _Said()
    log = logging.getLogger("qconv")
    log.addHandler(said)
    try:
        with _in_cache():
            found = kernels.find(_source(), "sm_80")
            if found is not None:
                _check_found(found)
                return
            if folder.exists():
                raise Wrong("what is damaged was left")
            _entry.cache_clear()
            _entry()
            if kernels.find(_source(), "sm_80") is None:
                raise Wrong("what was built again is not found")
    finally:
        log.removeHandler(said)
    if len(said.messages) != 1:
        raise Wrong(f"said {said.messages}")
    check_sentence(said.messages[0])
    raise Refused


def _check_found(found: kernels.Binary) -> None:
    if found.data != BINARY:
        raise Wrong("another binary than was built")
    for needs in found.resources.values():
        counts = (needs.registers, needs.stack_bytes, needs.smem_bytes, needs.spill_bytes or 0, needs.threads_max or 0)
        if any(type(count) is not int or count < 0 for count in counts):
            raise Wrong(f"the entry was taken with {needs}")
    if not found.compile_ms >= 0:
        raise Wrong(f"it took {found.compile_ms} ms")


class _Said(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


LAYERS = """model,layer,N,H,W,C,K,R,S,groups,stride_h,stride_w,pad_h,pad_w,dil_h,dil_w,activation
net,first,1,32,32,3,16,3,3,1,2,2,1,1,1,1,ReLU
net,second,1,16,16,16,16,3,3,16,1,1,1,1,1,1,ReLU6
net,third,1,16,16,16,32,1,1,1,1,1,0,0,1,1,none
"""
PAIRS = """network,N,H,W,C,K1,R1,S1,stride1,pad1,dil1,groups1,act1,K2,R2,S2,stride2,pad2,dil2,groups2,act2,layer1,layer2
net,1,14,14,16,16,3,3,1,1,1,16,ReLU6,24,1,1,1,0,1,1,none,dw,pw
"""
KEYS = """# a network
conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8
quantize:outer=1:channels=64:inner=1:x_type=float32:out_type=int8
"""


def draw_workload(rng: Random) -> bytes:
    kind, text = rng.choice(((b"csv", LAYERS), (b"csv", PAIRS), (b"txt", KEYS)))
    made = of_bytes(rng, text.encode()) if rng.random() < 0.3 else encoded(of_words(rng, text))
    return kind + b" " + made


def take_workload(given: bytes) -> None:
    kind, _, text = given.partition(b" ")
    path = _folder() / f"layers.{kind.decode()}"
    path.write_bytes(text)
    workload = listing.read(path, None)
    for refused in workload.refused:
        check_sentence(refused.reason)
    if any(entry.count < 1 for entry in workload.entries):
        raise Wrong("a problem that is nowhere")


SURFACES = (
    Surface("databases", draw_database, take_database, cases=600),
    Surface("entries", draw_entry, take_entry, cases=2_000),
    Surface("workloads", draw_workload, take_workload, cases=3_500),
)
