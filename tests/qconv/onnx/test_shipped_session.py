"""A session of a folder for C++: the bits of the model's own session, and the shapes that it was exported for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import shipped_networks as shipped
from built_library import builds

import qconv.onnx
from qconv.device import Device
from qconv.onnx import Session, ShippedSession

pytestmark = [pytest.mark.slow, builds]
DEVICES = ("cpu", pytest.param("gpu", marks=pytest.mark.gpu))


@pytest.fixture
def exported(device: Device, tmp_path: Path) -> Path:
    folder = tmp_path / "network"
    qconv.onnx.export(shipped.residual(), folder, device.target.name, batches=[1, 2], device=device.name, vectors=False)
    return folder


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_its_bits(exported: Path, device: Device) -> None:
    session, own = Session(exported, device.spec), Session(shipped.residual(), device.spec)
    assert isinstance(session, ShippedSession)
    assert (session.device.spec, session.input_names, session.output_names) == (
        device.spec,
        own.input_names,
        own.output_names,
    )
    for batch in (1, 2):
        feeds = [{"x": np.random.default_rng(seed).standard_normal((batch, 3, 16, 16), np.float32)} for seed in (1, 2)]
        there = [{"x": device.upload(each["x"])} for each in feeds]
        for _ in range(3):
            for given, placed in zip(feeds, there, strict=True):
                (wanted,) = own.run(None, given)
                np.testing.assert_array_equal(session.run(None, given)[0], wanted)
                np.testing.assert_array_equal(device.download(session.run_on_device(None, placed)[0]), wanted)


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_outputs_in_buffers(exported: Path, device: Device) -> None:
    """Kernels write there, by launches at first and then by a graph for each place; elsewhere, an output is copied."""
    session, own = Session(exported, device.spec), Session(shipped.residual(), device.spec)
    (name,) = own.output_names
    feeds = [{"x": np.random.default_rng(seed).standard_normal((2, 3, 16, 16), np.float32)} for seed in (1, 2)]
    wanted = [own.run(None, given)[0] for given in feeds]
    x = device.upload(feeds[0]["x"])
    buffers = [device.upload(np.zeros_like(wanted[0])) for _ in range(2)]
    for turn in range(8):
        device.copy(device.upload(feeds[turn % 2]["x"]), x)
        for buffer in buffers:
            device.fill(buffer, 0xA5)
        made = session.run(None, {"x": x}, {name: buffers[turn // 2 % 2]})
        assert made[0] is buffers[turn // 2 % 2]
        np.testing.assert_array_equal(device.download(made[0]), wanted[turn % 2])
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], wanted[turn % 2])
    with pytest.raises(ValueError, match=rf"out\['{name}'\] is .*; the output is "):
        session.run(None, {"x": x}, {name: device.upload(np.zeros(1, np.int64))})


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_a_buffer_that_kernels_cannot_write(exported: Path, device: Device) -> None:
    session = Session(exported, "cpu")
    feeds = session.random_feeds()
    wanted = session.run(None, feeds)[0]
    (name,) = session.output_names
    anywhere = np.zeros(wanted.nbytes + 1, np.uint8)[1:].view(wanted.dtype).reshape(wanted.shape)
    for _ in range(3):
        anywhere[...] = 0
        session.run(None, feeds, {name: anywhere})
        np.testing.assert_array_equal(anywhere, wanted)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_arrays_that_lie_anyhow(exported: Path, device: Device) -> None:
    session, own = Session(exported, "cpu"), Session(shipped.residual(), "cpu")
    whole = np.random.default_rng(3).standard_normal(1 + 2 * 3 * 16 * 16, np.float32)
    (wanted,) = own.run(None, {"x": whole[1:].reshape(2, 3, 16, 16)})
    np.testing.assert_array_equal(session.run(None, {"x": whole[1:].reshape(2, 3, 16, 16)})[0], wanted)
    last = np.ascontiguousarray(whole[1:].reshape(2, 3, 16, 16).transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(session.run(session.output_names, {"x": last})[0], wanted)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_what_it_takes(exported: Path, device: Device) -> None:
    session = Session(str(exported), "cpu")
    assert isinstance(session, ShippedSession)
    assert session.shapes == ({"x": (1, 3, 16, 16)}, {"x": (2, 3, 16, 16)})
    assert session.random_feeds()["x"].shape == (1, 3, 16, 16)
    assert session.memory.arena_bytes > 0
    session.prepare({"x": (2, 3, 16, 16)})
    x = session.random_feeds()["x"]
    bad: list[tuple[Any, Any, str]] = [
        (None, {"x": x[:, :, :8]}, r"exported for x \(1, 3, 16, 16\); x \(2, 3, 16, 16\); x \(1, 3, 8, 16\) was given"),
        (None, {"x": x.astype(np.float64)}, "the input 'x' is float64; the model takes float32"),
        (None, {"xx": x}, r"'xx' is not known \(did you mean 'x'\?\), 'x' was not given"),
        (None, 1, "feeds are arrays by the names of inputs, or a list of arrays; int was given"),
        (["y"], {"x": x}, "the output 'y' is not known; the model gives"),
    ]
    for names, feeds, says in bad:
        with pytest.raises(ValueError, match=says):
            session.run(names, feeds)
    with pytest.raises(ValueError, match=r"exported for .*; x \(3, 3, 16, 16\) was given: export it for these shapes"):
        session.prepare({"x": (3, 3, 16, 16)})


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_what_was_decided_when_it_was_exported(exported: Path, device: Device) -> None:
    for given in ({"config": {}}, {"bits": "integers"}, {"fused_convolutions": True}):
        with pytest.raises(
            ValueError, match=rf"has its own config, bits, floats and choices: leave {next(iter(given))} out"
        ):
            Session(exported, "cpu", **given)
    session = Session(exported, "cpu")
    for ask in (session.explain, lambda: session.problems, lambda: session.profile({})):
        with pytest.raises(ValueError, match="its kernels were chosen when it was exported: open the model for"):
            ask()
