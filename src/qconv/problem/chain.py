"""Two or three convolutions in a chain, as one problem. Each consumes the output of the one before it, an intermediate
tensor that is requantized as its producer specifies and need not exist in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar

from qconv.arithmetic.quantization import X_TYPES
from qconv.op import BETWEEN, Problem, Tensor
from qconv.problem.convolution import Conv2d

# Parameters that each layer has for itself.
OF_EACH = ("w_scale", "w_zero_point", "bias", "slope", "low", "high")
# The operands of sums with what the last layer makes.
SUMMED = ("residual", "inner", "own", "constant")
# The intermediate tensors: the output of the first layer, and that of the second of three. The scale and zero point of
# one are the output's for its producer and the input's for its consumer.
MIDS = ("mid", "mid2")
WORDS = {2: "two", 3: "three"}


class Chain(Problem):
    """A chain of convolutions in NHWC. The weights are `w1`, `w2`, ...; a residual belongs to the last layer."""

    LAYERS: ClassVar[tuple[str, ...]]
    first: Conv2d

    def __post_init__(self) -> None:
        for name in self.LAYERS:
            problem = getattr(self, name)
            if not isinstance(problem, Conv2d):
                raise ValueError(f"{name}={problem!r} must be a qconv.Conv2d")
            if problem.parts:
                raise ValueError(f"{name}={problem.key} has a pool behind it: run that convolution by itself")
            if problem.layout != "nhwc":
                raise ValueError(f"{name} has layout={problem.layout}: convolutions in one kernel take and give nhwc")
            if problem.is_shuffled:
                raise ValueError(f"{name}={problem.key} shuffles or crops its output: run that convolution by itself")
            if problem.frames is not None:
                raise ValueError(f"{name}={problem.key} reads the frames of volumes: run that convolution by itself")
        for producer, consumer in pairwise(self.LAYERS):
            self._check_link(producer, consumer)
        self._name(BETWEEN.join(map(str, self.layers.values())))

    def _check_link(self, producer: str, consumer: str) -> None:
        one, two = self.layers[producer], self.layers[consumer]
        if one.y_shape != two.x_shape:
            raise ValueError(
                f"the {consumer} takes {two.x_shape}, but the {producer} gives {one.y_shape} (N, H, W, channels): make "
                "them equal"
            )
        given, taken = one.quantization, two.quantization
        if given.out_type not in X_TYPES:
            raise ValueError(
                f"the {producer} gives {given.out_type}: the {consumer} multiplies {' or '.join(X_TYPES)}, so "
                "requantize to one"
            )
        if given.out_type != taken.types.x.array_type:
            raise ValueError(f"the {producer} gives {given.out_type}, but the {consumer} has x_type={taken.x_type}")
        if given.y_zero_point != taken.x_zero_point:
            raise ValueError(
                f"y_zero_point={given.y_zero_point} of the {producer}, but x_zero_point={taken.x_zero_point} of the "
                f"{consumer}: they are one zero point, so give both or none"
            )
        if given.table:
            raise ValueError(
                f"the {producer} has a table: only the outputs of the {self.LAYERS[-1]} are looked up; run them unfused"
            )
        if given.constant != "none":
            raise ValueError(
                f"the {producer} has constant={given.constant}: only the {self.LAYERS[-1]} can add one; run them "
                "unfused"
            )
        if given.promoted_sums or taken.promoted_sums:
            raise ValueError(
                "promoted_sums=True: no fused kernel adds sums of 8-bit floats up in fp32; run them unfused"
            )
        if given.residual != "none":
            raise ValueError(
                f"the {producer} has residual={given.residual}: only the {self.LAYERS[-1]} can add one; run "
                "them unfused"
            )

    @cached_property
    def layers(self) -> dict[str, Conv2d]:
        return {name: getattr(self, name) for name in self.LAYERS}

    @property
    def last(self) -> Conv2d:
        return self.layers[self.LAYERS[-1]]

    @property
    def rest(self) -> Problem:
        """The layers after the first as a problem of their own, for a chain that runs unfused."""
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        weights = [one.inputs[1] for one in self.layers.values()]
        named = (Tensor(name, w.shape, w.dtype) for name, w in zip(self.packed, weights, strict=True))
        return (self.first.inputs[0], *named, *self.last.inputs[2:])

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.last.outputs

    @property
    def y_shape(self) -> tuple[int, ...]:
        return self.last.y_shape

    @property
    def mid_bytes(self) -> int:
        """Return the bytes of all intermediate tensors."""
        between = list(self.layers.values())[:-1]
        return sum(one.pixels * one.k * one.quantization.types.y.bytes for one in between)

    @property
    def operations(self) -> int:
        return sum(one.operations for one in self.layers.values())

    @cached_property
    def io_bytes(self) -> int:
        return sum(one.io_bytes for one in self.layers.values()) - 2 * self.mid_bytes

    @property
    def extents(self) -> dict[str, int]:
        return {f"{layer}_{name}": n for layer, one in self.layers.items() for name, n in one.extents.items()}

    @property
    def kinds(self) -> tuple[object, ...]:
        return tuple(kind for one in self.layers.values() for kind in one.kinds)

    @property
    def shape_class(self) -> tuple[object, ...]:
        return tuple(one.shape_class for one in self.layers.values())

    @property
    def parts(self) -> tuple[Problem, ...]:
        return (self.first, self.rest)

    @property
    def packed(self) -> tuple[str, ...]:
        return tuple(f"w{i + 1}" for i in range(len(self.LAYERS)))

    def relayout(self, named: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        axes = self.first.relayout(named)
        return dict.fromkeys(self.packed, axes["w"]) if axes else {}

    def names(self, layer: str) -> dict[str, str]:
        """Map a layer's parameter names to the names that a call of the chain uses for them."""
        at, last = self.LAYERS.index(layer), len(self.LAYERS) - 1
        x, y = MIDS[at - 1] if at else "x", MIDS[at] if at < last else "y"
        ends = (("x", x), ("y", y))
        named = {f"{own}_{what}": f"{of}_{what}" for own, of in ends for what in ("scale", "zero_point")}
        if at == last:
            scaled = (f"{of}_{what}" for of in SUMMED for what in ("scale", "zero_point"))
            added = (*scaled, "constant", "table")
            named |= {name: name for name in added}
        return named | {name: f"{layer}_{name}" for name in OF_EACH}

    def of_layer(self, layer: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of one layer, under the layer's names."""
        q = self.layers[layer].quantization
        # A sum that is not scaled does not use the scale of the intermediate tensor.
        used = {own: name for own, name in self.names(layer).items() if own != "x_scale" or q.scaled}
        return {own: parameters[name] for own, name in used.items() if name in parameters}

    def of_rest(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of all layers after the first, under their names in the problem `rest`."""
        rest, behind = self.rest, self.LAYERS[1:]
        if not isinstance(rest, Chain):
            return self.of_layer(behind[0], parameters)
        given: dict[str, Any] = {}
        for ours, theirs in zip(behind, rest.LAYERS, strict=True):
            names = rest.names(theirs)
            given |= {names[own]: value for own, value in self.of_layer(ours, parameters).items()}
        return given

    def checked(self, parameters: dict[str, Any]) -> SimpleNamespace:
        """Return the checked parameters of each layer, as attributes with the layers' names."""
        known = list(dict.fromkeys(name for layer in self.LAYERS for name in self.names(layer).values()))
        for name in parameters:
            if name not in known:
                raise ValueError(
                    f"{name!r} is no parameter of {WORDS[len(self.LAYERS)]} convolutions in one; they are "
                    f"{', '.join(known)}"
                )
        values = SimpleNamespace()
        for layer, one in self.layers.items():
            try:
                setattr(values, layer, one.checked(self.of_layer(layer, parameters)))
            except ValueError as error:
                raise ValueError(f"of the {layer} convolution: {error}") from None
        return values


@dataclass(frozen=True, eq=False)
class FusedConv2d(Chain):
    """Two convolutions: `second(first(x))`."""

    op: ClassVar[str] = "conv2d_conv2d"
    LAYERS: ClassVar[tuple[str, ...]] = ("first", "second")
    first: Conv2d
    second: Conv2d
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    @property
    def rest(self) -> Conv2d:
        return self.second


@dataclass(frozen=True, eq=False)
class FusedBlock(Chain):
    """Three convolutions: `third(second(first(x)))`. An inverted residual expands, filters and projects."""

    op: ClassVar[str] = "conv2d_conv2d_conv2d"
    LAYERS: ClassVar[tuple[str, ...]] = ("first", "second", "third")
    first: Conv2d
    second: Conv2d
    third: Conv2d
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    @property
    def rest(self) -> FusedConv2d:
        return FusedConv2d(self.second, self.third)


def chain_of(problems: list[Conv2d]) -> Chain:
    kinds = {len(kind.LAYERS): kind for kind in (FusedConv2d, FusedBlock)}
    if len(problems) not in kinds:
        raise ValueError(f"{len(problems)} convolutions: {' or '.join(WORDS.values())} are one kernel")
    return kinds[len(problems)](*problems)
