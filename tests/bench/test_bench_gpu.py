"""The real peers and the second oracle on the first GPU."""

from __future__ import annotations

from typing import Any

import pytest

from qconv import Conv2d, lookup
from qconv.device import Device, gpu_specs, open_device
from qconv.ops import registry
from qconv.tuner.measure.protocol import protocol_for
from qconv.tuner.measure.verification import mismatch

pytestmark = pytest.mark.gpu

DENSE = Conv2d(8, 28, 28, 128, 128, 3, 3, pad=1)
DEPTHWISE = Conv2d(8, 28, 28, 128, 128, 3, 3, pad=1, groups=128)


@pytest.fixture(scope="module")
def device() -> Device:
    if not gpu_specs():
        pytest.skip("no GPU here: CuPy is not installed, or it finds no driver or no device")
    return open_device(None)


def ready_for(problem: Conv2d, device: Device, name: str) -> Any:
    from peers import Case, prepare

    instance, drawn = lookup(problem, device.spec), registry.draw(problem, 1)
    assert mismatch(instance.executable, drawn) is None
    output = instance(*(device.upload(array) for array in drawn.arrays), **drawn.parameters)
    device.synchronize()
    return prepare([name], Case(problem, drawn, output, device, protocol_for(device)))


@pytest.mark.parametrize("problem", [DENSE, DEPTHWISE], ids=["dense", "depthwise"])
def test_cudnn_fp16_runs_everything(problem: Conv2d, device: Device) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    ready, missing = ready_for(problem, device, "cudnn_fp16")
    assert missing == {}
    assert all(1 < time_us < 1000 for time_us in ready["cudnn_fp16"].run(3))


def test_cudnn_int8_computes_what_we_do(device: Device) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("cudnn", reason="cudnn-frontend is not installed")
    ready, missing = ready_for(DENSE, device, "cudnn_int8")
    assert missing == {}
    facts = ready["cudnn_int8"].facts
    assert facts["equal"] > 0.99
    assert facts["plans"]["ran"] > 1
    assert all(1 < time_us < 1000 for time_us in ready["cudnn_int8"].run(3))


def test_cudnn_has_no_int8_depthwise(device: Device) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("cudnn", reason="cudnn-frontend is not installed")
    ready, missing = ready_for(DEPTHWISE, device, "cudnn_int8")
    assert ready == {}
    assert missing["cudnn_int8"]


@pytest.mark.parametrize("problem", [DENSE, DEPTHWISE], ids=["dense", "depthwise"])
def test_the_second_oracle_agrees_there(problem: Conv2d, device: Device) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from models import deployed, differing
    from workload import Layer

    layer = deployed(Layer("layer", None, problem, biased=True))
    assert differing(lookup(layer.problem, device.spec), registry.draw(layer.problem, 2)) is None
