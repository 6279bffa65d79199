"""QLinearConv and ConvInteger, with two axes or one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from qconv.device import Device
from qconv.instances.api import conv2d
from qconv.onnx.node import BYTES, Inputs, Node
from qconv.onnx.tensor import Held, Known, Unsupported

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


class _Convolution(Node):
    attributes = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    out_type: ClassVar[str | None] = None  # None: that of y_zero_point

    def check(self) -> tuple[Known, ...]:
        for name in ("x", "w"):
            rank = self.of(name).rank
            if rank is not None:
                self._check_rank(name, rank)
        pad = self._auto_pad
        if pad not in AUTO_PADS:
            raise Unsupported(f"{self.name} has auto_pad={pad!r}; supported are {', '.join(AUTO_PADS)}")
        if pad != "NOTSET" and any(self._given.get("pads", ())):
            raise Unsupported(f"{self.name} has auto_pad={pad!r} and pads={self._given['pads']}: ONNX allows one only")
        return (Known(self.out_type or self.of("y_zero_point").dtype, self.of("x").rank),)

    @property
    def _auto_pad(self) -> str:
        pad = self._given.get("auto_pad", b"NOTSET")
        return pad.decode() if isinstance(pad, bytes) else str(pad)

    def _check_rank(self, name: str, rank: int) -> None:
        if rank not in (3, 4):
            raise Unsupported(
                f"{self.name}: {name} has {rank} dimensions; supported are 4 (NCHW) and 3 (NCW): the kernels index two "
                "filter axes"
            )

    def convolve(self, values: dict[str, Held], device: Device, **parameters: Any) -> list[Any]:
        x, w = values["x"].on_device, values["w"].on_device
        for name, array in (("x", x), ("w", w)):
            self._check_rank(name, len(array.shape))
        if len(x.shape) != len(w.shape):
            raise ValueError(f"x has shape {tuple(x.shape)} and w {tuple(w.shape)}; they must have as many dimensions")
        sides = self._sides(x.shape[2:], w.shape[2:])
        y = conv2d(
            _two(x), _two(w), layout="nchw", mode="ort", groups=int(self._given.get("group", 1)), device=device.spec,
            out_type=self.results[0].dtype, **sides, **parameters,
        )  # fmt: skip
        return [y if len(x.shape) == 4 else y.reshape((*y.shape[:2], y.shape[3]))]

    def _sides(self, sizes: Sequence[int], filters: Sequence[int]) -> dict[str, Any]:
        """Stride, dilation and pad along h and w; what has one axis has it along w."""
        axes = len(sizes)
        kernel = tuple(self._given.get("kernel_shape", filters))
        if kernel != tuple(filters):
            raise ValueError(f"kernel_shape={kernel}, but w is {tuple(filters)} along these axes: make the two agree")
        stride, dilation = (tuple(self._given.get(name) or (1,) * axes) for name in ("strides", "dilations"))
        pads = tuple(self._given.get("pads") or (0,) * (2 * axes))
        for name, values, count in (("strides", stride, axes), ("dilations", dilation, axes), ("pads", pads, 2 * axes)):
            if len(values) != count:
                raise ValueError(f"{name}={values} with {axes} axes: it must have {count} numbers")
        begins, ends = pads[:axes], pads[axes:]
        if self._auto_pad.startswith("SAME"):
            begins, ends = self._same(sizes, filters, stride, dilation)
        lifted = (0,) * (2 - axes), (1,) * (2 - axes)
        return {
            "stride": (*lifted[1], *stride),
            "dilation": (*lifted[1], *dilation),
            "pad": (*lifted[0], *begins, *lifted[0], *ends),
        }

    def _same(self, *along: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """As many outputs as inputs, over the stride; an odd pixel of padding goes where the name says."""
        totals = [
            max((-(-size // stride) - 1) * stride + (filter_size - 1) * dilation + 1 - size, 0)
            for size, filter_size, stride, dilation in zip(*along, strict=True)
        ]
        less, more = tuple(total // 2 for total in totals), tuple(total - total // 2 for total in totals)
        return (less, more) if self._auto_pad == "SAME_UPPER" else (more, less)


class QLinearConv(_Convolution):
    takes: ClassVar[Inputs] = (
        ("x", BYTES),
        ("x_scale", ("float32",)),
        ("x_zero_point", "x"),
        ("w", BYTES),
        ("w_scale", ("float32",)),
        ("w_zero_point", "w"),
        ("y_scale", ("float32",)),
        ("y_zero_point", BYTES),
        ("bias", ("int32",)),
    )

    def compute(self, values: dict[str, Held], device: Device) -> list[Any]:
        names = ("x_scale", "x_zero_point", "w_scale", "w_zero_point", "y_scale", "y_zero_point")
        parameters = _parameters(values, names)
        bias = values["bias"].on_host if "bias" in values else None
        return self.convolve(values, device, bias=bias, **parameters)


class ConvInteger(_Convolution):
    takes: ClassVar[Inputs] = (("x", BYTES), ("w", BYTES), ("x_zero_point", "x"), ("w_zero_point", "w"))
    out_type = "int32"

    def compute(self, values: dict[str, Held], device: Device) -> list[Any]:
        return self.convolve(values, device, **_parameters(values, ("x_zero_point", "w_zero_point")))


def _parameters(values: dict[str, Held], names: Sequence[str]) -> dict[str, Any]:
    """Numbers where they are the same for every filter, so that they need no kernel of their own."""
    parameters = {}
    for name in names:
        if name in values:
            array = values[name].on_host
            counts = (1, values["w"].on_device.shape[0]) if name.startswith("w_") else (1,)
            same = array.size in counts and (array == array.flat[0]).all()
            parameters[name] = np.asarray(array.flat[0]) if same else array
    return parameters


def _two(array: Any) -> Any:
    """With two axes: one of them 1, where there is only one."""
    shape = array.shape
    return array if len(shape) == 4 else array.reshape((*shape[:2], 1, shape[2]))
