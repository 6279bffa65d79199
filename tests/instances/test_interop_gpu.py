"""Other libraries' arrays and streams on a GPU, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qconv
from qconv.device import Device, open_device
from qconv.instances.load.instance import Instance
from qconv.ops import convolution, registry

pytestmark = pytest.mark.gpu

QUANTIZATION = qconv.Quantization(per_channel=True, x_zero_point=True, bias="int32")
PROBLEM = qconv.Conv2d(2, 9, 9, 16, 24, 3, 3, pad=(1, 1, 1, 1), quantization=QUANTIZATION)
DRAWN = registry.draw(PROBLEM, 3)
WANT = convolution.conv2d(PROBLEM, *DRAWN.arrays, PROBLEM.checked(DRAWN.parameters))


@pytest.fixture(scope="module")
def instance(gpu: Device) -> Instance:
    return qconv.lookup(PROBLEM, gpu.spec)


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def test_torch_tensors_on_a_torch_stream(instance: Instance, torch: Any) -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x, w = torch.from_numpy(DRAWN.arrays[0]).cuda(), torch.from_numpy(DRAWN.arrays[1]).cuda()
        out = torch.full(PROBLEM.y_shape, 77, dtype=torch.int8, device="cuda")
        returned = instance(x, w, out=out, stream=stream, **DRAWN.parameters)
    stream.synchronize()
    assert returned is out
    assert np.array_equal(out.cpu().numpy(), WANT)


def test_the_one_liner_runs_where_the_arrays_are(instance: Instance, torch: Any) -> None:
    x, w = torch.from_numpy(DRAWN.arrays[0]).cuda(), torch.from_numpy(DRAWN.arrays[1]).cuda()
    parameters = DRAWN.parameters | {"x_zero_point": int(DRAWN.parameters["x_zero_point"])}
    y = qconv.conv2d(x, w, pad=1, **parameters)
    assert type(y) is torch.Tensor
    assert y.is_cuda
    assert np.array_equal(instance.device.download(y), WANT)


def test_parameters_may_lie_on_the_gpu(instance: Instance) -> None:
    upload = instance.device.upload
    parameters = {
        name: upload(value) if isinstance(value, np.ndarray) else value for name, value in DRAWN.parameters.items()
    }
    y = instance(*map(upload, DRAWN.arrays), **parameters)
    assert np.array_equal(instance.device.download(y), WANT)


def test_refolded_after_new_weights(instance: Instance) -> None:
    x, w = instance.device.upload(DRAWN.arrays[0]), instance.device.upload(DRAWN.arrays[1])
    bound = instance.bind(x, w, **DRAWN.parameters)
    other = registry.draw(PROBLEM, 4).arrays[1]
    w.set(other)
    bound.refold()
    want = convolution.conv2d(PROBLEM, DRAWN.arrays[0], other, PROBLEM.checked(DRAWN.parameters))
    assert np.array_equal(instance.device.download(bound()), want)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda x, torch: DRAWN.arrays[0], "host memory"),
        (lambda x, torch: torch.from_numpy(DRAWN.arrays[0]), "cannot be used on"),
        (lambda x, torch: x.float(), "this problem takes int8"),
        (lambda x, torch: x[:1], "has shape"),
        (lambda x, torch: x.transpose(1, 2).contiguous().transpose(1, 2), "not contiguous"),
        (lambda x, torch: torch.empty(x.numel() + 1, dtype=x.dtype, device="cuda")[1:].view(x.shape), "alignment"),
    ],
)
def test_wrong_arrays_are_refused(instance: Instance, torch: Any, spoil: Any, says: str) -> None:
    x, w = torch.from_numpy(DRAWN.arrays[0]).cuda(), torch.from_numpy(DRAWN.arrays[1]).cuda()
    with pytest.raises(ValueError, match=says):
        instance(spoil(x, torch), w, **DRAWN.parameters)


def test_a_device_that_is_not_there(instance: Instance) -> None:
    with pytest.raises(qconv.DeviceError, match="does not exist here"):
        open_device("cuda:99")


def test_a_stream_that_is_none(instance: Instance) -> None:
    upload = instance.device.upload
    with pytest.raises(ValueError, match="is not a stream"):
        instance(*map(upload, DRAWN.arrays), stream="default", **DRAWN.parameters)
