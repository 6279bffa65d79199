"""A library as a class of PyTorch: it has the oracle's bits, and what is wrong with its tensors is a sentence."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from built_library import build, builds
from library_cases import SMALL, plan_with_scratch, small, winner_of

from qconv.instances.library.vectors import given
from qconv.instances.library.write import write
from qconv.op import Problem, Sample
from qconv.ops import registry
from qconv.ops.registry import op_of

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[conformance]'")
pytestmark = [builds, pytest.mark.slow, pytest.mark.thirds]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the class; its library stays loaded until the process ends."""
    folder = tmp_path_factory.mktemp("library")
    write([small(), winner_of(plan_with_scratch())], folder)
    where = importlib.import_module("torch.utils").cmake_prefix_path
    flags = ("-DBUILD_SHARED_LIBS=ON", "-DQCONV_PREBUILT=ON", "-DQCONV_BUILD_TESTS=OFF", "-DQCONV_BUILD_PYTORCH_OP=ON")
    built: Path = build(folder, *flags, f"-DCMAKE_PREFIX_PATH={where}", "-DCMAKE_CXX_FLAGS=")
    torch.classes.load_library(str(built / "libqconv_pytorch.so"))
    return torch.classes.qconv_library.Kernel


def made(kernel: Any, problem: Problem, drawn: Sample) -> tuple[Any, list[Any]]:
    arrays = dict(zip((tensor.name for tensor in problem.inputs), map(torch.from_numpy, drawn.arrays), strict=True))
    weights = [arrays.pop(name) for name in problem.packed]
    values = {name: torch.from_numpy(value) for name, value in given(drawn).items()}
    names = {
        name for name in values if name in ("x_scale", "w_scale", "y_scale", "bias", "low", "high", "residual_scale")
    }
    names |= {name for name in values if name.endswith("zero_point") and getattr(quantization(problem), name)}
    return kernel(str(problem), weights, {name: values[name] for name in names}, 0), list(arrays.values())


def quantization(problem: Problem) -> Any:
    return problem.quantization  # type: ignore[attr-defined]


@pytest.mark.parametrize("problem", [SMALL, plan_with_scratch().problem], ids=["small", "scratch"])
def test_it_has_the_bits_of_the_oracle_in_every_thread(kernel: Any, problem: Problem) -> None:
    drawn = registry.draw(problem, 3)
    (wanted,) = op_of(problem).compute(problem, drawn)
    one, inputs = made(kernel, problem, drawn)
    right: list[bool] = []

    def work() -> None:
        right.extend(np.array_equal(one.run(inputs)[0].numpy(), wanted) for _ in range(3))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 9


def test_what_is_wrong_is_said(kernel: Any) -> None:
    one, (x,) = made(kernel, SMALL, registry.draw(SMALL, 3))
    with pytest.raises(RuntimeError, match="2 tensors were given, and the kernel takes 1"):
        one.run([x, x])
    with pytest.raises(
        RuntimeError,
        match=r"x is .*CharTensor \[1, 4, 5, 8\] on cpu; the kernel takes contiguous int8 \[1, 5, 5, 8\] on cpu",
    ):
        one.run([x[:, :4]])
    with pytest.raises(RuntimeError, match="QCONV_NO_KERNEL: this library has no kernel for conv2d:n=1"):
        kernel("conv2d:n=1", [], {}, 0)
    with pytest.raises(RuntimeError, match="slope is no parameter of this problem"):
        kernel(str(SMALL), [torch.zeros((8, 3, 3, 8), dtype=torch.int8)], {"slope": torch.ones(1)}, 0)
