"""The schemas of the ops, each with up to three overloads.

`default` takes the scales of activations as numbers, and those of weights as a tensor with one number, or one per
output channel. `scalar` takes the latter as a number too. `tensor` takes every scale and zero point as a tensor: each
call then waits for tensors on a GPU, because kernels get their values from the host. A schema has no type for "either".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The arguments of a call, by the names of its schema.
Given = Mapping[str, Any]
# The arguments of each convolution of a chain.
OF_EACH = (
    "Tensor w_scale",
    "Tensor? bias=None",
    "Tensor? w_zero_point=None",
    "int[2] stride=1",
    "int[2] padding=0",
    "int[2] dilation=1",
    "int groups=1",
    "str activation='none'",
    "float? slope=None",
    "float? low=None",
    "float? high=None",
)
RESIDUAL = ("float? residual_scale=None", "int residual_zero_point=0")
LAST = ("ScalarType? out_dtype=None", "str? mode=None")


@dataclass(frozen=True)
class Overload:
    """An overload of an op. `positional` and `named` are its parameters in front of the star and behind it."""

    op: str
    name: str
    positional: tuple[str, ...]
    named: tuple[str, ...]

    @property
    def qualified(self) -> str:
        return f"{self.op}.{self.name}" if self.name else self.op

    @property
    def schema(self) -> str:
        return f"{self.qualified}({', '.join(self.positional)}, *, {', '.join(self.named)}) -> Tensor"


def linear_map(*names: str) -> tuple[str, ...]:
    """Return the parameters for the scale and zero point of each tensor, as numbers."""
    return tuple(text for name in names for text in (f"float {name}_scale=1.0", f"int {name}_zero_point=0"))


def _of_layer(layer: str) -> tuple[str, ...]:
    kinds_and_names = (text.split(" ", 1) for text in OF_EACH)
    return tuple(f"{kind} {layer}_{name}" for kind, name in kinds_and_names)


def _chain(*layers: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the parameters of a chain. The intermediate tensors are `mid` and `mid2`, by default with the type of
    x."""
    mids = ("mid", "mid2")[: len(layers) - 1]
    weights = tuple(f"Tensor w{i + 1}" for i in range(len(layers)))
    own = tuple(text for layer in layers for text in _of_layer(layer))
    types = tuple(f"ScalarType? {mid}_dtype=None" for mid in mids)
    named = (*linear_map("x", *mids, "y"), *RESIDUAL, *own, *types, *LAST)
    return ("Tensor x", *weights, "Tensor? residual=None"), named


_WEIGHTS = ("Tensor x", "Tensor w", "Tensor w_scale", "Tensor? bias=None")
_WINDOW = ("Tensor x", "int[2] kernel_size", "int[2] stride=[]", "int[2] padding=0")
_ACTIVATION = OF_EACH[-4:]
# The parameters of the pool behind a convolution.
_POOL = ("int[2] window", "int[2] window_stride=[]", "int[2] window_padding=0", "bool ceil_mode=False")
_OPS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "conv2d": (
        (*_WEIGHTS, "Tensor? residual=None"),
        (*linear_map("x", "y"), *RESIDUAL, "Tensor? w_zero_point=None", *OF_EACH[3:], *LAST),
    ),
    "conv_transpose2d": (
        (*_WEIGHTS, "Tensor? residual=None"),
        (
            *(*linear_map("x", "y"), *RESIDUAL, "Tensor? w_zero_point=None", "int[2] output_padding=0"),
            *(*OF_EACH[3:], *LAST),
        ),
    ),
    "linear": (
        (*_WEIGHTS, "Tensor? residual=None"),
        (*linear_map("x", "y"), *RESIDUAL, "Tensor? w_zero_point=None", *_ACTIVATION, *LAST),
    ),
    "conv2d_pool": (
        _WEIGHTS,
        (*linear_map("x", "y"), "Tensor? w_zero_point=None", *OF_EACH[3:], *_POOL, *LAST),
    ),
    "conv2d_conv2d": _chain("first", "second"),
    "conv2d_block": _chain("first", "second", "third"),
    "add": (("Tensor a", "Tensor b"), (*linear_map("a", "b", "y"), "str activation='none'", LAST[0])),
    "mul": (("Tensor a", "Tensor b"), (*linear_map("a", "b", "y"), "str activation='none'", LAST[0])),
    "max_pool2d": (_WINDOW, ("int[2] dilation=1", "bool ceil_mode=False")),
    "avg_pool2d": (
        _WINDOW,
        ("bool ceil_mode=False", "bool count_include_pad=True", *linear_map("x", "y"), LAST[0]),
    ),
    "global_avg_pool2d": (("Tensor x",), (*linear_map("x", "y"), LAST[0])),
    "expression": (("Tensor[] inputs",), ("str program",)),
    "quantize": (
        ("Tensor x", "Tensor scale", "Tensor? zero_point=None"),
        ("int? axis=None", "ScalarType? out_dtype=None", "int? low=None", "int? high=None", "str? mode=None"),
    ),
    "dequantize": (
        ("Tensor x", "Tensor scale", "Tensor? zero_point=None"),
        ("int? axis=None", "ScalarType? out_dtype=None", "str? mode=None"),
    ),
}


def overloads() -> tuple[Overload, ...]:
    """Return the overloads in the order in which a call tries them: as a number, a tensor would be accepted by waiting
    for it."""
    return tuple(
        overload
        for op, (positional, named) in _OPS.items()
        for overload in (
            Overload(op, "tensor", _as(_NUMBER_TO_TENSOR, positional), _as(_NUMBER_TO_TENSOR, named)),
            Overload(op, "", positional, named),
            Overload(op, "scalar", _as(_TENSOR_TO_NUMBER, positional), _as(_TENSOR_TO_NUMBER, named)),
        )
        if overload.name == "" or (overload.positional, overload.named) != (positional, named)
    )


def _as(changes: Mapping[str, str], parameters: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parameters with scales and zero points in another type. Optional ones have the default None."""
    return tuple(_changed(text, changes) for text in parameters)


def _changed(text: str, changes: Mapping[str, str]) -> str:
    kind, name = text.split(" ", 1)
    if not name.split("=")[0].endswith(("scale", "zero_point")) or kind not in changes:
        return text
    taken = changes[kind]
    default = "=None" if taken.endswith("?") else ""
    return f"{taken} {name.split('=')[0]}{default}"


_NUMBER_TO_TENSOR = {"float": "Tensor?", "float?": "Tensor?", "int": "Tensor?"}
_TENSOR_TO_NUMBER = {"Tensor": "float", "Tensor?": "int?"}
