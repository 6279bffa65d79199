"""Convolutions and matrix products of floats with constant weights on kernels that multiply narrow floats and add the
products up in fp32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from qconv.arithmetic.mode import Mode
from qconv.dtypes import ELEMENT_TYPES
from qconv.network.graph.reading import Array, Reading
from qconv.network.graph.served import Unserved
from qconv.network.graph.value import Shape
from qconv.network.layers.packed_convolution import PackedConvolution, as_images, window_of, with_one_per_output
from qconv.problem.convolution import Conv2d

# The types of a layer's tensors in the model.
REALS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, eq=False)
class FloatConvolution(PackedConvolution):
    """A convolution of floats. `added` is a tensor of the output's shape that is added before the activation. Floats of
    8 bits have scales among the parameters; with an `inner_scale`, the output is rounded before the sum as well."""

    added: str | None = None
    added_type: str = ""  # where it is not that of the input

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,) if self.added is None else (self.x, self.added)

    def problem(self, x_shape: Shape) -> Conv2d:
        problem = self.problem_of(x_shape, w_scale=self.parameters.get("w_scale", 1.0))
        if self.added is None:
            return problem
        mode = Mode(residual_add="dequantized") if "inner_scale" in self.parameters else problem.quantization.mode
        own = replace(problem.quantization, residual=self.added_type or self.x_type, mode=mode)
        return replace(problem, quantization=own)


@dataclass(frozen=True)
class FloatReader:
    """The inputs of a layer that is to multiply narrow floats: `dtype`, by weights of `w_dtype`."""

    kind: ClassVar[type[PackedConvolution]] = FloatConvolution
    reading: Reading
    dtype: str
    w_dtype: str

    def made(self, w: Array, bias: Array | None, attributes: Mapping[str, Any], axes: int) -> PackedConvolution:
        """Return the layer. `w` is KCRS or KCTRS."""
        layer = self.reading.layer
        given = {} if bias is None else {"bias": np.asarray(bias, np.float32)}
        return self.kind(
            layer, layer.inputs[0], layer.outputs[0], self.dtype, self._narrowed(w), self.dtype, given, attributes, axes
        )

    def matrix(self, w: Array, bias: Array | None = None) -> PackedConvolution:
        """Return a matrix product. `w` is KC."""
        return self.made(np.ascontiguousarray(w)[:, :, np.newaxis, np.newaxis], bias, {}, 0)

    def weights(self, ranks: tuple[int, ...]) -> Array:
        w = self.reading.constant(1, "w")
        if w.ndim not in ranks:
            raise Unserved(f"w has {w.ndim} dimensions; the kernels read {' or '.join(map(str, ranks))}")
        return w

    def _narrowed(self, w: Array) -> Array:
        kind = ELEMENT_TYPES[self.w_dtype]
        with np.errstate(over="ignore"):
            made = w.astype(kind.numpy)
        if not np.isfinite(made.astype(np.float32)).all():
            most = np.abs(w.astype(np.float32)).max()
            raise Unserved(f"its weights reach {most:g}, and {self.w_dtype} holds {kind.largest_finite:g}")
        return made


def _conv(reader: FloatReader) -> PackedConvolution:
    reading = reader.reading
    attributes, w = window_of(reading.layer), reader.weights((3, 4, 5))
    return reader.made(as_images(w), reading.optional(2, "bias"), attributes, w.ndim - 2)


def _gemm(reader: FloatReader) -> PackedConvolution:
    reading = reader.reading
    given = reading.layer.attributes
    if given.get("transA", 0) or given.get("alpha", 1.0) != 1.0:
        raise Unserved("transA or alpha is given, which the kernels do not have")
    w = reader.weights((2,))
    w = w if given.get("transB", 0) else w.T
    bias, beta = reading.optional(2, "bias"), np.float32(given.get("beta", 1.0))
    return reader.matrix(w, None if bias is None else beta * with_one_per_output(bias, len(w)).astype(np.float32))


def _matmul(reader: FloatReader) -> PackedConvolution:
    return reader.matrix(reader.weights((2,)).T)


READERS: Mapping[str, Callable[[FloatReader], PackedConvolution]] = {"Conv": _conv, "Gemm": _gemm, "MatMul": _matmul}


def note_of(dtype: str) -> str:
    """Return what reports say of a layer that multiplies this type."""
    return f"products of {dtype} with sums in fp32, in the order of the kernel's config, rounded once"


def check(made: PackedConvolution, x_shape: Shape) -> None:
    """Raise `Unserved` where no kernel serves an input of this shape."""
    try:
        made.problem(x_shape).checked(dict(made.parameters))
    except ValueError as error:
        raise Unserved(str(error)) from None
