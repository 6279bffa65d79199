"""A model built for a target runs without a compiler, a database or a writable disk."""

from __future__ import annotations

import json
from collections.abc import Callable
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
from qconv.errors import CompileError, KernelMissing
from qconv.generator.source import text_digest
from qconv.instances.load.building import Place
from qconv.onnx import Session, Unsupported
from qconv.onnx.built import Arranged, Decided, build, with_batch
from qconv.targets.target import target

CPU = open_device("cpu")
HERE = Place(CPU.name, CPU.target)


@pytest.fixture(scope="module")
def model() -> Any:
    """Return a model that partly runs in ONNX Runtime with its bits."""
    return networks.quantized(networks.squeeze_excite_like(), "QOperator", "u8s8", per_channel=False)


@pytest.fixture(scope="module")
def folder(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "model.qconv"
    assert build(model, folder, HERE) > 10
    return folder


def test_its_bits(folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "missing.sqlite"))
    session = Session(folder, "cpu")
    for turn in range(RUNS):
        fed = {"x": np.roll(networks.images(1, 9), turn, -1)}
        assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], f"run {turn}")
    assert not session.explain().fallen_back
    assert all("built: " in row.why for row in session.explain().rows if row.op == "QLinearConv")
    assert session.profile(fed).rows
    assert [path.name for path in tmp_path.iterdir()] == []
    with pytest.raises(KernelMissing, match=r"was built for batches of 1; for inputs .* build it again"):
        session.run(None, {"x": networks.images(3, 9)})


def test_layers_that_run_elsewhere_do_so_from_a_folder_too(model: Any, tmp_path: Path) -> None:
    build(model, tmp_path / "model.qconv", HERE, bits="onnxruntime")
    fed = {"x": networks.images(1, 9)}
    session = Session(tmp_path / "model.qconv", "cpu")
    assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], "")
    fallen = Session(model, "cpu", bits="onnxruntime").explain().fallen_back
    assert session.explain().fallen_back == fallen
    assert fallen["GlobalAveragePool"] == 1


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


def test_what_was_decided_is_not_decided_again(folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    spans = [one["fused"] for each in manifest["arranged"].values() for one in each]
    assert any(spans)
    monkeypatch.setattr("qconv.network.run.arrange.Arranger.arranged", None)
    session = Session(folder, "cpu")
    fed = {"x": networks.images(1, 9)}
    assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], "")
    folded = [row.why for row in session.explain().rows if row.why.startswith("QLinearConv, com.microsoft.QLinear")]
    assert any("QLinearSigmoid folded" in why for why in folded)
    assert len(folded) == sum(map(len, spans))


def test_a_region_of_other_shapes_was_not_decided() -> None:
    class Region:
        class layer:
            name = "conv"

    decided = Decided(Path("folder"), (1, 8), {"conv": (Arranged(((1, 3, 4, 4),), ()),)})
    with pytest.raises(KernelMissing, match=r"folder was built for batches of 1, 8; for inputs \[\(2, 3, 4, 4\)\]"):
        decided.arranged(Region(), [(2, 3, 4, 4)])  # type: ignore[arg-type]


def test_extents_that_are_no_batch_are_refused(model: Any, tmp_path: Path) -> None:
    assert not model.graph.input[0].type.tensor_type.shape.dim[0].HasField("dim_value")
    fixed = with_batch(model, 5).graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in fixed.dim] == [5, 3, networks.SIZE, networks.SIZE]
    open_width = onnx.ModelProto()
    open_width.CopyFrom(model)
    open_width.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "W"
    with pytest.raises(Unsupported, match=r"extent 3 of the input 'x' is open, .* first: give W, by --extent of build"):
        with_batch(open_width, 1)
    named = with_batch(open_width, 1, {"W": 7, "H": 8}).graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in named.dim] == [1, 3, networks.SIZE, 7]
    open_width.graph.input[0].type.tensor_type.shape.dim[3].ClearField("dim_param")
    with pytest.raises(Unsupported, match="extent 3 of the input 'x' is open, and --batch fixes the first: fix it"):
        with_batch(open_width, 1)
    for extents, says in (
        ({"H": [1]}, r"the extent 'H' is none of the model's open ones behind the batch \(W\): correct its name"),
        ({"W": []}, r"W=\(\) must have at least one number, of at least 1"),
        ({"W": [8, 0]}, r"W=\(8, 0\) must have at least one number, of at least 1"),
    ):
        open_width.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "W"
        with pytest.raises(ValueError, match=says):
            build(open_width, tmp_path / "model.qconv", HERE, extents=extents)


