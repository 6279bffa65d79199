"""A model built for a target: its session has the model's bits, without a compiler, a database or a writable disk."""

from __future__ import annotations

import ctypes
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import quantized_networks as networks
from onnx import helper, numpy_helper
from read_only import python_without_disk
from session_comparison import RUNS, assert_equal
from unusual_models import behind_a_pool

from qconv.cli import main
from qconv.device import array_kernels, open_device
from qconv.device.compile import compiler_ahead
from qconv.device.cpu import CpuDevice
from qconv.errors import CacheError, CompileError, DeviceError, Unshippable
from qconv.generator.source import text_digest
from qconv.network.graph.value import Value
from qconv.network.ship import cpp_library
from qconv.network.ship.parts import OpenedPart
from qconv.onnx import Session, Shipped, ShippedSession, shipped_session
from qconv.onnx.asked_shapes import with_batch
from qconv.onnx.fallback import open_part
from qconv.onnx.ship import build
from qconv.targets.target import target

pytestmark = pytest.mark.thirds

CPU = open_device("cpu")


@pytest.fixture(scope="module")
def model() -> Any:
    """Return a model that partly runs in ONNX Runtime with its bits."""
    return networks.quantized(networks.squeeze_excite_like(), "QOperator", "u8s8", per_channel=False)


