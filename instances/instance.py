"""A kernel chosen for a problem, ready to launch."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qconv.device import Device, Kernel
from qconv.device.cache import Binary
from qconv.generator import Plan
from qconv.problem import Conv2d
from qconv.quantization import Parameters


class Bound:
    """An instance with its arrays: calling it is one launch, and writes `y`.

    The parameters and what was folded from the weights are as they were when it was made; `refold()` after writing new
    weights into the same array.
    """

    __slots__ = ("_fold", "_kept", "launch", "y")

    def __init__(
        self,
        y: Any,
        launch: Callable[[Any], None],
        fold: Callable[[Any], None] | None,
        kept: tuple[object, ...],
    ) -> None:
        self.y = y
        self.launch = launch
        self._fold = fold
        self._kept = kept

    def __call__(self, stream: Any = None) -> Any:
        self.launch(stream)
        return self.y

    def refold(self, stream: Any = None) -> None:
        if self._fold is not None:
            self._fold(stream)


@dataclass(frozen=True, eq=False)
class Instance:
    plan: Plan
    binary: Binary
    kernel: Kernel
    device: Device
    origin: str  # exact, nearest, default: where the config comes from
    reason: str  # the same in words

    @property
    def problem(self) -> Conv2d:
        return self.plan.problem

    def bind(self, x: Any, w: Any, *, out: Any = None, **parameters: Any) -> Bound:
        """Check everything once and pack the arguments; the result launches with nothing left to do."""
        bound = self._bind(x, w, out, parameters, None)
        # What was uploaded and folded must be there for launches on any stream.
        self.device.synchronize()
        return bound

    def __call__(self, x: Any, w: Any, *, out: Any = None, stream: Any = None, **parameters: Any) -> Any:
        """One convolution on the caller's stream (by default the current one); returns the output array."""
        with self.device.on(stream):
            return self._bind(x, w, out, parameters, stream)(stream)

    def _bind(self, x: Any, w: Any, out: Any, parameters: dict[str, Any], stream: Any) -> Bound:
        problem, q = self.problem, self.problem.quantization
        on_host = {name: self.device.download(value) for name, value in parameters.items()}
        try:
            values = Parameters(**on_host).checked(q, problem.k)
        except TypeError as error:
            raise ValueError(f"{error}; the parameters are {', '.join(Parameters.__dataclass_fields__)}") from None
        if out is None:
            out = self.device.empty(problem.y_shape, q.out_type)
        arrays = {
            "x": self._array("x", x, problem.x_shape, q.x_type),
            "w": self._array("w", w, problem.w_shape, q.w_type),
            "y": self._array("out", out, problem.y_shape, q.out_type),
        }
        packed, kept = self._pack(values, {name: address for name, (_, address) in arrays.items()})
        launch = self.kernel.bind(self.plan.main, packed)
        fold = self.kernel.bind(self.plan.fold, packed) if self.plan.fold is not None else None
        if fold is not None:
            fold(stream)
        return Bound(out, launch, fold, (*kept, *arrays.values()))

    def _array(self, name: str, array: Any, shape: tuple[int, ...], dtype: str) -> tuple[Any, int]:
        array, address = self.device.adopt(name, array)
        if str(array.dtype) != dtype:
            raise ValueError(
                f"{name} has type {array.dtype}; this problem takes {dtype}: convert it or ask for its type"
            )
        if tuple(array.shape) != shape:
            raise ValueError(f"{name} has shape {tuple(array.shape)}; this problem takes {shape}")
        if not array.flags.c_contiguous:
            raise ValueError(f"{name} is not contiguous in the layout {shape}: copy it with ascontiguousarray")
        alignment = self.plan.alignment["y" if name == "out" else name]
        if address % alignment:
            raise ValueError(
                f"{name} lies at address {address:#x}; this kernel needs {alignment}-byte alignment: copy it"
            )
        return array, address

    def _pack(self, values: Parameters, addresses: dict[str, int]) -> tuple[bytes, list[Any]]:
        """The argument struct, and the device arrays it points at."""
        pieces: list[bytes] = []
        kept: list[Any] = []
        for field in self.plan.fields:
            if field.role in addresses:
                pieces.append(struct.pack("Q", addresses[field.role]))
            elif not field.is_pointer:
                pieces.append(field.value(self.problem, values))
            else:
                if field.argument is None:
                    array = self.device.empty((self.problem.k,), "int32")
                else:
                    content = np.frombuffer(field.value(self.problem, values), field.argument.dtype)
                    array = self.device.upload(content)
                kept.append(array)
                pieces.append(struct.pack("Q", self.device.adopt(field.name, array)[1]))
        return b"".join(pieces).ljust(self.plan.argument_bytes, b"\0"), kept
