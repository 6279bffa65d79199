"""The cache of compiled kernels, and the errors of kernels that cannot be compiled."""

from __future__ import annotations

import json
import logging
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qconv import Conv2d, generator
from qconv.device import cache, compile, cpu_runtime, folders
from qconv.device.cache import Binary
from qconv.device.cpu import runtime_cache
from qconv.errors import CacheError, CompileError, KernelMissing
from qconv.generator import Plan, Source
from qconv.generator.source import text_digest
from qconv.targets.target import TARGETS
from qconv.tune_db.database import Database

PROBLEM = Conv2d(1, 3, 3, 4, 4, 1, 1)
HERE = f"cpu-{folders.machine()}"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty cache."""
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def plan() -> Plan:
    return generator.default(PROBLEM, TARGETS["cpu"])


def build(plan: Plan, toolchain: str | None = None) -> Binary:
    return compile.build(generator.render(plan), plan, toolchain)


def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(target: object) -> None:
        raise AssertionError("a compiler was asked for")

    monkeypatch.setattr(compile, "compiler_for", refuse)


def test_a_hit_needs_no_compiler(root: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    built = build(plan)
    forbid_compiling(monkeypatch)
    assert build(plan) == built
    with pytest.raises(AssertionError, match="a compiler was asked for"):
        build(generator.default(Conv2d(1, 3, 3, 4, 5, 1, 1), TARGETS["cpu"]))


def test_an_entry_is_found_by_the_text_and_holds_it(root: Path, plan: Plan) -> None:
    source = generator.render(plan)
    built = build(plan)
    folder = built.path.parent
    assert folder.parent == root / "kernels" / HERE / text_digest(source.text)
    assert (folder / "kernel.cpp").read_text() == source.text
    assert built.path.read_bytes() == built.data
    assert json.loads((folder / "build.json").read_text())["toolchain"] == built.toolchain
    assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]


def edited_json(change: Callable[[dict[str, object]], object]) -> Callable[[Binary], None]:
    def edit(binary: Binary) -> None:
        path = binary.path.with_name("build.json")
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    return edit


DAMAGE: dict[str, Callable[[Binary], None]] = {
    "half a binary": lambda binary: void(binary.path.write_bytes(binary.data[: len(binary.data) // 2])),
    "one bit": lambda binary: void(binary.path.write_bytes(binary.data[:-1] + bytes([binary.data[-1] ^ 1]))),
    "no binary": lambda binary: binary.path.unlink(),
    "no description": lambda binary: binary.path.with_name("build.json").unlink(),
    "half a description": lambda binary: void(binary.path.with_name("build.json").write_text('{"toolchain": "g++')),
    "not text": lambda binary: void(binary.path.with_name("build.json").write_bytes(b"\xff\xfe\0")),
    "a list": edited_json(lambda build: [build]),
    "a field less": edited_json(lambda build: {k: v for k, v in build.items() if k != "sha256"}),
    "a wrong type": edited_json(lambda build: build | {"compile_ms": None}),
    "another path": edited_json(lambda build: build | {"binary": "../../../../etc/passwd"}),
    "resources that are none": edited_json(lambda build: build | {"resources": {"conv2d_simt": {"registers": 1}}}),
}


def void(_: object) -> None:
    return None


@pytest.mark.turns
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_built_again(
    root: Path, plan: Plan, damage: Callable[[Binary], None], caplog: pytest.LogCaptureFixture
) -> None:
    built = build(plan)
    damage(built)
    with caplog.at_level(logging.WARNING, "qconv"):
        again = build(plan)
    assert again.path == built.path
    assert again.path.read_bytes() == again.data
    assert f"{built.path.parent} is damaged" in caplog.text
    caplog.clear()
    assert build(plan) == again
    assert caplog.text == ""


def test_what_a_killed_build_leaves_is_not_found_and_removed_by_its_age(root: Path, plan: Plan) -> None:
    young, old = root / ".building-young", root / ".building-old"
    for left in (young, old):
        left.mkdir(parents=True)
        (left / "build.json").write_text("{}")
    os.utime(old, times=(0, 0))
    assert build(plan).path.parent.parent == root / "kernels" / HERE / text_digest(generator.render(plan).text)
    assert young.exists()
    assert not old.exists()


def test_whatever_the_umask_only_the_owner_can_write(root: Path, plan: Plan) -> None:
    before = os.umask(0)
    try:
        with Database.open(root / "tune.sqlite"):
            pass
        build(plan)
        cpu_runtime.build({"kernel.cpp": "int answer = 42;\n"}, ["-c"], ".o", runtime_cache())
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in (root, *root.rglob("*")) if path.name != "tune.sqlite"}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert all(mode & 0o077 == 0 for mode in modes.values()), modes


PLACES: dict[str, Callable[[Binary], Path]] = {
    "the root": lambda binary: folders.cache_root(),
    "the target": lambda binary: binary.path.parents[2],
    "the source": lambda binary: binary.path.parents[1],
    "the build": lambda binary: binary.path.parent,
    "the description": lambda binary: binary.path.with_name("build.json"),
    "the binary": lambda binary: binary.path,
}


@pytest.mark.parametrize("place", PLACES)
def test_what_others_could_have_written_is_refused(root: Path, plan: Plan, place: str) -> None:
    built = build(plan)
    root.chmod(0o755)  # where others can access its files
    path = PLACES[place](built)
    mode = path.stat().st_mode & 0o777
    path.chmod(mode | 0o020)
    with pytest.raises(CacheError) as refused:
        build(plan)
    says = str(refused.value)
    assert says.startswith(f"{path} has mode {mode | 0o020:04o}: others than its owner may write there")
    assert f"chmod go-w {path}" in says
    assert "QCONV_CACHE" in says
    path.chmod(mode)
    assert build(plan) == built


def test_what_another_user_owns_is_refused_and_what_root_owns_is_not(
    root: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build(plan)
    owner = root.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:
        assert build(plan) == built
        os.chown(root, 1234, -1)
        owner = 1234
    with pytest.raises(CacheError, match=rf"cache belongs to user {owner}, and this is user .*QCONV_CACHE to a folder"):
        build(plan)


def test_a_folder_that_others_can_write_is_refused_before_anything_is_built(
    root: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(CacheError, match="has mode 0777"):
        build(plan)
    with pytest.raises(CacheError, match="has mode 0777"):
        runtime_cache()
    assert list(root.iterdir()) == []


def test_the_machine_is_named() -> None:
    """By the properties on which a host binary depends."""
    kind, architecture, *libc = folders.machine().split("-")
    assert (kind, architecture) == (platform.system().lower(), platform.machine().lower())
    assert libc[0] in ("glibc", "another")


def test_another_kind_of_host_builds_its_own(root: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    built = build(plan)
    monkeypatch.setattr(folders, "machine", lambda: "linux-s390x-glibc-2.40")
    other = build(plan)
    assert other.path.parents[2].name == "cpu-linux-s390x-glibc-2.40"
    assert other.path != built.path
    assert cache.find(generator.render(plan), "cpu") == other
    # GPU code is the same on every host.
    published = cache.publish(generator.render(plan), "sm_80", (), ".cubin", b"code", "nvrtc 1", 1.0, {})
    monkeypatch.undo()
    monkeypatch.setenv("QCONV_CACHE", str(root))
    assert cache.find(generator.render(plan), "sm_80") == published
    assert cache.find(generator.render(plan), "cpu") == built


RACER = """
import sys, time
from pathlib import Path
from qconv import generator, parse
from qconv.device import compile
from qconv.targets.target import TARGETS
plan = generator.default(parse(sys.argv[1]), TARGETS["cpu"])
compile.compiler_for(plan.target)
Path(sys.argv[2] + ".ready").touch()
while not Path(sys.argv[3]).exists():
    time.sleep(0.001)
