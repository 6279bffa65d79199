"""The folder of a shipped network: its files, the library that opens it, and what it refuses."""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import shipped_networks as shipped
from built_library import builds

import qconv.onnx
from qconv.device import open_device
from qconv.network.ship import cpp_library, network_export

pytestmark = pytest.mark.thirds

SHARED = ("-shared", "-fPIC")
BAD_FOLDER, NO_TARGET, NO_DEVICE = 2, 3, 4


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> qconv.onnx.Shipped:
    folder = tmp_path_factory.mktemp("shipped") / "network"
    return qconv.onnx.export(shipped.residual(), folder, ["cpu", "sm_90a"], batches=[1, 2])


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> qconv.onnx.Shipped:
    """Return a folder of few kernels, for two targets."""
    folder = tmp_path_factory.mktemp("shipped") / "network"
    return qconv.onnx.export(shipped.moving(), folder, ["sm_80", "sm_90a"], vectors=False)


def test_its_files(light: qconv.onnx.Shipped) -> None:
    found = {str(path.relative_to(light.folder)) for path in light.folder.rglob("*") if path.is_file()}
    assert found == set(light.files)
    listed = [line.split() for line in (light.folder / "network.txt").read_text().splitlines()]
    assert [words[1] for words in listed if words[0] == "target"] == ["sm_80", "sm_90a"]
    files = {words[1].strip('"'): words[2:] for words in listed if words[0] == "file"}
    assert set(files) == found - {"network.txt"}
    for name, (size, crc) in files.items():
        content = (light.folder / name).read_bytes()
        assert (int(size), int(crc)) == (len(content), zlib.crc32(content)), name


