"""Two quantized tensors, element by element: their sum and their product, as ONNX Runtime's QLinearAdd and QLinearMul.

The second may be smaller: `a` is seen as (outer, repeat, inner), and `b` as (outer, inner), which every one of `repeat`
rows meets. So a tensor of the same shape has repeat=1, a number has outer=inner=1, one number a channel of NHWC has
outer=1, and one a channel and image (squeeze-and-excite) outer=n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from qconv.op import FULL, LARGEST, WIDEST, Tensor, alignment, check_choice
from qconv.parameter import MOST_OF_ADD, check_ratio
from qconv.tensor_ops.problem import ACTIVATIONS, Parameters, TensorOp

# What ONNX Runtime computes fits an int32 up to this, for any bytes; beyond, its conversion gives the wrong end.
MOST_OF_MUL = 2.0**14


@dataclass(frozen=True)
class BinaryParameters(Parameters):
    a_scale: Any = 1.0
    b_scale: Any = 1.0
    y_scale: Any = 1.0
    a_zero_point: Any = 0
    b_zero_point: Any = 0
    y_zero_point: Any = 0


class View(NamedTuple):
    outer: int
    repeat: int
    inner: int


def view_of(a_shape: Sequence[int], b_shape: Sequence[int]) -> View:
    """How `b` is broadcast over `a`, by NumPy's rule. Only axes that are neighbours may be repeated."""
    padded = (1,) * (len(a_shape) - len(b_shape)) + tuple(b_shape)
    fits = len(padded) == len(a_shape) and all(b in (1, a) for a, b in zip(a_shape, padded, strict=True))
    if not fits:
        raise ValueError(f"b has shape {tuple(b_shape)}, which does not broadcast to that of a, {tuple(a_shape)}")
    if 0 in a_shape:
        raise ValueError(f"a has shape {tuple(a_shape)} and so no element: there is nothing to compute")
    runs: list[tuple[bool, int]] = []  # whether b is repeated along these axes, and their extent
    for a, b in zip(a_shape, padded, strict=True):
        if a == 1:
            continue
        if runs and runs[-1][0] == (b == 1):
            runs[-1] = (b == 1, runs[-1][1] * a)
        else:
            runs.append((b == 1, a))
    repeated = [at for at, (is_repeated, _) in enumerate(runs) if is_repeated]
    if len(repeated) > 1:
        raise ValueError(
            f"b of shape {tuple(b_shape)} is repeated along axes of a, {tuple(a_shape)}, that are no neighbours: put "
            "the channels last (NHWC), or compute image by image"
        )
    if not repeated:
        return View(1, 1, runs[0][1] if runs else 1)
    (at,) = repeated
    return View(runs[0][1] if at else 1, runs[at][1], runs[-1][1] if at < len(runs) - 1 else 1)


# What the name of a tensor's number begins with when the two change places.
TURNED = {"a": "b", "b": "a", "y": "y"}


def turned(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The scales and zero points of two tensors that change places."""
    return {f"{TURNED[name[0]]}{name[1:]}": value for name, value in numbers.items()}


def begins_with_first(a_shape: Sequence[int], b_shape: Sequence[int]) -> bool:
    """Whether ONNX Runtime begins the sum of tensors of these shapes with the first: it does if that is one number
    along the last axis on which not both have an extent of 1, and begins with the second otherwise."""
    pairs = list(zip(reversed(a_shape), reversed(b_shape), strict=False))
    first = next((pair for pair in pairs if pair != (1, 1)), (1, 1))
    return first[0] == 1 if pairs else not a_shape


@dataclass(frozen=True, eq=False)
class Binary(TensorOp):
    outer: int
    repeat: int
    inner: int
    a_type: str = "int8"
    b_type: str = "int8"
    out_type: str = "int8"
    activation: str = "none"
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    numbers: ClassVar[tuple[str, ...]] = ("outer", "repeat", "inner")
    types: ClassVar[tuple[str, ...]] = ("a_type", "b_type", "out_type")

    def __post_init__(self) -> None:
        self._check_fields()
        check_choice("activation", self.activation, ACTIVATIONS)
        if self.elements > LARGEST:
            raise ValueError(f"a has {self.elements} elements; at most {LARGEST} are supported: split outer")
        if self.repeat == 1:
            object.__setattr__(self, "inner", self.outer * self.inner)
            object.__setattr__(self, "outer", 1)
        self._name_by_fields()

    @property
    def elements(self) -> int:
        return self.outer * self.repeat * self.inner

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        a_shape = (self.outer, self.repeat, self.inner)
        return (Tensor("a", a_shape, self.a_type), Tensor("b", (self.outer, self.inner), self.b_type))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", (self.outer, self.repeat, self.inner), self.out_type),)

    @property
    def extents(self) -> dict[str, int]:
        """A device that is full does not care how much more there is."""
        return {"elements": min(self.elements, FULL)}

    @property
    def kinds(self) -> tuple[object, ...]:
        return (self.activation, self.a_type, self.b_type, self.out_type)

    @property
    def shape_class(self) -> tuple[object, ...]:
        """How wide the loads of each are."""
        return (self.repeat == 1, self.inner == 1, alignment(self.inner, WIDEST), alignment(self.repeat, WIDEST))

    @classmethod
    def of(cls, a_shape: Sequence[int], b_shape: Sequence[int], **spec: Any) -> Self:
        """The problem of two arrays, the second of which is broadcast to the shape of the first."""
        return cls(*view_of(a_shape, b_shape), **spec)

    @property
    def zero_points(self) -> dict[str, str]:
        """The type that each is a zero of."""
        return {"a_zero_point": self.a_type, "b_zero_point": self.b_type, "y_zero_point": self.out_type}

    def _numbers(self, given: dict[str, Any]) -> BinaryParameters:
        return BinaryParameters.of(given, self.zero_points)


@dataclass(frozen=True, eq=False)
class Add(Binary):
    """`added_first` names the tensor whose product is added to the offset first, which decides some last bits. ONNX
    Runtime begins with its second input, or with the one that is a single number along the last axis."""

    op: ClassVar[str] = "add"

    added_first: str = "b"

    def __post_init__(self) -> None:
        check_choice("added_first", self.added_first, ("b", "a"))
        super().__post_init__()

    @property
    def kinds(self) -> tuple[object, ...]:
        return (*super().kinds, self.added_first)

    def checked(self, parameters: dict[str, Any]) -> BinaryParameters:
        numbers = self._numbers(parameters)
        for name in ("a_scale", "b_scale"):
            with np.errstate(all="ignore"):
                ratio = getattr(numbers, name) / numbers.y_scale
            check_ratio(f"{name} / y_scale", ratio, MOST_OF_ADD)
        return numbers


@dataclass(frozen=True, eq=False)
class Mul(Binary):
    op: ClassVar[str] = "mul"

    def checked(self, parameters: dict[str, Any]) -> BinaryParameters:
        numbers = self._numbers(parameters)
        with np.errstate(all="ignore"):
            ratio = numbers.a_scale * numbers.b_scale / numbers.y_scale
        check_ratio("a_scale * b_scale / y_scale", ratio, MOST_OF_MUL)
        return numbers
