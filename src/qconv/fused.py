"""Two convolutions of which the second takes what the first gives. What lies between them is requantized as the first
one's specification says, and need not exist in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from qconv.op import Problem, Tensor
from qconv.problem import Conv2d
from qconv.quantization import X_TYPES, Parameters

BETWEEN = "+"  # the keys of the two

# What both have.
OF_EACH = ("w_scale", "w_zero_point", "bias", "slope", "low", "high")
# What each of the two takes of a call's parameters, by its own name for it. The scale and the zero point of what lies
# between them are the output's of one and the input's of the other.
NAMES = {
    "first": {
        "x_scale": "x_scale",
        "x_zero_point": "x_zero_point",
        "y_scale": "mid_scale",
        "y_zero_point": "mid_zero_point",
        **{name: f"first_{name}" for name in OF_EACH},
    },
    "second": {
        "x_scale": "mid_scale",
        "x_zero_point": "mid_zero_point",
        **{name: name for name in ("y_scale", "y_zero_point", "residual_scale", "residual_zero_point")},
        **{name: f"second_{name}" for name in OF_EACH},
    },
}


@dataclass(frozen=True)
class FusedParameters:
    first: Parameters
    second: Parameters


@dataclass(frozen=True, eq=False)
class FusedConv2d(Problem):
    """`second` of `first` of x. NHWC; the weights are `w1` and `w2`, and a residual is the second's."""

    op: ClassVar[str] = "conv2d_conv2d"
    first: Conv2d
    second: Conv2d
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            problem = getattr(self, name)
            if not isinstance(problem, Conv2d):
                raise ValueError(f"{name}={problem!r} must be a qconv.Conv2d")
            if problem.layout != "nhwc":
                raise ValueError(f"{name} has layout={problem.layout}: two convolutions in one take and give nhwc")
        self._check_chain()
        self._name(f"{self.first}{BETWEEN}{self.second}")

    def _check_chain(self) -> None:
        first, second = self.first, self.second
        if first.y_shape != second.x_shape:
            raise ValueError(
                f"the second takes {second.x_shape}, but the first gives {first.y_shape} (N, H, W, channels): make "
                "them equal"
            )
        given, taken = first.quantization, second.quantization
        if given.out_type not in X_TYPES:
            raise ValueError(
                f"the first gives {given.out_type}: the second multiplies {' or '.join(X_TYPES)}, so requantize to one"
            )
        if given.out_type != taken.x_type:
            raise ValueError(f"the first gives {given.out_type}, but the second has x_type={taken.x_type}")
        if given.y_zero_point != taken.x_zero_point:
            raise ValueError(
                f"y_zero_point={given.y_zero_point} of the first, but x_zero_point={taken.x_zero_point} of the second: "
                "they are one zero point, so give both or none"
            )
        if given.residual != "none":
            raise ValueError(f"the first has residual={given.residual}: only the second can add one; run the two apart")

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        x, w1 = self.first.inputs
        _, w2, *residual = self.second.inputs
        return (x, Tensor("w1", w1.shape, w1.dtype), Tensor("w2", w2.shape, w2.dtype), *residual)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.second.outputs

    @property
    def y_shape(self) -> tuple[int, ...]:
        return self.second.y_shape

    @property
    def mid_bytes(self) -> int:
        """What the two would write and read between them, once."""
        return self.first.pixels * self.first.k

    @property
    def operations(self) -> int:
        return self.first.operations + self.second.operations

    @property
    def io_bytes(self) -> int:
        return self.first.io_bytes + self.second.io_bytes - 2 * self.mid_bytes

    @property
    def extents(self) -> dict[str, int]:
        return {f"{stage}_{name}": n for stage in NAMES for name, n in getattr(self, stage).extents.items()}

    @property
    def kinds(self) -> tuple[object, ...]:
        return self.first.kinds + self.second.kinds

    @property
    def packed(self) -> tuple[str, ...]:
        return ("w1", "w2")

    def relayout(self, named: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        axes = self.first.relayout(named)
        return dict.fromkeys(self.packed, axes["w"]) if axes else {}

    def of_stage(self, stage: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """What one of the two is given of a call's parameters, by its own names."""
        q = getattr(self, stage).quantization
        # A sum that is not scaled has no use for the scale of what lies between.
        used = {own: name for own, name in NAMES[stage].items() if own != "x_scale" or q.scaled}
        return {own: parameters[name] for own, name in used.items() if name in parameters}

    def checked(self, parameters: dict[str, Any]) -> FusedParameters:
        known = list(dict.fromkeys(name for names in NAMES.values() for name in names.values()))
        for name in parameters:
            if name not in known:
                raise ValueError(f"{name!r} is no parameter of two convolutions in one; they are {', '.join(known)}")
        values = {}
        for stage in NAMES:
            try:
                values[stage] = getattr(self, stage).checked(self.of_stage(stage, parameters))
            except ValueError as error:
                raise ValueError(f"of the {stage} convolution: {error}") from None
        return FusedParameters(**values)