@pytest.fixture(scope="module")
def folder(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "model.qconv"
    made = build(model, folder, "cpu", device=CPU.name, batches=[1, 3])
    assert not made.elsewhere
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be compiled, and give this user a cache and a database of nothing."""
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "missing.sqlite"))
    monkeypatch.setenv("QCONV_NO_COMPILE", "1")
    cpp_library.library.cache_clear()


@pytest.mark.usefixtures("elsewhere")
def test_its_bits(folder: Path, model: Any, tmp_path: Path) -> None:
    session = Session(folder, "cpu")
    assert isinstance(session, ShippedSession)
    for count in (1, 3):
        for turn in range(RUNS):
            fed = {"x": np.roll(networks.images(count, 9), turn, -1)}
            assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], f"run {turn}")
    assert [path.name for path in tmp_path.iterdir()] == []
    with pytest.raises(ValueError, match=r"x \(2, 3, 16, 16\) was given: export it for these shapes too"):
        session.run(None, {"x": networks.images(2, 9)})


@pytest.fixture(scope="module")
def parted(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    folder = tmp_path_factory.mktemp("parted") / "model.qconv"
    return build(model, folder, "cpu", device=CPU.name, bits="onnxruntime", batches=[1, 2])


@pytest.mark.usefixtures("elsewhere")
def test_layers_that_run_elsewhere_do_so_from_a_folder_too(parted: Shipped, model: Any) -> None:
    (named,) = parted.elsewhere
    fallen = Session(model, "cpu", bits="onnxruntime").explain().fallen_back
    assert sorted(part.split(" ")[0] for part in named.split(", ")) == sorted(Counter(fallen).elements())
    session = Session(parted.folder, "cpu")
    for turn in range(4):
        for count in (1, 2):
            fed = {"x": np.roll(networks.images(count, 9), turn, -1)}
            assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], f"run {turn} of {count}")


def test_a_part_that_fails_says_why(parted: Shipped, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(content: bytes) -> OpenedPart:
        part = open_part(content)
        return replace(part, run=lambda given: [array[:, :1] for array in part.run(given)])

    monkeypatch.setattr(shipped_session, "open_part", opened)
    session = Session(parted.folder, "cpu")
    fed = {"x": networks.images(1, 9)}
    with pytest.raises(ValueError, match=r"was made with the shape \(1, 1, .*, and the folder was built for \(1, "):
        session.run(None, fed)


def test_its_program_is_refused_where_nobody_answers(parted: Shipped) -> None:
    c = cpp_library.library("cpu")
    network, graph = ctypes.c_void_p(), ctypes.c_void_p()
    assert c.qconv_network_open(bytes(parted.folder), b"cpu", ctypes.byref(network)) == 0
    assert c.qconv_network_call_count(network, 0) == 1
    arrays = [np.zeros(4096, np.uint8) for _ in range(3)]
    at = [array.ctypes.data + -array.ctypes.data % 256 for array in arrays]
    given = (ctypes.c_void_p * 1)(at[0]), (ctypes.c_void_p * 1)(at[1]), ctypes.c_void_p(at[2])
    assert c.qconv_network_run(network, 0, None, *given) == 1
    said = c.qconv_network_last_error().decode()
    assert "GlobalAveragePool (globalaveragepool10)" in said
    assert said.startswith("no kernel computes ")
    assert said.endswith("give a function for it, by qconv_network_set_answer, or open the folder in Python")
    assert c.qconv_graph_create(network, 0, *given, ctypes.byref(graph)) == 1
    assert "a graph cannot call the function for " in c.qconv_network_last_error().decode()
    c.qconv_network_close(network)


@pytest.mark.parametrize("name", ["network.txt", "cpu/kernels.so", "elsewhere/*.onnx"])
def test_what_others_could_have_written_is_refused(name: str, parted: Shipped, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(parted.folder, tmp_path / "copy"))
    (path,) = copy.glob(name) if "*" not in name else sorted(copy.glob(name))[:1]
    path.chmod(0o666)
    with pytest.raises(CacheError, match=r"has mode 0666: others than its owner may write there"):
        Session(copy, "cpu")


def refused(tmp_path: Path, *nodes: onnx.NodeProto) -> str:
    """Return what a model of these nodes, from x to y, is told when it is built."""
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph(nodes, "graph", [x], [onnx.ValueInfoProto(name="y")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with pytest.raises(Unshippable) as error:
        build(made, tmp_path / "model.qconv", "cpu")
    assert not (tmp_path / "model.qconv").exists()
    return str(error.value)


def test_a_shape_that_only_the_inputs_decide_is_refused(tmp_path: Path) -> None:
    """The layer that decides it is named, which may lie in front of those that run elsewhere with it."""
    sizes = (
        "has run, and a folder has arrays of known sizes: open the model itself in a session, or build one that ends"
    )
    assert refused(tmp_path, helper.make_node("NonZero", ["x"], ["y"], name="nonzero")) == (
        f"the shape of 'y' of NonZero (nonzero), which runs elsewhere, is known only when it {sizes} in front of "
        "NonZero (nonzero)"
    )
    picked = (
        helper.make_node("NonZero", ["x"], ["at"], name="nonzero"),
        helper.make_node("Transpose", ["at"], ["turned"], name="turn"),
        helper.make_node("GatherND", ["x", "turned"], ["y"], name="pick"),
    )
    assert refused(tmp_path, *picked) == (
        f"the shape of 'y' of GatherND (pick), which runs elsewhere, is known only when NonZero (nonzero) {sizes} in "
        "front of NonZero (nonzero)"
    )


def test_strings_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.STRING, name="text")
    assert refused(tmp_path, node) == (
        "the type of 'y' of Cast (text), which runs elsewhere, is no type of numbers: open the model itself in a "
        "session"
    )


class OfADevice(np.ndarray[Any, Any]):
    """An array like CuPy's that refuses operations for which CuPy would compile a kernel."""

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("CuPy would compile a kernel for this")

    def reshape(self, *shape: Any, **named: Any) -> Any:
        assert self.flags.c_contiguous, "CuPy would compile a copy: ask the device to make it contiguous"
        return super().reshape(*shape, **named)

    astype = copy = flatten = __setitem__ = __array_ufunc__


def refuse_cupys_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make arrays of the CPU device refuse to be moved or computed with, except by the device."""
    for name in ("upload", "empty", "zeros", "contiguous", "exchanged"):
        made = getattr(CpuDevice, name)
        monkeypatch.setattr(CpuDevice, name, lambda *given, made=made: made(*map(plain, given)).view(OfADevice))
    for name in ("fill", "copy", "write", "download"):
        done = getattr(CpuDevice, name)
        monkeypatch.setattr(CpuDevice, name, lambda *given, done=done: done(*map(plain, given)))


def plain(given: Any) -> Any:
    return given.view(np.ndarray) if isinstance(given, np.ndarray) else given


@pytest.mark.turns
@pytest.mark.parametrize("network", ["squeeze_excite", "mobilenet_v3", "resnet"])
def test_all_that_moves_bytes_is_asked_of_the_device(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, the device uses kernels of the folder; CuPy's would be compiled on the spot."""
    model = networks.quantized(networks.NETWORKS[network](), "QOperator", "u8s8", per_channel=True)
    refuse_cupys_kernels(monkeypatch)
    session = Session(model, "cpu")
    for turn in range(RUNS):
        fed = {"x": np.roll(networks.images(2, 9), turn, -1)}
        assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], f"run {turn}")
    with pytest.raises(AssertionError, match="CuPy would compile"):
        session.run_on_device(None, fed)[0].transpose().reshape(-1)