def test_a_model_of_one_batch_is_built_for_no_other(model: Any, tmp_path: Path) -> None:
    of_two = with_batch(model, 2)
    with pytest.raises(ValueError, match="batch=1, but the model's input 'x' has 2 images: leave --batch out"):
        build(of_two, tmp_path / "model.qconv", HERE, (2, 1))
    assert not (tmp_path / "model.qconv").exists()
    assert build(of_two, tmp_path / "model.qconv", HERE) > 10
    assert json.loads((tmp_path / "model.qconv/manifest.json").read_text())["batches"] == [2]


def test_an_output_without_a_type(tmp_path: Path) -> None:
    made = behind_a_pool()
    assert not made.proto.graph.output[0].HasField("type")
    assert build(made.proto, tmp_path / "model.qconv", HERE) > 0
    wanted = Session(made.proto, "cpu").run(None, made.feeds)
    assert_equal(Session(tmp_path / "model.qconv", "cpu").run(None, made.feeds)[0], wanted[0], "built")


def test_what_a_folder_is_not_given(folder: Path, tmp_path: Path) -> None:
    choices = ({"sums_in_convolutions": True}, {"tables_in_convolutions": True}, {"fused_convolutions": False})
    for given in ({"config": {}}, {"bits": "integers"}, {"pools_in_convolutions": False}, *choices):
        with pytest.raises(ValueError, match="has its config, bits, floats and choices: give them to qconv-tune build"):
            Session(folder, "cpu", **given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is not empty: give a new folder"):
        build("missing.onnx", folder, HERE)
    with pytest.raises(ValueError, match=r"has no manifest\.json"):
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
    assert (code, "problems for cpu in out: qconv.onnx.Session('out') loads it" in said) == (0, True), said
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert (manifest["batches"], manifest["bits"]) == ([1], "integers")
    code, said = command(
        "model.onnx", "--target", "cpu", "--device", CPU.name, "--bits", "onnxruntime", "--out", "floats"
    )
    assert code == 0, said
    assert json.loads((tmp_path / "floats/manifest.json").read_text())["bits"] == "onnxruntime"
    for arguments, says in (
        (("model.onnx", "--target", "cpu"), "into a folder that --out names"),
        (("model.onnx", "--target", "cpu", "--target", "sm_90a", "--out", "new"), "for one --target"),
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
        build(model, tmp_path / bits, HERE, bits=bits)
        (y,) = Session(tmp_path / bits, "cpu").run(None, feeds)
        assert_equal(y, networks.by_ort(model, feeds, config)[0], bits)
    manifest = tmp_path / "integers/manifest.json"
    manifest.write_text(manifest.read_text().replace('"bits": "integers"', '"bits": "floats"'))
    with pytest.raises(ValueError, match="bits='floats' is not one of 'integers', 'onnxruntime'"):
        Session(tmp_path / "integers", "cpu")


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
    build(made, tmp_path / "built", HERE, (1, 2), extents={"w": (3, 5)})
    session = Session(tmp_path / "built", "cpu")
    for shape in ((1, 4, 3), (2, 4, 5), (1, 4, 5), (2, 4, 3)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        assert_equal(session.run(None, {"x": x})[0], Session(made, "cpu").run(None, {"x": x})[0], str(shape))
    with pytest.raises(KernelMissing, match=r"was not built for .* for inputs of these shapes"):
        session.run(None, {"x": np.zeros((1, 4, 4), np.float32)})


@pytest.mark.slow
def test_several_batches(model: Any, tmp_path: Path) -> None:
    build(model, tmp_path / "built", HERE, (3, 1))
    session = Session(tmp_path / "built", "cpu")
    for count in (1, 3):
        fed = {"x": networks.images(count, 9)}
        assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], f"{count} images")


@pytest.mark.slow
def test_for_a_gpu_that_is_not_here(model: Any, tmp_path: Path) -> None:
    """With NVRTC or nvcc present it compiles for the target, and a session of another target refuses the folder."""
    try:
        compiler_ahead(target("sm_90a"))
    except CompileError as missing:
        pytest.skip(str(missing))
    build(model, tmp_path / "built", Place("NVIDIA H200", target("sm_90a")))
    cubins = list((tmp_path / "built/kernels/sm_90a").rglob("*.cubin"))
    of_arrays = text_digest(array_kernels.source_of(target("sm_90a")).text)
    assert sum(of_arrays in path.parts for path in cubins) == 1
    assert len(cubins) > 10
    with pytest.raises(ValueError, match="was built for sm_90a, and cpu is cpu"):
        Session(tmp_path / "built", "cpu")
