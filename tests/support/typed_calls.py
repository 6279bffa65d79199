"""Calls of the package as type checkers see them: `tests/repository/test_types.py` checks this file; it is never run.

Lines that end with "refused" must be refused, and no others.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import qconv
from qconv import generator


class Tensor:
    """Another library's tensor, such as PyTorch's."""

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    def __dlpack__(self, *, stream: Any = None) -> Any: ...

    def backward(self) -> None: ...


def arrays_come_out_as_they_went_in(
    x: NDArray[np.int8], w: NDArray[np.int8], t: Tensor, f: NDArray[np.float32]
) -> None:
    assert_type(qconv.conv2d(x, w, pad=1, x_scale=0.02, bias=np.zeros(4, np.int32)), NDArray[Any])
    assert_type(qconv.conv2d(t, t, pad=(1, 1, 1, 1), w_scale=[0.1, 0.2]), Tensor)
    assert_type(qconv.conv1d(t, t, pad=1), Tensor)
    assert_type(qconv.conv2d_conv2d(t, t, t, first={"pad": 1}), Tensor)
    assert_type(qconv.conv2d_pool(t, t, window=3, window_stride=2, window_pad=(1, 1, 1, 1), pad=3), Tensor)
    assert_type(qconv.quantize(f, 0.1), NDArray[Any])
    assert_type(qconv.dequantize(t, t, axis=1), Tensor)
    assert_type(qconv.requantize(t, 0.1, 0.2), Tensor)
    assert_type(qconv.choose_qparams(t), tuple[Tensor, Tensor])
    assert_type(qconv.quantize_dynamic(f), tuple[NDArray[Any], NDArray[Any], NDArray[Any]])
    assert_type(qconv.add(t, t), Tensor)
    assert_type(qconv.mul(x, w), NDArray[Any])
    assert_type(qconv.unary(t, "sigmoid"), Tensor)
    assert_type(qconv.apply_table(t, t), Tensor)
    assert_type(qconv.concat([t, t], axis=1), Tensor)
    assert_type(qconv.concat([x, w]), NDArray[np.int8])
    assert_type(qconv.max_pool(t, 2, stride=2), Tensor)
    assert_type(qconv.average_pool(t, (2, 2)), Tensor)
    assert_type(qconv.global_average_pool(x), NDArray[Any])
    assert_type(qconv.argmax(t, 1, keepdims=True), Tensor)
    assert_type(qconv.channel_shuffle(x, 2), NDArray[Any])
    qconv.conv2d(x, w).backward()  # refused
    qconv.conv2d(x, w, pad="same")  # refused
    qconv.conv2d(x, w, x_scale="0.02")  # refused
    qconv.conv2d([[1]], w)  # refused
    qconv.conv2d(t, t, padding=1)  # refused
    qconv.conv2d_pool(t, t)  # refused


def what_is_not_known_stays_so(cupy_array: Any, x: NDArray[np.int8]) -> None:
    assert_type(qconv.conv2d(cupy_array, cupy_array, pad=1), Any)
    assert_type(qconv.choose_qparams(cupy_array), Any)
    assert_type(qconv.concat([cupy_array, cupy_array]), Any)
    qconv.conv2d(cupy_array, cupy_array).get()
    qconv.conv2d(x, cupy_array).get()  # refused


def problems_are_typed() -> None:
    problem = qconv.Conv2d(1, 14, 14, 64, 64, 3, 3, pad=1, stride=(2, 2), quantization=qconv.Quantization(bias="int32"))
    assert_type(problem.pad, tuple[int, int, int, int])
    assert_type(problem.key, str)
    qconv.Conv2d(1, 14, 14, 64, 64, 3, 3, pad="same")  # refused
    qconv.Conv2d(1, 14, 14, 64, 64, 3, 3, pad=(1, 1, 1))  # refused
    qconv.FusedConv2d(problem, 7)  # refused
    pooled = qconv.PooledConv2d(1, 224, 224, 3, 64, 7, 7, stride=2, pad=3, window=3, window_stride=2, window_pad=1)
    assert_type(pooled.first, qconv.Conv2d)
    assert_type(qconv.PooledConv2d.over(problem, window=(2, 2), window_stride=2), qconv.PooledConv2d)
    qconv.PooledConv2d(1, 14, 14, 64, 64, 3, 3, window="all")  # refused


def the_rest_is_functions(problem: qconv.Conv2d, watch: Callable[[int, int], None]) -> None:
    instance = qconv.lookup(problem, "cpu")
    assert_type(instance, qconv.Instance)
    assert_type(qconv.lookup("conv2d:n=1", "cpu"), qconv.Instance)
    assert_type(instance.reason, str)
    assert_type(qconv.tune([problem, "conv2d:n=1"], 24, device="cuda:0")[0], qconv.Result)
    assert_type(qconv.tune(Path("model.onnx"), qconv.Budget(seconds=60.0))[0].tuned_us, float | None)
    assert_type(qconv.bench(problem).time_us, float)
    assert_type(qconv.export([problem], "kernels", form="library", targets=["sm_80"], watch=watch), qconv.Export)
    assert_type(qconv.__version__, str)
    assert_type(generator.render(instance.plan).text, str)  # in a folder that a link leads to
    qconv.lookup(14)  # refused
    qconv.tune(problem, budget="long")  # refused
    _ = qconv.bench(problem).time_ms  # refused
    qconv.export([problem], "kernels", form="wheel")  # refused
    _ = qconv.conv3d  # refused