def test_what_is_not_contiguous_is_made_so_by_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_cupys_kernels(monkeypatch)
    array = np.arange(2 * 3 * 8 * 5, dtype=np.int8).reshape(2, 3, 8, 5)
    made = Value(CPU, there=CPU.upload(array)[:, :, ::2]).channels_last
    assert np.array_equal(plain(made), np.moveaxis(array[:, :, ::2], 1, -1))


RUN = """
import sys
import numpy as np
from qconv.onnx import Session
print(Session(sys.argv[1], "cpu").run(None, {"x": np.zeros((1, 3, 16, 16), np.float32)})[0].tolist())
"""


def test_where_nothing_can_be_written_or_compiled(folder: Path, model: Any) -> None:
    ran = python_without_disk()("-c", RUN, str(folder))
    assert ran.returncode == 0, ran.stderr
    wanted = networks.by_ort(model, {"x": np.zeros((1, 3, 16, 16), np.float32)})[0]
    assert json.loads(ran.stdout) == wanted.tolist()


def test_a_model_of_one_batch_is_built_for_no_other(model: Any, tmp_path: Path) -> None:
    of_two = with_batch(model, 2)
    with pytest.raises(ValueError, match="batch=1, but the model's input 'x' has 2 images: leave --batch out"):
        build(of_two, tmp_path / "model.qconv", "cpu", batches=(2, 1))
    assert not (tmp_path / "model.qconv").exists()
    (plan,) = build(of_two, tmp_path / "model.qconv", "cpu", device=CPU.name).plans
    assert [program.inputs[0].shape[0] for program in plan.programs] == [2]


def test_an_output_without_a_type(tmp_path: Path) -> None:
    made = behind_a_pool()
    assert not made.proto.graph.output[0].HasField("type")
    build(made.proto, tmp_path / "model.qconv", "cpu", device=CPU.name)
    wanted = Session(made.proto, "cpu").run(None, made.feeds)
    assert_equal(Session(tmp_path / "model.qconv", "cpu").run(None, made.feeds)[0], wanted[0], "built")


