"""A lowered graph as a folder for C++: its bits, for each batch, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

import numpy as np  # noqa: E402
from built_library import build, builds  # noqa: E402
from torch_functions import Function, Y, conv, dq, integers, q  # noqa: E402

import qconv.torch  # noqa: E402
from qconv.device import open_device  # noqa: E402
from qconv.errors import Unshippable  # noqa: E402
from qconv.network.ship.opened import OpenedNetwork  # noqa: E402
from qconv.torch.ship import shapes_of  # noqa: E402

pytestmark = pytest.mark.thirds

REAL = torch.randn(2, 8, 6, 4, generator=torch.Generator().manual_seed(5))


def body(m: Any, x: Any) -> Any:
    """Two outputs, of which one is given twice; bytes of images and rows of floats."""
    first = q(torch.relu(conv(m, dq(q(x, (0.03, 0, *Y[2:])), (0.03, 0, *Y[2:])))))
    mean = (dq(first, Y) * 2).mean((2, 3))
    return first, (q(conv(m, dq(first, Y)) + dq(first, Y)), q(mean)), first


def lowered(batch: bool = True) -> Any:
    shapes = {"inputs": ({0: torch.export.Dim("n", min=1, max=64)},)} if batch else None
    return qconv.torch.lower(torch.export.export(Function(body), (REAL,), dynamic_shapes=shapes))


@pytest.mark.slow
@builds
def test_its_bits(tmp_path: Path) -> None:
    module = lowered()
    made = qconv.torch.export(module, tmp_path / "network", ["cpu", "sm_90a"], batches=[2, 3])
    assert [plan.target.name for plan in made.plans] == ["cpu", "sm_90a"]
    network = OpenedNetwork(made.folder, open_device("cpu"))
    for number, batch in enumerate((2, 3)):
        x = torch.randn(batch, *REAL.shape[1:])
        with torch.no_grad():
            first, (second, third), _ = module(x)
        got = network.run(number, [np.ascontiguousarray(x.numpy())]).values()
        for value, one in zip(got, (first, second, third), strict=True):
            np.testing.assert_array_equal(value.on_host, one.numpy())
    build(made.folder)
    command = [made.folder / "build/qconv_run", made.folder, "--self-test"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert said.count("right  program") == 2 * (3 + 1)
    assert "WRONG" not in said


def test_the_graphs_own_batch() -> None:
    """Without batches, it is the example's; a graph of one batch has no other."""
    for module in (lowered(), lowered(batch=False)):
        assert shapes_of(module, None) == [[tuple(REAL.shape)]]
    assert shapes_of(lowered(), [1, 4]) == [[(1, 8, 6, 4)], [(4, 8, 6, 4)]]
    with pytest.raises(ValueError, match=r"batch=4, but the input 'inputs_0' has 2 images: leave batches out, or give"):
        shapes_of(lowered(batch=False), [4])


def test_shapes_that_are_asked_for() -> None:
    n, h = torch.export.Dim("n", min=1, max=64), torch.export.Dim("h", min=4, max=64)
    module = qconv.torch.lower(torch.export.export(Function(body), (REAL,), dynamic_shapes={"inputs": ({0: n, 2: h},)}))
    asked = [[(1, 8, 6, 4)], [(3, 8, 10, 4)]]
    assert shapes_of(module, None, asked) == asked
    with pytest.raises(ValueError, match="shapes say every extent of the inputs: leave batches out"):
        shapes_of(module, [1], asked)
    for shapes, says in (
        ([(1, 8, 6)], r"the input 'inputs_0' has the shape \(1, 8, 6\); the graph takes \(1, 8, 6, 4\)"),
        ([(1, 8, 6, 5)], r"has the shape \(1, 8, 6, 5\); the graph takes \(1, 8, 6, 4\)"),
        ([], "shapes are of 0 inputs; the graph takes inputs_0: give one for each"),
    ):
        with pytest.raises(ValueError, match=says):
            shapes_of(module, None, [shapes])


@pytest.mark.slow
@builds
def test_images_of_several_sizes(tmp_path: Path) -> None:
    n, h = torch.export.Dim("n", min=1, max=64), torch.export.Dim("h", min=4, max=64)
    module = qconv.torch.lower(torch.export.export(Function(body), (REAL,), dynamic_shapes={"inputs": ({0: n, 2: h},)}))
    asked = [[(1, 8, 6, 4)], [(3, 8, 10, 4)]]
    made = qconv.torch.export(module, tmp_path / "network", "cpu", shapes=asked, vectors=False)
    network = OpenedNetwork(made.folder, open_device("cpu"))
    for number, (shape,) in enumerate(asked):
        x = torch.randn(*shape)
        with torch.no_grad():
            first, (second, third), _ = module(x)
        got = network.run(number, [np.ascontiguousarray(x.numpy())]).values()
        for value, one in zip(got, (first, second, third), strict=True):
            np.testing.assert_array_equal(value.on_host, one.numpy())


def test_what_is_refused(tmp_path: Path) -> None:
    stays = qconv.torch.lower(torch.export.export(Function(lambda m, x: torch.cumsum(dq(x), 1)), (integers(2, 8),)))
    with pytest.raises(Unshippable, match=r"1 node stays in PyTorch, and cannot be shipped:\n  cumsum: no op here"):
        qconv.torch.export(stays, tmp_path / "network", "cpu")
    program = torch.export.export(Function(body), (REAL,))
    with pytest.raises(ValueError, match="has no report: give what lower or fuse gave"):
        qconv.torch.export(program.module(), tmp_path / "network", "cpu")
    (tmp_path / "used").mkdir()
    (tmp_path / "used/file").touch()
    with pytest.raises(ValueError, match="used is not empty: give a new folder"):
        qconv.torch.export(lowered(), tmp_path / "used", "cpu")
    with pytest.raises(ValueError, match="targets are empty"):
        qconv.torch.export(lowered(), tmp_path / "network", [])
    assert not (tmp_path / "network").exists()


def test_an_input_of_fixed_size_has_no_batch() -> None:
    shapes = {"inputs": ({0: torch.export.Dim("n", min=1, max=64)}, {}, {})}
    program = torch.export.export(
        Function(lambda m, x, one, number: q(dq(x) + dq(one, Y) * number)),
        (integers(2, 8, 6, 4), integers(1, 8, 1, 1), torch.tensor(2.0)),
        dynamic_shapes=shapes,
    )
    assert shapes_of(qconv.torch.lower(program), [3]) == [[(3, 8, 6, 4), (1, 8, 1, 1), ()]]
