"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from qconv.device import Device
from qconv.instances.api.conversion import dequantize, quantize, quantize_dynamic
from qconv.onnx.node import REALS, SHORTS, Inputs, Node
from qconv.onnx.tensor import Held, Known, Unsupported, type_name


class _Linear(Node):
    def granularity(self, values: dict[str, Held]) -> dict[str, Any]:
        """Return the granularity that follows from the scale's shape: per tensor, per axis or blocked."""
        scale, zero = values["scale"].on_device, values.get("zero_point")
        if zero is not None and zero.on_device.size != scale.size:
            raise ValueError(
                f"zero_point has shape {tuple(zero.on_device.shape)} and scale {tuple(scale.shape)}; ONNX has one "
                "shape for both"
            )
        if scale.size == 1:
            return {}
        rank = len(values["x"].on_device.shape)
        # ONNX's default of 1 is out of range for a vector, which has only one axis.
        axis = 0 if rank == 1 and "axis" not in self._given else int(self._given.get("axis", 1))
        return {"axis": axis, "block": int(self._given.get("block_size", 0))}

    def zero_point(self, values: dict[str, Held]) -> Any:
        """Return the zero point, or None where all are 0: the kernel without one is cheaper and equivalent."""
        zero = values.get("zero_point")
        return None if zero is None or not zero.on_host.any() else zero.on_device

    def typed(self, name: str, allowed: Sequence[str]) -> str | None:
        """Return an attribute that names an element type. 0 counts as absent."""
        number = int(self._given.get(name, 0))
        if number and type_name(number) not in allowed:
            raise Unsupported(f"{self.name} has {name}={type_name(number)}; supported are {', '.join(allowed)}")
        return type_name(number) if number else None


class QuantizeLinear(_Linear):
    """Divides in the type of the scale, or in `precision`. `saturate` only concerns float8."""

    takes: ClassVar[Inputs] = (("x", REALS), ("scale", REALS), ("zero_point", SHORTS))
    attributes = ("axis", "block_size", "output_dtype", "precision", "saturate")

    def check(self) -> tuple[Known, ...]:
        x, zero = self.of("x"), self.known.get("zero_point")
        self._precision = self.typed("precision", REALS) or self.of("scale").dtype
        if self._precision not in ("float32", x.dtype):
            raise Unsupported(
                f"{self.name} divides {x.dtype} in {self._precision}; supported are float32 and the type of x: give a "
                "scale of that type, or precision=FLOAT"
            )
        asked = self.typed("output_dtype", SHORTS)
        if zero is not None and asked not in (None, zero.dtype):
            raise Unsupported(
                f"{self.name} has output_dtype={asked}, but zero_point is {zero.dtype}: ONNX has one type"
            )
        return (Known(zero.dtype if zero is not None else asked or "uint8", x.rank),)

    def compute(self, values: dict[str, Held], device: Device) -> list[Any]:
        scale = values["scale"].on_device.astype(self._precision)
        y = quantize(
            values["x"].on_device, scale, self.zero_point(values), out_type=self.results[0].dtype,
            precision=self._precision, device=device.spec, **self.granularity(values),
        )  # fmt: skip
        return [y]


class DequantizeLinear(_Linear):
    takes: ClassVar[Inputs] = (("x", (*SHORTS, "int32")), ("scale", REALS), ("zero_point", "x"))
    attributes = ("axis", "block_size", "output_dtype")

    def check(self) -> tuple[Known, ...]:
        return (Known(self.typed("output_dtype", REALS) or self.of("scale").dtype, self.of("x").rank),)

    def compute(self, values: dict[str, Held], device: Device) -> list[Any]:
        y = dequantize(
            values["x"].on_device, values["scale"].on_device, self.zero_point(values),
            out_type=self.results[0].dtype, device=device.spec, **self.granularity(values),
        )  # fmt: skip
        return [y]


class DynamicQuantizeLinear(Node):
    takes: ClassVar[Inputs] = (("x", ("float32",)),)

    def check(self) -> tuple[Known, ...]:
        return (Known("uint8", self.of("x").rank), Known("float32", 0), Known("uint8", 0))

    def compute(self, values: dict[str, Held], device: Device) -> list[Any]:
        y, scale, zero_point = quantize_dynamic(values["x"].on_device, mode="ort", device=device.spec)
        return [y, scale, zero_point.astype("uint8")]