def test_what_a_folder_is_not_given(folder: Path, tmp_path: Path) -> None:
    choices = ({"sums_in_convolutions": True}, {"tables_in_convolutions": True}, {"fused_convolutions": False})
    for given in ({"config": {}}, {"bits": "integers"}, {"pools_in_convolutions": False}, *choices):
        with pytest.raises(ValueError, match=r"has its own config, bits, floats and choices: leave \w+ out"):
            Session(folder, "cpu", **given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is not empty: give a new folder"):
        build("missing.onnx", folder, "cpu")
    with pytest.raises(
        ValueError, match=r"has no network\.txt: give a folder that qconv-tune export or build has written"
    ):
        Session(tmp_path, "cpu")


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        code = 0
        try:
            main(["build", *arguments])
        except SystemExit as done:
            code = done.code if isinstance(done.code, int) else 0
        said = capsys.readouterr()
        return code, " ".join((said.out + said.err).split())

    return run


def test_the_command(model: Any, command: Callable[..., Any], tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "model.onnx")
    code, said = command("model.onnx", "--target", "cpu", "--device", CPU.name, "--batch", "1", "--out", "out")
    assert (code, "kernels for cpu in out: qconv.onnx.Session('out') loads it" in said) == (0, True), said
    code, said = command(
        "model.onnx", "--target", "cpu", "--device", CPU.name, "--bits", "onnxruntime", "--out", "floats"
    )
    assert code == 0, said
    assert "in ONNX Runtime: " in said
    assert "GlobalAveragePool (globalaveragepool10)" in said
    for arguments, says in (
        (("model.onnx", "--target", "cpu"), "into a folder that --out names"),
        (("model.onnx", "conv2d", "--target", "cpu", "--out", "new"), "a model is built alone"),
        (
            ("model.onnx", "--target", "cpu", "--out", "new", "--batch", "0"),
            "--batch '0' must be numbers of at least 1",
        ),
        (("model.onnx", "--target", "cpu", "--out", "new", "--extent", "w"), "--extent 'w' must be NAME=NUMBERS"),
        (("model.onnx", "--target", "cpu", "--out", "new", "--extent", "w=0"), "--extent w '0' must be numbers"),
        (("model.onnx", "--target", "cpu", "--out", "new", "--extent", "w=8"), "the extent 'w' is none of the model's"),
        (("conv2d", "--target", "cpu", "--extent", "w=8"), "--extent w=8 belongs to a MODEL.onnx"),
        (("other.onnx", "--target", "cpu", "--out", "new"), "there is no file 'other.onnx'"),
        (("conv2d", "--target", "cpu", "--bits", "integers"), "--bits integers belongs to a MODEL.onnx"),
        (("model.onnx", "--target", "cpu", "--bits", "floats"), "'floats' is not one of integers, onnxruntime"),
    ):
        code, said = command(*arguments)
        assert (code, says in said) == (2, True), said


@pytest.mark.slow
def test_a_folder_keeps_what_its_layers_mean(tmp_path: Path) -> None:
    model = networks.quantized(networks.resnet_like(), "QDQ", "s8s8", per_channel=True)
    feeds = {"x": networks.images(1, 9)}
    for bits, config in (("integers", networks.INT8_ALLOWED), ("onnxruntime", {})):
        build(model, tmp_path / bits, "cpu", device=CPU.name, bits=bits)
        (y,) = Session(tmp_path / bits, "cpu").run(None, feeds)
        assert_equal(y, networks.by_ort(model, feeds, config)[0], bits)


def test_every_combination_of_extents(tmp_path: Path) -> None:
    """A model of computed shapes, whose expressions are of one shape each."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "first"], ["count"], axis=0),
        helper.make_node("Concat", ["count", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["rows"]),
        helper.make_node("Softmax", ["rows"], ["y"], axis=-1),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 4, "w"])
    held = [numpy_helper.from_array(np.array([value]), name) for name, value in (("first", 0), ("rest", -1))]
    graph = helper.make_graph(nodes, "graph", [x], [onnx.ValueInfoProto(name="y")], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    build(made, tmp_path / "built", "cpu", device=CPU.name, batches=(1, 2), extents={"w": (3, 5)})
    session = Session(tmp_path / "built", "cpu")
    for shape in ((1, 4, 3), (2, 4, 5), (1, 4, 5), (2, 4, 3)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        assert_equal(session.run(None, {"x": x})[0], Session(made, "cpu").run(None, {"x": x})[0], str(shape))
    with pytest.raises(
        ValueError, match=r"exported for x \(1, 4, 3\); .*; x \(1, 4, 4\) was given: export it for these"
    ):
        session.run(None, {"x": np.zeros((1, 4, 4), np.float32)})


@pytest.mark.slow
def test_for_a_gpu_that_is_not_here(model: Any, tmp_path: Path) -> None:
    """With NVRTC or nvcc present it compiles for the target, and a session of another target refuses the folder."""
    try:
        compiler_ahead(target("sm_90a"))
    except CompileError as missing:
        pytest.skip(str(missing))
    try:
        build(model, tmp_path / "built", ["sm_90a", "cpu"], device="NVIDIA H200")
    except DeviceError as missing:  # the driver's header
        pytest.skip(str(missing))
    of_arrays = text_digest(array_kernels.source_of(target("sm_90a")).text)
    (cubin,) = (tmp_path / "built/python/kernels/sm_90a").rglob("*.cubin")
    assert of_arrays in cubin.parts
    assert sorted(path.name.split("-")[0] for path in (tmp_path / "built/python/network").glob("*.so")) == [
        "cpu",
        "cuda",
    ]
    fed = {"x": networks.images(1, 9)}
    assert_equal(Session(tmp_path / "built", "cpu").run(None, fed)[0], networks.by_ort(model, fed)[0], "")
