"""An output that overlaps an input is refused, unless its plan allows it to be written there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qconv
from qconv import Conv2d, PooledConv2d, generator
from qconv.conversion import Dynamic
from qconv.device import open_device
from qconv.instances.load.pair import load
from qconv.problem.chain import chain_of


def whole(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).integers(-128, 128, shape, dtype=np.int8)


def shifted(x: Any, y: Any) -> Any:
    """Return a residual that begins half of its size after the output."""
    return qconv.conv2d(x[:, :2], W, residual=y[1:], residual_scale=1.0, out=y.reshape(-1)[64:192].reshape(1, 2, 4, 16))


def wider(x: Any, y: Any) -> Any:
    """Return an output of four bytes per byte of the residual, beginning at its address."""
    residual = np.resize(y, (4, *SHAPE))
    out = residual.view(np.float32).reshape(SHAPE)
    return qconv.conv2d(x, W, residual=residual[0], residual_scale=1.0, out_type="float32", out=out)


def by_a_byte(x: Any, is_behind: bool) -> Any:
    """Return an output whose first byte is the input's last, or the reverse. The extents are odd, the address is
    arbitrary."""
    small = (1, 3, 3, 5)
    before, behind = x.reshape(-1)[:45].reshape(small), x.reshape(-1)[44:89].reshape(small)
    return qconv.max_pool(before, 1, out=behind) if is_behind else qconv.max_pool(behind, 1, out=before)


SHAPE = (1, 4, 4, 16)
W = whole((16, 1, 1, 16), 2)
# Each is called with an array and another of the same shape; the output overlaps one of them, or neither.
REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "conv2d": (lambda x, y: qconv.conv2d(x, W, out=x), "out shares memory with x"),
    "conv1d": (lambda x, y: qconv.conv1d(x[0], W[:, 0], out=x[0]), "out shares memory with x"),
    "a shifted residual": (
        lambda x, y: shifted(x, y.reshape(2, 2, 4, 16)),
        "out shares memory with residual.*or residual itself as a whole",
    ),
    "a residual of narrower elements": (wider, "out shares memory with residual"),
    "the input's last byte": (lambda x, y: by_a_byte(x, True), "out shares memory with x"),
    "the input's first byte": (lambda x, y: by_a_byte(x, False), "out shares memory with x"),
    "weights": (lambda x, y: qconv.conv2d(y, x.reshape(16, 1, 1, 16), out=x), "out shares memory with w"),
    "two convolutions": (lambda x, y: qconv.conv2d_conv2d(x, W, W, out=x), "out shares memory with x"),
    "a pool behind": (lambda x, y: qconv.conv2d_pool(x, W, 1, out=x), "out shares memory with x"),
    "max_pool": (lambda x, y: qconv.max_pool(x, 1, out=x), "out shares memory with x"),
    "channel_shuffle": (lambda x, y: qconv.channel_shuffle(x, 2, out=x), "out shares memory with x"),
    "concat": (lambda x, y: qconv.concat([x[:, :2], y[:, :2]], 1, out=x), "out shares memory with x0"),
    "requantize": (lambda x, y: qconv.requantize(x, 1.0, 2.0, out=x), "out shares memory with x"),
    "a shifted sum": (
        lambda x, y: qconv.add(x.reshape(-1)[64:], y.reshape(-1)[64:], out=x.reshape(-1)[:-64]),
        "out shares memory with a.*give an array of its own, or a or b itself as a whole",
    ),
    "what is repeated": (lambda x, y: qconv.add(x, x[0, 0, 0], out=x), "out shares memory with b.*or a itself as a"),
    "a shifted table": (
        lambda x, y: qconv.unary(x.reshape(-1)[:-16], "relu", out=x.reshape(-1)[16:]),
        "out shares memory with x",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_output_over_what_is_read_is_refused(name: str) -> None:
    call, says = REFUSED[name]
    x, y = whole(SHAPE, 1), whole(SHAPE, 3)
    before = x.copy()
    with pytest.raises(ValueError, match=says):
        call(x, y)
    assert np.array_equal(x, before)


def test_elementwise_kernels_write_over_either_of_their_inputs() -> None:
    a, b = whole(SHAPE, 1), whole(SHAPE, 2)
    for function in (qconv.add, qconv.mul):
        want = function(a, b, y_scale=2.0)
        for at in (0, 1):
            given = [a.copy(), b.copy()]
            assert function(*given, y_scale=2.0, out=given[at]) is given[at]
            assert np.array_equal(given[at], want)
    twice = a.copy()
    want = qconv.add(a, a, y_scale=2.0)
    assert np.array_equal(qconv.add(twice, twice, y_scale=2.0, out=twice), want)
    negated = qconv.unary(a, np.negative)
    assert np.array_equal(qconv.unary(twice := a.copy(), np.negative, out=twice), negated)


def test_a_residual_is_written_over() -> None:
    x, residual = whole(SHAPE, 1), whole(SHAPE, 3)
    given: dict[str, Any] = {"y_scale": 64.0, "residual_scale": 32.0}
    want = qconv.conv2d(x, W, residual=residual, **given)
    assert qconv.conv2d(x, W, residual=(out := residual.copy()), out=out, **given) is out
    assert np.array_equal(out, want)
    want = qconv.conv2d_conv2d(x, W, W, residual=residual, mid_scale=64.0, **given)
    qconv.conv2d_conv2d(x, W, W, residual=(out := residual.copy()), out=out, mid_scale=64.0, **given)
    assert np.array_equal(out, want)


def test_what_lies_beside_is_not_shared() -> None:
    both = np.concatenate([whole(SHAPE, 1), whole(SHAPE, 2)])
    x, out = both[:1], both[1:]
    want = qconv.conv2d(x, W)
    assert np.array_equal(qconv.conv2d(x, W, out=out), want)
    assert np.array_equal(qconv.conv2d(out, W, out=x), qconv.conv2d(want, W))


class Foreign:
    """An array of a library that supports nothing but DLPack."""

    def __init__(self, array: Any) -> None:
        self._array, self.shape, self.dtype = array, array.shape, array.dtype

    def __dlpack__(self, **asked: Any) -> Any:
        return self._array.__dlpack__(**asked)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def test_arrays_of_two_libraries_may_be_one() -> None:
    x = whole(SHAPE, 1)
    with pytest.raises(ValueError, match="out shares memory with x"):
        qconv.max_pool(Foreign(x), 1, out=x)  # type: ignore[call-overload]


def test_what_is_bound_again_is_asked_again() -> None:
    problem = Conv2d(*SHAPE, 16, 1, 1)
    x = whole(SHAPE, 1)
    packed = qconv.lookup(problem, "cpu").pack(W)
    packed.bind(x, out=np.empty_like(x))
    with pytest.raises(ValueError, match="out shares memory with x"):
        packed.bind(x, out=x)


def test_an_output_over_another_is_refused() -> None:
    problem = Dynamic(1, 64, 1)
    scale = np.empty(64, np.float32)
    outs = (np.empty((1, 64, 1), np.int8), scale, scale.view(np.int32))
    with pytest.raises(ValueError, match=r"out\[2\] shares memory with scale"):
        qconv.lookup(problem, "cpu")(np.ones((1, 64, 1), np.float32), out=outs)


@pytest.mark.parametrize("over", ["x", "w1", "w"])
def test_two_kernels_in_turn_refuse_what_one_kernel_refuses(over: str) -> None:
    """The second kernel reads neither `x` nor the weights of the first."""
    device, one = open_device("cpu"), Conv2d(1, 16, 1, 16, 16, 1, 1)
    problem = PooledConv2d.over(one, window=1) if over == "w" else chain_of([one, one])
    pair = load(generator.unfused_plan(problem, device.target), device)
    arrays = {tensor.name: whole(tensor.shape, 1) for tensor in problem.inputs}
    out = arrays[over].reshape(problem.outputs[0].shape)
    with pytest.raises(ValueError, match=f"out shares memory with {over}:"):
        pair(*arrays.values(), out=out)
