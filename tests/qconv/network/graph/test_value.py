"""A tensor on host or device, in either order of axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qconv.device import open_device
from qconv.device.cpu import CpuDevice
from qconv.network import Value

CPU = open_device("cpu")


@pytest.mark.parametrize("shape", [(2, 3, 2, 4, 5), (2, 3, 4, 5), (2, 3, 4, 1), (2, 3, 4), (2, 3), (3,), ()])
def test_every_view_is_of_the_same_tensor(shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.int8).reshape(shape)
    turned = np.moveaxis(x, 1, -1) if len(shape) > 1 else x
    lies_last = np.moveaxis(np.ascontiguousarray(turned), -1, 1) if len(shape) > 1 else x
    values = [Value(CPU, host=x), Value(CPU, there=x), Value(CPU, host=lies_last), Value(CPU, there=lies_last)]
    if len(shape) > 1:
        values.append(Value(CPU, channels_last=np.ascontiguousarray(turned)))
    for value in (*values, *(value.copied() for value in values)):
        assert value.shape == shape
        np.testing.assert_array_equal(value.on_host, x)
        np.testing.assert_array_equal(value.on_device, x)
        np.testing.assert_array_equal(value.channels_last, turned)
        assert value.channels_last.flags.c_contiguous
        assert value.channels_last is value.channels_last


def test_nothing_is_turned_between_two_layers_that_run_here() -> None:
    class Watched:
        """A device on which every copy is an error."""

        def contiguous(self, array: Any) -> Any:
            raise AssertionError("an array was copied")

        upload = download = contiguous

    y = np.zeros((1, 4, 4, 8), np.int8)
    assert Value(Watched(), channels_last=y).channels_last is y  # type: ignore[arg-type]


@pytest.mark.parametrize("side", ["host", "there"])
def test_channels_that_lie_last_stay_there(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing the order of axes back and forth would copy whole images."""
    turned = np.arange(2 * 4 * 5 * 3, dtype=np.int8).reshape(2, 4, 5, 3)
    value = Value(CPU, **{side: turned.transpose(0, 3, 1, 2)})
    monkeypatch.setattr(CpuDevice, "exchanged", None)
    assert value.is_channels_last
    assert value.copied().is_channels_last
    np.testing.assert_array_equal(value.array, turned)
    np.testing.assert_array_equal(value.channels_last, turned)
    if side == "there":
        assert address_of(value.channels_last) == address_of(turned)


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (3, 2, 1, 0), (0, 2, 1, 3), (0, 1, 3, 2)])
def test_other_orders_in_memory_are_no_order_of_channels(axes: tuple[int, ...]) -> None:
    x = np.arange(2 * 3 * 4 * 5, dtype=np.int8).reshape(2, 3, 4, 5).transpose(axes)
    for value in (Value(CPU, host=x), Value(CPU, there=x)):
        assert not value.is_channels_last
        np.testing.assert_array_equal(value.copied().on_host, x)


def address_of(array: Any) -> int:
    return int(array.ctypes.data)


@pytest.mark.parametrize("shape", [(3, 1, 4, 5), (3, 7, 1, 1), (1, 1, 9), (2, 6, 1)])
def test_one_channel_or_one_pixel_lies_the_same_in_both_orders(shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.int8).reshape(shape)
    there = Value(CPU, there=x)
    assert address_of(there.channels_last) == address_of(x)
    np.testing.assert_array_equal(there.channels_last, np.moveaxis(x, 1, -1))
    last = Value(CPU, channels_last=there.channels_last)
    assert address_of(last.on_device) == address_of(x)
    np.testing.assert_array_equal(last.on_device, x)
