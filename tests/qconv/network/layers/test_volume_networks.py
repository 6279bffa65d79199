"""Whole networks of videos and volumes run on integer kernels, with the bits of ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import quantized_networks as networks
import volume_networks as volumes
from session_comparison import RUNS, assert_equal, compare

from qconv.onnx import Session
from qconv.problem.convolution import Conv2d


@pytest.mark.turns
@pytest.mark.parametrize("name", volumes.NETWORKS)
@pytest.mark.parametrize(("form", "types"), [("QDQ", "s8s8"), ("QDQ", "u8s8"), ("QOperator", "u8u8")])
def test_nothing_runs_elsewhere(name: str, form: str, types: str) -> None:
    made = networks.quantized(volumes.NETWORKS[name](), form, types, types == "s8s8", [{"x": volumes.videos(2, 3)}])
    session = Session(made, "cpu", strict=True)
    for seed in range(RUNS):
        fed = {"x": volumes.videos(2, seed)}
        assert_equal(session.run(None, fed)[0], networks.by_ort(made, fed)[0], f"{name} {form} {types} {seed}")
    said = session.explain()
    assert not said.fallen_back
    assert said.share == 1.0
    assert said.float_share == 0.0


@pytest.mark.turns
@pytest.mark.parametrize("in_convolutions", [False, True])
def test_every_tensor_is_that_of_onnx_runtime(in_convolutions: bool) -> None:
    made = networks.quantized(volumes.r3d_like(), "QOperator", "u8u8", False, [{"x": volumes.videos(2, 3)}])
    session, count = compare(made, {}, {"x": volumes.videos(1, 4)}, in_convolutions=in_convolutions)
    assert count >= 8 - 2 * in_convolutions
    ops = Counter(row.op for row in session.explain().rows)
    assert ops["com.microsoft.QLinearAdd"] == (0 if in_convolutions else 2)


def test_frames_are_copied_for_dense_filters_alone() -> None:
    """In R(2+1)D, only the shortcut that skips frames reads a copy, on a device without tensor maps."""
    made = networks.quantized(volumes.r2plus1d_like(), "QDQ", "s8s8", True, [{"x": volumes.videos(2, 3)}])
    session = Session(made, "cpu", strict=True)
    session.run(None, {"x": volumes.videos(2, 5)})
    copied = [row.name for row in session.explain().rows if "copied side by side" in row.why]
    assert len(copied) == 1
    assert sum(isinstance(problem, Conv2d) for problem in session.problems) >= 11


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(("name", "of_frames"), [("r3d_18", 20), ("r2plus1d_18", 3)])
def test_networks_of_torchvision(name: str, of_frames: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks of torchvision with all of their layers, on clips of 4 x 16 x 16."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[4] / "bench"))
    from quantize_network import export, with_statistics
    from zoo_networks import NETWORKS

    pytest.importorskip("torchvision_models", reason="torchvision is not installed").import_models()
    torch.manual_seed(0)
    shape = (3, 4, 16, 16)
    path = export(with_statistics(NETWORKS[name].make(16), shape), shape, tmp_path / "network.onnx")
    fed: dict[str, Any] = {"x": np.random.default_rng(0).standard_normal((2, *shape)).astype(np.float32)}
    session = Session(str(path), "cpu", strict=True)
    assert_equal(session.run(None, fed)[0], networks.by_ort(onnx.load(path), fed)[0], name)
    said = session.explain()
    assert (said.share, said.float_share) == (1.0, 0.0)
    in_place = sum(isinstance(one, Conv2d) and one.frames is not None for one in session.problems)
    assert in_place + sum("copied side by side" in row.why for row in said.rows) == of_frames
