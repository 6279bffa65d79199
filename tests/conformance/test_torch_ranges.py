"""The parameter ranges of PyTorch's TestQuantizedConv, with full-range data and at tolerance 0.

PyTorch draws activations from 0..3 and weights from -5..4 and accepts an error of one. Its engines are exact oracles
only in part, and the fixture `narrow` tests the host for the rest:

* fbgemm and onednn add pairs of products in int16 where the CPU has no VNNI: there their weights are drawn from
  [-63, 63] (fbgemm's kernel for 3x3 depthwise filters does so on every host, but these ranges have no depthwise);
* qnnpack keeps the zero point in its padding until the input scale changes: every case prepacks anew.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from exactness import assert_same, check, expected
from scales import VARIANTS
from torch_engine import chosen, infer, is_compiled, narrowed, saturates

from qconv import Conv2d, Quantization, generator
from qconv.device import Device, open_device
from qconv.ops import registry

MOST_OPERATIONS = 12_000_000
CHANNELS = (2, 4, 5, 8, 16, 32)
KERNEL_PRESETS = ("torch-fbgemm", "torch-qnnpack", "torch-onednn", "torch-cudnn")
ENGINES = ("fbgemm", "qnnpack", "onednn")


def qconv2d(preset: str, rng: random.Random) -> Conv2d:
    """Draw parameters of test_qconv2d, _relu and their cuDNN counterparts, which are skipped there."""
    cudnn = preset == "torch-cudnn"
    channels = range(1, 33) if cudnn else CHANNELS
    c, k = rng.choice(channels), rng.choice(channels)
    h, w, r, s = rng.randint(10, 16), rng.randint(7, 14), rng.randint(1, 7), rng.randint(1, 7)
    pad = (rng.randint(0, 2), rng.randint(0, 2)) * 2
    stride = (rng.randint(1, 2), rng.randint(1, 2))
    dilation = 1 if cudnn else rng.randint(1, 2)
    groups = 1 if cudnn else rng.choice((1, 2, 3, rng.randint(1, 300)))
    h, w = max(h, (r - 1) * dilation + 1 - 2 * pad[0]), max(w, (s - 1) * dilation + 1 - 2 * pad[1])
    return _within_reach(preset, rng, (rng.randint(1, 3), h, w, c, k, r, s), stride, (dilation,) * 2, pad, groups)


def qconv1d(preset: str, rng: random.Random) -> Conv2d:
    """Draw parameters of test_qconv1d, _relu and their cuDNN counterparts: one row."""
    cudnn = preset == "torch-cudnn"
    channels = range(1, 33) if cudnn else CHANNELS
    c, k = rng.choice(channels), rng.choice(channels)
    w, s, pad = rng.randint(4, 16), rng.randint(1, 7), rng.randint(0, 2)
    dilation = 1 if cudnn else rng.randint(1, 2)
    groups = 1 if cudnn else rng.randint(1, 3)
    w = max(w, (s - 1) * dilation + 1 - 2 * pad)
    sizes = (rng.randint(1, 6), 1, w, c, k, 1, s)
    return _within_reach(preset, rng, sizes, (1, rng.randint(1, 2)), (1, dilation), (0, pad) * 2, groups)


def _within_reach(
    preset: str,
    rng: random.Random,
    sizes: tuple[int, ...],
    stride: tuple[int, int],
    dilation: tuple[int, ...],
    pad: tuple[int, ...],
    groups: int,
) -> Conv2d:
    """Reduce images, then groups, for problems that would take long on the CPU device."""
    n, h, w, c, k, r, s = sizes
    x_type = "int8" if preset == "torch-cudnn" else "uint8"
    zero_points = dict.fromkeys(("x_zero_point", "w_zero_point", "y_zero_point"), preset != "torch-cudnn")
    if preset == "torch-onednn":
        zero_points["w_zero_point"] = False
    quantization = Quantization.of(
        preset,
        x_type=x_type,
        out_type=x_type,
        per_channel=preset != "torch-cudnn" and rng.random() < 0.5,
        bias=rng.choice(("none", "float32")),
        activation=rng.choice(("none", "relu")),
        **zero_points,
    )
    while True:
        problem = Conv2d(
            n, h, w, c * groups, k * groups, r, s, stride, dilation, pad, groups, quantization=quantization
        )
        if problem.operations <= MOST_OPERATIONS or n == groups == 1:
            return problem
        n, groups = (1, groups) if n > 1 else (1, groups // 2)


def problems(preset: str, count: int, seed: int = 0) -> list[Conv2d]:
    rng = random.Random(f"{preset} {seed}")
    return [(qconv2d, qconv2d, qconv1d)[index % 3](preset, rng) for index in range(count)]


def check_kernels(preset: str, device: Device, count: int, seed: int) -> None:
    for index, problem in enumerate(problems(preset, count, seed)):
        check(generator.default(problem, device.target), device, index)


@pytest.mark.turns
@pytest.mark.parametrize("preset", KERNEL_PRESETS)
def test_the_kernels(preset: str) -> None:
    check_kernels(preset, open_device("cpu"), 6, seed=0)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("preset", KERNEL_PRESETS)
def test_more_kernels(preset: str, seed: int) -> None:
    check_kernels(preset, open_device("cpu"), 12, seed)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("preset", KERNEL_PRESETS)
def test_the_kernels_on_a_gpu(preset: str, seed: int, gpu: Device) -> None:
    check_kernels(preset, gpu, 12, seed)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    with chosen(request.param):
        yield request.param


@pytest.fixture
def narrow(engine: str) -> bool:
    return saturates()


def cases(engine: str, narrow: bool, count: int) -> Iterator[tuple[Conv2d, registry.Sample]]:
    for index, problem in enumerate(problems(f"torch-{engine}", count, seed=100)):
        drawn = registry.draw(problem, index)
        yield problem, narrowed(drawn) if narrow else drawn


@pytest.mark.turns
@pytest.mark.parametrize("scales", VARIANTS)
def test_the_engines(engine: str, narrow: bool, scales: str) -> None:
    compared = 0
    for index, (problem, drawn) in enumerate(cases(engine, narrow, 150)):
        drawn = VARIANTS[scales](problem, drawn, index)
        # With ties only the last step rounds, so the order of the operations does not matter.
        if engine == "onednn" and scales != "ties" and not is_compiled(problem):
            continue
        assert_same(infer(problem, drawn), expected(problem, drawn), f"{engine}: {problem}")
        compared += 1
    assert compared >= 75


def test_the_engine_has_the_instruction_set_of_the_contract() -> None:
    """The engine is an oracle only with this instruction set; oneDNN reports it at its first use."""
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[conformance]'")
    asks = "import torch; torch.nn.functional.relu(torch.ones(1, 16, 8, 8).to_mkldnn())"
    ran = subprocess.run(
        [sys.executable, "-c", asks],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "ONEDNN_VERBOSE": "1"},
    )
    (isa,) = re.findall(r"info,cpu,isa:(.*)", ran.stdout)
    assert "AVX2" in isa
