"""GridSample: the results are ONNX Runtime's, but for the last bits where it has a way of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from expressed_layers import assert_as_onnxruntime, by_onnxruntime, drawn, evaluated, model_of_nodes, runs_here
from onnx import helper

from qconv.network import Layer, Network, Tensor
from qconv.network.expressions.expressed import Expressed
from qconv.network.expressions.fuse import fuse
from qconv.op import Sample
from qconv.ops import registry

MODES = ("nearest", "linear", "cubic")
PADDINGS = ("zeros", "border", "reflection")
X = (2, 3, 5, 4, 6)


def sampled(rank: int, seed: int = 0, scale: float = 1.2, **attributes: Any) -> tuple[Any, dict[str, Any]]:
    """Return a model that samples images of `rank` axes, in part outside of them."""
    rng = np.random.default_rng(seed)
    grid = (rng.standard_normal((2, *(4, 3, 5)[:rank], rank)) * scale).astype(np.float32)
    feeds = {"x": drawn(rng, X[: 2 + rank]), "g": grid}
    node = helper.make_node("GridSample", ["x", "g"], ["y"], **attributes)
    return model_of_nodes([node], feeds, {}, opset=20), feeds


@pytest.mark.turns
@pytest.mark.parametrize("aligns", [0, 1])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_samples_of_images(mode: str, padding: str, aligns: int) -> None:
    for seed in range(4):
        model, feeds = sampled(2, seed, mode=mode, padding_mode=padding, align_corners=aligns)
        # ONNX Runtime has another way of its own for this one.
        ulps = 2 if (mode, padding, aligns) == ("linear", "zeros", 0) else 0
        assert_as_onnxruntime(model, feeds, ulps=ulps)


@pytest.mark.parametrize("aligns", [0, 1])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES[:2])
def test_samples_of_volumes(mode: str, padding: str, aligns: int) -> None:
    model, feeds = sampled(3, mode=mode, padding_mode=padding, align_corners=aligns)
    assert_as_onnxruntime(model, feeds)


@pytest.mark.parametrize("padding", PADDINGS)
def test_a_cubic_sample_at_an_element_of_a_volume_is_that_element(padding: str) -> None:
    """ONNX Runtime has no cubic samples of volumes."""
    model, feeds = sampled(3, mode="cubic", padding_mode=padding, align_corners=1)
    places = [np.linspace(-1, 1, extent, dtype=np.float32) for extent in X[2:]]
    at = np.random.default_rng(1).integers(0, X[2:], (*feeds["g"].shape[:-1], 3))
    feeds["g"] = np.stack([places[axis][at[..., axis]] for axis in (2, 1, 0)], -1)
    (got,) = evaluated(model, feeds)
    for image in range(2):
        wanted = feeds["x"][image][:, at[image, ..., 0], at[image, ..., 1], at[image, ..., 2]]
        np.testing.assert_allclose(got[image], wanted, atol=1e-5)


@pytest.mark.parametrize("padding", PADDINGS)
def test_places_far_outside(padding: str) -> None:
    model, feeds = sampled(2, scale=1e3, mode="nearest", padding_mode=padding)
    assert_as_onnxruntime(model, feeds)
    feeds["g"] = feeds["g"] * np.float32(1e30)
    (got,) = evaluated(model, feeds)
    inside = feeds["x"].reshape(-1)
    assert np.isin(got, [0] if padding == "zeros" else inside).all()


@pytest.mark.parametrize("aligns", [0, 1])
def test_an_axis_of_one_element(aligns: int) -> None:
    rng = np.random.default_rng(2)
    feeds = {"x": drawn(rng, (1, 2, 1, 4)), "g": np.zeros((1, 3, 3, 2), np.float32)}
    for padding in PADDINGS:
        node = helper.make_node("GridSample", ["x", "g"], ["y"], padding_mode=padding, align_corners=aligns)
        assert_as_onnxruntime(model_of_nodes([node], feeds, {}, opset=20), feeds, ulps=2)


def test_older_names_of_modes() -> None:
    _, feeds = sampled(2)
    for old, new in (("bilinear", "linear"), ("bicubic", "cubic"), ("nearest", "nearest")):
        made = []
        for opset, mode in ((16, old), (20, new)):
            node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode)
            made.append(evaluated(model_of_nodes([node], feeds, {}, opset), feeds)[0])
        np.testing.assert_array_equal(*made)


def of_type(dtype: str, **attributes: Any) -> tuple[Expressed | None, str]:
    """Return the expression of a layer, or why there is none. ONNX Runtime takes no types but float32."""
    tensors = {"x": Tensor("x", dtype, X[:4]), "g": Tensor("g", "float32", (2, 4, 3, 2)), "y": Tensor("y", dtype)}
    layer = Layer("sample", "GridSample", ("x", "g"), ("y",), attributes)
    _, served, why_not = fuse(Network(("x", "g"), ("y",), (layer,), tensors, {}), {})
    return served.get("sample"), str(why_not.get("sample", ""))  # type: ignore[return-value]


def test_halves_and_integers() -> None:
    _, feeds = sampled(2)
    for dtype, mode in (("float16", "linear"), ("int8", "nearest"), ("int64", "nearest")):
        one, _ = of_type(dtype, mode=mode, padding_mode="border")
        assert one is not None
        x = drawn(np.random.default_rng(3), X[:4], dtype)
        flat = {"x": x.reshape(-1), "g": feeds["g"].reshape(-1)}
        kernel = one.kernel(one.lasts)
        assert not kernel.is_last, "the pixels of a channel are closer to each other than its neighbours are"
        (got,) = registry.compute(kernel.problem, Sample(tuple(flat[name] for (name,) in kernel.tensors)))
        node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode="border")
        wide = {"x": x.astype(np.float32), "g": feeds["g"]}
        (wanted,) = by_onnxruntime(model_of_nodes([node], wide, {}, opset=20), wide)
        assert got.dtype == dtype
        np.testing.assert_allclose(got.reshape(wanted.shape).astype(np.float32), wanted, rtol=1e-3, atol=1e-3)


def test_the_reason_of_what_runs_elsewhere() -> None:
    assert "x is int8, and mode=linear weighs its elements" in of_type("int8", mode="linear")[1]
    assert "padding_mode=mirror; the kernels have" in of_type("float32", padding_mode="mirror")[1]
    assert "mode=lanczos" in of_type("float32", mode="lanczos")[1]


@pytest.mark.parametrize(("rank", "mode", "padding"), [(2, "cubic", "reflection"), (3, "linear", "zeros")])
def test_it_runs_here(rank: int, mode: str, padding: str) -> None:
    runs_here(*sampled(rank, mode=mode, padding_mode=padding))