binary = compile.build(generator.render(plan), plan)
assert binary.path.read_bytes() == binary.data
print(binary.path)
"""


@pytest.mark.slow
def test_racing_processes_publish_one_entry(root: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    names = [str(tmp_path / str(number)) for number in range(3)]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(PROBLEM), name, str(go)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    deadline = time.monotonic() + 300
    while not all(Path(f"{name}.ready").exists() for name in names) and time.monotonic() < deadline:
        time.sleep(0.01)
    go.touch()
    answers = [racer.communicate(timeout=300) for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0, 0], answers
    (path,) = {Path(out.strip()) for out, _ in answers}
    assert list(path.parent.parent.iterdir()) == [path.parent]


def test_a_build_by_the_named_toolchain_is_preferred(root: Path, plan: Plan) -> None:
    source = generator.render(plan)
    for toolchain in ("g++ 1", "g++ 2", "g++ 3"):
        cache.publish(source, "cpu", ("-O2",), ".so", toolchain.encode(), toolchain, 1.0, {})
    for toolchain in ("g++ 1", "g++ 2", "g++ 3"):
        assert build(plan, toolchain).data == toolchain.encode()
    assert build(plan, "g++ 4").toolchain.startswith("g++ ")
    assert cache.find(source, "cpu", "g++ 4") is None
    assert cache.find(source, "sm_80") is None


def test_the_same_toolchain_with_other_flags_is_another_entry(root: Path, plan: Plan) -> None:
    source = generator.render(plan)
    for flag in ("-O1", "-O2"):
        cache.publish(source, "cpu", (flag,), ".so", flag.encode(), "g++ 1", 1.0, {})
    assert len(list((root / "kernels" / HERE / text_digest(source.text)).iterdir())) == 2


def test_the_second_to_publish_gets_what_the_first_published(root: Path, plan: Plan) -> None:
    source = generator.render(plan)
    first = cache.publish(source, "cpu", (), ".so", b"first", "g++ 1", 1.0, {})
    second = cache.publish(source, "cpu", (), ".so", b"second", "g++ 1", 2.0, {})
    assert second == first
    assert [entry.name for entry in first.path.parent.parent.iterdir()] == [first.path.parent.name]


@pytest.mark.parametrize(("target", "device"), [("cpu", "cpu"), ("cpu.gfx942", "cpu.gfx942"), ("sm_90a", "cuda")])
def test_no_compile_names_the_command(root: Path, target: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCONV_NO_COMPILE", "1")
    forbid_compiling(monkeypatch)
    with pytest.raises(KernelMissing) as missing:
        build(generator.default(PROBLEM, TARGETS[target]))
    assert f"qconv-tune lookup '{PROBLEM}' --device {device}" in str(missing.value)
    assert str(root) in str(missing.value)
    assert target in str(missing.value)


def test_no_compile_uses_what_is_there(root: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCONV_NO_COMPILE", "0")
    built = build(plan)
    monkeypatch.setenv("QCONV_NO_COMPILE", "1")
    assert build(plan) == built


@pytest.mark.parametrize("target", ["cpu", "sm_80", "gfx90a"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    Accumulators acc = {};\n", "    Accumulators acc = {} oops;\n"),
        ("    store(args, acc, pixel_tile + m, k_tile + n, k_end);\n", "    stroe(args, acc);\n"),
    ],
)
def test_a_wrong_source_shows_the_failing_line(root: Path, target: str, old: str, new: str) -> None:
    source = generator.render(generator.default(PROBLEM, TARGETS[target]))
    assert source.text.count(old) == 1
    with pytest.raises(CompileError) as wrong:
        attempt(source, target, source.text.replace(old, new))
    number = source.text[: source.text.index(old)].count("\n") + 1
    assert "error" in str(wrong.value)
    assert f"\n  {number} | {new.strip()}" in str(wrong.value)
    assert not (root / "kernels").exists()


@pytest.mark.parametrize("target", ["cpu", "sm_80", "gfx90a"])
def test_a_source_that_stops_in_the_middle_is_a_compile_error(root: Path, target: str) -> None:
    source = generator.render(generator.default(PROBLEM, TARGETS[target]))
    with pytest.raises(CompileError, match="error"):
        attempt(source, target, source.text[: source.text.index("    store(args, acc")])


def attempt(source: Source, target: str, text: str) -> None:
    try:
        compile.compiler_for(TARGETS[target])
    except CompileError as error:
        pytest.skip(str(error))
    compile.compile_source(Source(text, "0" * 32, source.suffix), TARGETS[target], ("conv2d_simt",))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (None, "QCONV_CLANG is '.*clang', which is not an executable; set it to a clang, or unset it"),
        ("exit 0", "does not answer like clang; set QCONV_CLANG"),
        ('[ "$1" = --version ] && echo clang version 1.0.0', "clang 1.0.0 does not know gfx942.*it does not say why"),
        ('[ "$1" != --version ] || echo clang version 1.0.0', "wrote nothing: it is no compiler; check CXX and QCONV_"),
    ],
    ids=["is not there", "does nothing", "fails", "writes nothing"],
)
def test_what_is_no_clang_is_said(
    root: Path, body: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "clang"
    if body is not None:
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    monkeypatch.setenv("QCONV_CLANG", str(program))
    monkeypatch.setattr(compile, "_cupy_is_rocm", lambda: False)
    compile.compiler_for.cache_clear()
    try:
        with pytest.raises(CompileError, match=says):
            build(generator.default(PROBLEM, TARGETS["gfx942"]))
    finally:
        compile.compiler_for.cache_clear()
