"""Buffers of the caller for the outputs of a session: they get the outputs, in any order of axes, and no other does.
What does not fit is refused before anything is written."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
from foreign import Foreign

from qconv.device import Device
from qconv.device.cpu import CpuDevice
from qconv.onnx import Session

pytestmark = pytest.mark.filterwarnings("ignore::qconv.errors.SlowNetwork")
DEVICES = ("cpu", pytest.param("gpu", marks=pytest.mark.gpu))
RNG = np.random.default_rng(5)


def model() -> Any:
    """Return a network with outputs of two kernels and of ONNX Runtime."""
    nodes = [
        onnx.helper.make_node("ConvInteger", ["x", "w"], ["y"]),
        onnx.helper.make_node("MaxPool", ["x"], ["m"], kernel_shape=[2, 2]),
        onnx.helper.make_node("NonZero", ["y"], ["n"]),
        onnx.helper.make_node("CumSum", ["y", "axis"], ["s"]),
    ]
    image = [None, 3, 5, 6]
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, image)
    kinds = {
        "y": onnx.TensorProto.INT32,
        "m": onnx.TensorProto.UINT8,
        "n": onnx.TensorProto.INT64,
        "s": onnx.TensorProto.INT32,
    }
    outputs = [onnx.helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
    w = onnx.numpy_helper.from_array(np.random.default_rng(0).integers(-128, 128, (7, 3, 3, 3)).astype("int8"), "w")
    axis = onnx.numpy_helper.from_array(np.array(3), "axis")
    graph = onnx.helper.make_graph(nodes, "g", [x], outputs, [w, axis])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)


def images() -> Any:
    return RNG.integers(0, 256, (2, 3, 5, 6)).astype("uint8")


def channels_last(array: Any) -> Any:
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


@pytest.fixture
def session(device: Device) -> Session:
    return Session(model(), device.spec)


def poisoned(device: Device, like: Any) -> Any:
    """Return an array on the device, full of other bits."""
    made = device.upload(like)
    device.copy(device.upload(~np.ascontiguousarray(like)), made)
    return made


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_buffers_get_the_outputs_in_every_run(session: Session, device: Device) -> None:
    """The second run is recorded, and later ones replay it; buffers lie where they lay, or elsewhere."""
    own = Session(model(), device.spec)
    kept: dict[str, Any] = {}
    for turn in range(6):
        feeds = {"x": images()}
        wanted = dict(zip(own.output_names, own.run(None, feeds), strict=True))
        if turn in (0, 4):
            kept = {name: poisoned(device, wanted[name]) for name in ("y", "m")}
        made = dict(zip(session.output_names, session.run(None, feeds, out=kept), strict=True))
        for name, buffer in kept.items():
            assert made[name] is buffer
            np.testing.assert_array_equal(device.download(buffer), wanted[name])
        np.testing.assert_array_equal(made["n"], wanted["n"])
        later = session.run_on_device(["y"], {"x": images()})
        np.testing.assert_array_equal(device.download(kept["y"]), wanted["y"], f"{turn}: the next run has no buffer")
        assert later[0] is not kept["y"]


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_any_order_of_axes_any_library_and_the_host(session: Session) -> None:
    for _ in range(3):
        feeds = {"x": images()}
        y, m, n, s = session.run(None, feeds)
        turned = channels_last(np.zeros_like(s))  # of the other runtime
        last, foreign = channels_last(np.zeros_like(y)), Foreign(np.zeros_like(m))
        anywhere = np.zeros(y.nbytes + 1, np.uint8)[1:].view(np.int32).reshape(y.shape)  # at an odd address
        counted = np.zeros_like(n)
        made = session.run(None, feeds, {"y": last, "m": foreign, "n": counted, "s": turned})
        assert all(one is other for one, other in zip(made, (last, foreign, counted, turned), strict=True))
        np.testing.assert_array_equal(turned, s)
        np.testing.assert_array_equal(last, y)
        np.testing.assert_array_equal(foreign.array, m)
        np.testing.assert_array_equal(counted, n)
        (got,) = session.run(["y"], feeds, {"y": anywhere})
        assert got is anywhere
        np.testing.assert_array_equal(anywhere, y)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_an_output_may_take_the_place_of_its_input(session: Session) -> None:
    x = images()
    m = session.run(["m"], {"x": x})[0]
    for _ in range(3):
        whole = x.copy()
        into = whole.reshape(-1)[: m.size].reshape(m.shape)
        session.run(["m"], {"x": whole}, {"m": into})
        np.testing.assert_array_equal(into, m)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_a_buffer_is_the_only_copy(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(model(), "cpu")
    feeds = {"x": images()}
    m = session.run(["m"], feeds)[0]
    made: list[Any] = []
    empty = CpuDevice.empty
    monkeypatch.setattr(CpuDevice, "empty", lambda *given: made.append(given[1:3]) or empty(*given))
    for _ in range(3):
        session.run(["m"], feeds)
        session.run(["m"], feeds, {"m": m})
    plain, bound = [], []
    for out, into in ((None, plain), ({"m": m}, bound)):
        made.clear()
        session.run_on_device(["m"], feeds, out)
        into += made
    assert bound == plain  # where nothing is given, the move of the channels is the copy


BAD: dict[str, tuple[Any, str]] = {
    "no mapping": ([1], r"out=\[1\] must be arrays by the names of outputs: write {'y': array}"),
    "unknown": ({"z": np.zeros(1)}, "out has 'z', which is none of the outputs asked for: y, m"),
    "not asked for": ({"n": np.zeros(1)}, "out has 'n', which is none of the outputs asked for: y, m"),
    "no array": ({"y": 3}, r"out['y']=3 is no array: give one of cpu, which the output can be written to"),
    "type": (
        {"y": np.zeros((2, 7, 3, 4), np.float32)},
        "out['y'] is float32(2, 7, 3, 4); the output is int32(2, 7, 3, 4): give an array of that type and shape",
    ),
    "shape": (
        {"m": np.zeros((2, 3, 5, 6), np.uint8)},
        "out['m'] is uint8(2, 3, 5, 6); the output is uint8(2, 3, 4, 5)",
    ),
    "strides": (
        {"y": np.zeros((2, 7, 3, 8), np.int32)[..., ::2]},
        "out['y'] is neither contiguous in its shape (2, 7, 3, 4) nor with its channels last: give an array that is",
    ),
    "read-only": ({"y": np.broadcast_to(np.int32(0), (2, 7, 3, 4))}, "out['y'] is read-only: give an array that can"),
}


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused(session: Session, case: str) -> None:
    out, says = BAD[case]
    pattern = re.escape(says.replace("[1]", "@")).replace("@", "[1]") if case != "no mapping" else says
    for _ in range(3):
        with pytest.raises(ValueError, match=pattern):
            session.run(["y", "m"], {"x": images()}, out)
        session.run(["y", "m"], {"x": images()})


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_what_does_not_fit_is_refused_where_only_the_run_shows_it(session: Session) -> None:
    for _ in range(3):
        with pytest.raises(ValueError, match=r"out\['n'\] is int64\(4, 1\); the output is int64\(4, \d+\)"):
            session.run(["n"], {"x": images()}, {"n": np.zeros((4, 1), np.int64)})


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_nothing_is_written_where_one_of_several_does_not_fit(session: Session) -> None:
    y = np.full((2, 7, 3, 4), 7, np.int32)
    for _ in range(3):
        with pytest.raises(ValueError, match=r"out\['m'\] is uint8\(1,\)"):
            session.run(["y", "m"], {"x": images()}, {"y": y, "m": np.zeros(1, np.uint8)})
        assert (y == 7).all()
        with pytest.raises(ValueError, match=r"out\['y'\] and out\['m'\] share memory"):
            session.run(
                ["y", "m"], {"x": images()}, {"y": y, "m": y.view(np.uint8).reshape(-1)[:120].reshape(2, 3, 4, 5)}
            )
        assert (y == 7).all()


@pytest.mark.parametrize("device", ["gpu"], indirect=True)
@pytest.mark.gpu
def test_arrays_of_the_host_are_refused_on_a_gpu(session: Session) -> None:
    with pytest.raises(ValueError, match=r"out\['m'\] is a NumPy array in host memory"):
        session.run(["m"], {"x": images()}, {"m": np.zeros((2, 3, 4, 5), np.uint8)})
