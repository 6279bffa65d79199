"""QLinearConv and ConvInteger, with two axes or one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from qconv.device import Device
from qconv.instances.api.convolution import conv2d
from qconv.network.graph.reading import one_where_same
from qconv.network.layers.window import check_auto_pad, sides
from qconv.onnx.node import BYTES, Inputs, Node
from qconv.onnx.tensor import Held, Known, Unsupported


class _Convolution(Node):
    attributes = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    out_type: ClassVar[str | None] = None  # None: the type of y_zero_point

    def check(self) -> tuple[Known, ...]:
        for name in ("x", "w"):
            rank = self.of(name).rank
            if rank is not None:
                self._check_rank(name, rank)
        try:
            check_auto_pad(self._given)
        except ValueError as error:
            raise Unsupported(f"{self.name} has {error}") from None
        return (Known(self.out_type or self.of("y_zero_point").dtype, self.of("x").rank),)

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
        window = sides(self._given, x.shape[2:], w.shape[2:])
        y = conv2d(
            _two(x), _two(w), layout="nchw", mode="ort", groups=int(self._given.get("group", 1)), device=device.spec,
            out_type=self.results[0].dtype, **window, **parameters,
        )  # fmt: skip
        return [y if len(x.shape) == 4 else y.reshape((*y.shape[:2], y.shape[3]))]


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
    """Return the parameters. Equal values per filter become one number, which needs no kernel of its own."""
    parameters = {}
    for name in names:
        if name in values:
            array = values[name].on_host
            counts = (1, values["w"].on_device.shape[0]) if name.startswith("w_") else (1,)
            parameters[name] = one_where_same(array) if array.size in counts else array
    return parameters


def _two(array: Any) -> Any:
    """Return the array with two spatial axes: a single one gets a leading axis of extent 1."""
    shape = array.shape
    return array if len(shape) == 4 else array.reshape((*shape[:2], 1, shape[2]))