def test_targets_share_their_weights(light: qconv.onnx.Shipped) -> None:
    contents = {constant.content for plan in light.plans for constant in plan.constants}
    assert len(contents) < sum(len(plan.constants) for plan in light.plans)
    assert (light.folder / "weights.bin").stat().st_size <= sum(-(-len(content) // 256) * 256 for content in contents)


@pytest.mark.slow
def test_a_target_has_the_plan_that_it_would_have_alone(tmp_path: Path) -> None:
    """The network is lowered once for all targets."""
    shapes = [{"x": (1, 3, 16, 16)}, {"x": (1, 3, 24, 8)}]
    own = {"shapes": shapes, "vectors": False}
    targets = ("cpu.sm_80", "cpu.sm_90a", "cpu")
    together = qconv.onnx.export(shipped.sized(), tmp_path / "together", targets, **own)
    contents = {name: (together.folder / name / "plan.txt").read_text() for name in targets}
    for name in targets:
        alone = qconv.onnx.export(shipped.sized(), tmp_path / name, name, **own)
        of_weights = re.compile(r"constant \d+")
        found, wanted = (
            of_weights.sub("", text) for text in (contents[name], (alone.folder / name / "plan.txt").read_text())
        )
        assert found == wanted


@builds
@pytest.mark.slow
def test_a_deep_network_is_small(tmp_path: Path) -> None:
    """Two hundred launches of two batches: the bytes beside weights and kernels, with the library that reads them."""
    made = qconv.onnx.export(shipped.deep(), tmp_path / "network", ["cpu", "sm_90a"], batches=[1, 8], vectors=False)
    for plan in made.plans:
        assert all(len(program.steps) > 190 for program in plan.programs)
        files = (made.folder / plan.target.name / "plan.txt", made.folder / "network.txt", cpp_library.built("cpu"))
        assert sum(path.stat().st_size for path in files) < 300_000


@pytest.mark.slow
def test_each_target_has_what_its_steps_are_compared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device that records would fuse layers that a target does not."""
    monkeypatch.setattr(network_export, "open_device", lambda: open_device("cpu.sm_90a"))
    made = qconv.onnx.export(shipped.residual(), tmp_path / "network", ["cpu", "cpu.sm_90a"])
    lines = [line.split(" ", 4) for line in (made.folder / "vectors.txt").read_text().splitlines()]
    stored = {(order == "last", name) for word, _, order, _, name in lines if word == "tensor"}
    tensors = [{(one.is_last, one.name) for one in plan.programs[0].made} for plan in made.plans]
    assert tensors[0] | tensors[1] == stored
    assert tensors[0] != tensors[1]


def test_a_folder_for_the_cpu_has_nothing_left_to_make(tmp_path: Path) -> None:
    """The CPU device would take longer to pack weights than to run the network."""
    made = qconv.onnx.export(shipped.residual(), tmp_path / "network", ["cpu", "sm_90a"], vectors=False)
    setups = {plan.target.name: len(plan.setup) for plan in made.plans}
    assert setups["cpu"] == 0 < setups["sm_90a"]
    assert made.plans[0].state_bytes == ()


def test_sources_are_of_all_kernels(light: qconv.onnx.Shipped) -> None:
    for plan in light.plans:
        sources = [path.read_text() for path in (light.folder / "sources" / plan.target.name).iterdir()]
        assert len(sources) == len({binary.path for binary in plan.binaries}) > 0
        assert all("Generated by qconv-tune" in text for text in sources)


def test_a_gpu_is_its_target(tmp_path: Path) -> None:
    made = qconv.onnx.export(shipped.moving(), tmp_path / "network", ["orin", "sm_87"], vectors=False)
    assert [plan.target.name for plan in made.plans] == ["sm_87"]


def test_a_used_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(ValueError, match="is not empty: give a new folder"):
        qconv.onnx.export(shipped.moving(), tmp_path, "sm_90a", vectors=False)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_targets_are_needed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="targets are empty: name at least one"):
        qconv.onnx.export(shipped.residual(), tmp_path / "none", [])
    assert not (tmp_path / "none").exists()


@pytest.fixture(scope="module")
def library(made: qconv.onnx.Shipped, tmp_path_factory: pytest.TempPathFactory) -> shipped.Library:
    empty = tmp_path_factory.mktemp("library") / "empty.cpp"
    empty.write_text("")
    return shipped.Library(shipped.compiled(made.folder, empty, empty.with_name("network.so"), *SHARED))


@pytest.fixture
def copy(made: qconv.onnx.Shipped, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.folder, tmp_path / "copy"))


@builds
@pytest.mark.slow
def test_its_bits(made: qconv.onnx.Shipped, library: shipped.Library) -> None:
    status, network = library.open(made.folder)
    assert status == 0, library.error
    session = qconv.onnx.Session(shipped.residual(), "cpu")
    rng = np.random.default_rng(5)
    for program, batch in enumerate((1, 2)):
        for _ in range(3):
            fed = {"x": rng.standard_normal((batch, 3, 16, 16)).astype(np.float32)}
            (found,) = library.run(network, fed, program).values()
            np.testing.assert_array_equal(found, session.run(None, fed)[0])


Damage = Callable[[Path], Any]


def written(name: str, old: bytes, new: bytes) -> Damage:
    def damage(folder: Path) -> None:
        content = (folder / name).read_bytes()
        assert old in content
        (folder / name).write_bytes(content.replace(old, new, 1))

    return damage


def sealed(name: str, old: bytes, new: bytes) -> Damage:
    """Damage a file and list its new checksum, so that only what the file says is wrong."""

    def damage(folder: Path) -> None:
        written(name, old, new)(folder)
        shipped.seal(folder, name)

    return damage


REFUSED: dict[str, tuple[Damage, int, str]] = {
    "a file is missing": (lambda f: (f / "weights.bin").unlink(), BAD_FOLDER, "weights.bin cannot be opened"),
    "a file is cut": (lambda f: (f / "weights.bin").write_bytes(b"1"), BAD_FOLDER, "weights.bin has 1 bytes, and"),
    "a file is a folder": (
        lambda f: ((f / "weights.bin").unlink(), (f / "weights.bin").mkdir()),
        BAD_FOLDER,
        "weights.bin is no file",
    ),
    "a byte is another": (written("cpu/plan.txt", b"launch 0", b"launch 1"), BAD_FOLDER, "its checksum is another"),
    "there is no list": (lambda f: (f / "network.txt").unlink(), BAD_FOLDER, "has no network.txt: give a folder that"),
    "the list is damaged": (
        written("network.txt", b"target cpu", b"target gpu"),
        BAD_FOLDER,
        "is not what its checksum",
    ),
    "the list is cut": (lambda f: (f / "network.txt").write_text("qconv-network-1\n"), BAD_FOLDER, "has no checksum"),
    "it is newer": (
        written("network.txt", b"network-1", b"network-2"),
        BAD_FOLDER,
        "has the format qconv-network-2, and",
    ),
    "its plan is newer": (
        sealed("cpu/plan.txt", b"qconv-plan-2", b"qconv-plan-3"),
        BAD_FOLDER,
        "its plan has the format qconv-plan-3, and this library reads qconv-plan-2",
    ),
    "a place is not there": (
        sealed("cpu/plan.txt", b" a0 ", b" a0+99999999 "),
        BAD_FOLDER,
        "lies beyond an array; copy the folder again, or export it anew",
    ),
    "a place has no number": (sealed("cpu/plan.txt", b" a0 ", b" a "), BAD_FOLDER, "has a place without a number"),
    "a place of no space": (
        sealed("cpu/plan.txt", b" a0 ", b" b0 "),
        BAD_FOLDER,
        "has the place b0, which there is not",
    ),
    "a call that is not there": (
        sealed("cpu/plan.txt", b"setup\n", b'setup\ncall "x" 0 0 "x"\n'),
        BAD_FOLDER,
        "is a call that no run makes",
    ),
    "a call of a file that is not listed": (
        sealed("cpu/plan.txt", b"\nend\n", b'\ncall "elsewhere/x" 0 0 "x"\nend\n'),
        BAD_FOLDER,
        "does not list elsewhere/x",
    ),
    "more arguments than a kernel takes": (
        sealed("cpu/plan.txt", b" .", b" .9999"),
        BAD_FOLDER,
        "has more than 4096 bytes where fewer make sense",
    ),
    "an argument between two others": (
        sealed("cpu/plan.txt", b"pointers 0 ", b"pointers 1 "),
        BAD_FOLDER,
        "has an argument between two others",
    ),
    "a kernel is not there": (sealed("cpu/plan.txt", b"launch 0 ", b"launch 999 "), BAD_FOLDER, "has 999; at most"),
    "a function is not there": (
        sealed("cpu/plan.txt", b"quantize_", b"quantise_"),
        BAD_FOLDER,
        "the file of the kernels has no quantise_",
    ),
    "a number is a word": (
        sealed("cpu/plan.txt", b"launch 0 ", b"launch zero "),
        BAD_FOLDER,
        "has zero where a number",
    ),
    "a tensor of the setup": (
        sealed("cpu/plan.txt", b"setup\n", b'setup\nmade "x" 0 a0 4\n'),
        BAD_FOLDER,
        "is a tensor that no step of a run completes",
    ),
    "a tensor that no run writes": (
        sealed("cpu/plan.txt", b'\nmade "', b'\nmade "x" 0 i0 4\nmade "'),
        BAD_FOLDER,
        "is a tensor that no run writes",
    ),
    "a tensor is not there": (
        sealed("cpu/plan.txt", b'\nmade "', b'\nmade "x" 0 a0 99999999\nmade "'),
        BAD_FOLDER,
        "lies beyond an array",
    ),
    "a line is cut": (sealed("cpu/plan.txt", b"target cpu 32", b"target cpu"), BAD_FOLDER, "has an empty word"),
    "words are too many": (sealed("cpu/plan.txt", b"target cpu 32", b"target cpu 32 1"), BAD_FOLDER, "has more words"),
    "the plan is of another target": (
        sealed("cpu/plan.txt", b"target cpu", b"target cpu.sm_80"),
        BAD_FOLDER,
        "the plan of cpu is of cpu.sm_80",
    ),
}


@builds
@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_damaged_is_refused(case: str, copy: Path, library: shipped.Library) -> None:
    damage, expected, says = REFUSED[case]
    damage(copy)
    status, network = library.open(copy)
    assert (status, network.value) == (expected, None)
    assert says in library.error


@builds
@pytest.mark.slow
def test_a_target_or_a_device_that_is_not_there(made: qconv.onnx.Shipped, library: shipped.Library, copy: Path) -> None:
    sealed("network.txt", b"target cpu\n", b"")(copy)
    assert library.open(copy)[0] == NO_TARGET
    assert library.error.startswith("the folder has kernels for sm_90a, of which cpu runs none: export it for")
    assert library.open(copy, None)[0] == NO_TARGET
    assert library.error == "the folder has kernels for sm_90a, and no device here runs them"
    assert library.open(made.folder, "cpu:1")[0] == NO_DEVICE
    for device in ("gpu", "cpu:", "cpu:x", "cuda:x"):
        assert library.open(made.folder, device)[0] == 1
        assert library.error == (
            f"the device {device} is not known: this library was built for cpu, and a GPU's number follows a colon"
        )
    for device, header in (("cuda:1", "cuda.h"), ("hip", "hip/hip_runtime_api.h")):
        assert library.open(made.folder, device)[0] == 1
        kind = device.partition(":")[0]
        assert library.error == f"this library was built without {kind}, for cpu: build it where {header} is found"
    assert library.open(made.folder / "none")[0] == BAD_FOLDER


@builds
@pytest.mark.slow
def test_a_process_opens_any_number_of_networks(
    made: qconv.onnx.Shipped, library: shipped.Library, tmp_path: Path
) -> None:
    opened = []
    for number in range(80):
        folder = tmp_path / str(number)
        shutil.copytree(made.folder, folder, ignore=shutil.ignore_patterns("sources", "src", "sm_90a"))
        status, network = library.open(folder)
        assert status == 0, (number, library.error)
        opened.append(network)
    for network in opened:
        library.c.qconv_network_close(network)


@builds
@pytest.mark.slow
def test_a_folder_that_is_replaced_is_opened_anew(
    made: qconv.onnx.Shipped, library: shipped.Library, tmp_path: Path
) -> None:
    """A service takes another model, and then the first one again, without being started anew."""
    other = qconv.onnx.export(shipped.moving(), tmp_path / "other", "cpu", vectors=False)
    live = tmp_path / "live"
    opened = []
    for folder, inputs in ((made.folder, 1), (other.folder, 3), (made.folder, 1), (other.folder, 3)):
        if live.exists():
            live.rename(tmp_path / f"before-{len(opened)}")
        shutil.copytree(folder, live)
        for _ in range(2):
            status, network = library.open(live)
            assert status == 0, (len(opened), library.error)
            assert library.c.qconv_network_input_count(network) == inputs
            opened.append(network)
    for network in opened:
        library.c.qconv_network_close(network)


@builds
@pytest.mark.slow
def test_damaged_folders_at_random(made: qconv.onnx.Shipped, library: shipped.Library, copy: Path) -> None:
    """Bytes that are changed, cut off or moved: each folder is refused with a sentence."""
    rng = np.random.default_rng(9)
    names = ("cpu/plan.txt", "network.txt", "weights.bin")
    for turn in range(5000):
        name = names[turn % 3]
        whole = (made.folder / name).read_bytes()
        content = bytearray(whole)
        at = int(rng.integers(len(content)))
        if turn % 5 == 0:
            del content[at:]
        elif turn % 5 == 1:
            content[at : at + 8] = content[(other := int(rng.integers(len(content)))) : other + 8]
        else:
            content[at] = int(rng.choice(list(b'0123456789 \n-%"abcf\x00\xff')))
        if content == whole:
            continue
        (copy / name).write_bytes(content)
        assert library.open(copy)[0] == BAD_FOLDER, (turn, name, at)
        assert len(library.error) > 20
        (copy / name).write_bytes(whole)


@builds
@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_damaged_plans_at_random(target: str, made: qconv.onnx.Shipped, tmp_path: Path) -> None:
    """Plans whose checksums are made anew are refused with a sentence, or read: under the sanitizers."""
    flags = ["-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    own = [f"-I{made.folder}/include", f"-I{made.folder}/src", made.folder / "src/qconv_shipped.cpp"]
    program = tmp_path / "damaged_plans"
    subprocess.run(["g++", *flags, *own, shipped.SUPPORT / "damaged_plans.cpp", "-o", program], check=True)
    folder = made.folder / target
    (kernels,) = folder.glob("kernels.*")
    sizes = [str(path.stat().st_size) for path in (kernels, made.folder / "weights.bin")]
    run = subprocess.run([program, folder / "plan.txt", *sizes, "5000"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    refused, read = map(int, run.stdout.split())
    assert refused + read == 5000
    assert min(refused, read) > 500
