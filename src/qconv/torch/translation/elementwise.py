"""Functions of elements: arithmetic with broadcasting, comparisons, activations, and conversions of types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import inf

import torch

from qconv.expression.function import COMPUTED
from qconv.torch.arrays import name_of
from qconv.torch.pattern import Unmatched
from qconv.torch.translation.node_layers import NodeLayers, Translate

UNARY = {
    "abs": "Abs",
    "neg": "Neg",
    "sign": "Sign",
    "ceil": "Ceil",
    "floor": "Floor",
    "round": "Round",
    "sqrt": "Sqrt",
    "exp": "Exp",
    "log": "Log",
    "erf": "Erf",
    "reciprocal": "Reciprocal",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "relu": "Relu",
    "mish": "Mish",
    "silu": "Swish",
    "hardswish": "HardSwish",
    "selu": "Selu",
    "logical_not": "Not",
    "bitwise_not": "BitwiseNot",
}
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min", "pow": "Pow"}
COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
BITS = {
    "bitwise_and": "And",
    "bitwise_or": "Or",
    "bitwise_xor": "Xor",
    "__and__": "And",
    "__or__": "Or",
    "__xor__": "Xor",
}
LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
# Copies of the same elements, which inference needs none of.
SAME = (
    *("aten.clone.default", "aten.contiguous.default", "aten.alias.default", "aten.detach.default"),
    *("aten.lift_fresh_copy.default", "aten.dropout.default", "aten.to.dtype", "aten.to.dtype_layout"),
    *("aten._to_copy.default", "aten.to.device", "aten.type_as.default"),
)


def _unary(op: str, layers: NodeLayers) -> None:
    """Translate a function, of which integers are computed in the type of the output."""
    layers.result(op, layers.operand("self", layers.dtype))


def _with_alpha(op: str, layers: NodeLayers) -> None:
    """Translate a sum or a difference, whose second operand has a factor."""
    b, alpha = layers.operand("other", layers.dtype), layers.value("alpha")
    if alpha != 1:
        shape = layers.tensors[b].shape if b in layers.tensors else ()
        b = layers.made("Mul", (b, layers.number(alpha, layers.dtype)), layers.dtype, shape)
    layers.result(op, layers.operand("self", layers.dtype), b)


def _reversed(layers: NodeLayers) -> None:
    if layers.value("alpha") != 1:
        raise Unmatched("its alpha is not 1")
    layers.result("Sub", layers.operand("other", layers.dtype), layers.operand("self", layers.dtype))


def _binary(op: str, layers: NodeLayers) -> None:
    second = "exponent" if op == "Pow" else "other"
    layers.result(op, layers.operand("self", layers.dtype), layers.operand(second, layers.dtype))


def _compared(op: str, layers: NodeLayers) -> None:
    values = [each.meta["val"] if isinstance(each, torch.fx.Node) else each for each in _two(layers)]
    dtype = name_of(torch.result_type(*values))
    if dtype not in COMPUTED:
        raise Unmatched(f"it compares {dtype}; expressions have {', '.join(COMPUTED)}")
    layers.result(op, layers.operand("self", dtype), layers.operand("other", dtype))


def _two(layers: NodeLayers) -> tuple[object, object]:
    return layers.given["self"], layers.given["other"]


def _logical(op: str, layers: NodeLayers) -> None:
    layers.result(op, layers.operand("self", "bool"), layers.operand("other", "bool"))


def _bits(op: str, layers: NodeLayers) -> None:
    """Translate an op of bits, which bools have as logic."""
    prefix = "" if layers.dtype == "bool" else "Bitwise"
    layers.result(prefix + op, layers.operand("self", layers.dtype), layers.operand("other", layers.dtype))


def _reciprocal_root(layers: NodeLayers) -> None:
    root = layers.made("Sqrt", (layers.operand("self", layers.dtype),), layers.dtype)
    layers.result("Reciprocal", root)


def _clip(low: str, high: str, layers: NodeLayers) -> None:
    """Translate a clamp. A limit that is not given is none."""
    limits = []
    for name in (low, high):
        value = layers.given[name]
        is_none = value is None or (isinstance(value, float) and value in (-inf, inf))
        limits.append("" if is_none else layers.number(layers.value(name), layers.dtype))
    layers.result("Clip", layers.operand("self", layers.dtype), *limits)


def _relu6(layers: NodeLayers) -> None:
    limits = [layers.number(each, layers.dtype) for each in (0, 6)]
    layers.result("Clip", layers.operand("self", layers.dtype), *limits)


def _hard_sigmoid(layers: NodeLayers) -> None:
    layers.result("HardSigmoid", layers.x("self"), alpha=1 / 6, beta=0.5)


def _leaky(layers: NodeLayers) -> None:
    layers.result("LeakyRelu", layers.x("self"), alpha=float(layers.value("negative_slope")))


def _elu(layers: NodeLayers) -> None:
    if (layers.value("scale"), layers.value("input_scale")) != (1, 1):
        raise Unmatched("it scales its input or its output")
    layers.result("Elu", layers.x("self"), alpha=float(layers.value("alpha")))


def _softplus(layers: NodeLayers) -> None:
    """Translate a softplus. Behind its threshold of 20, PyTorch's identity differs by less than half of an ulp."""
    if layers.value("beta") != 1 or layers.value("threshold") < 20:
        raise Unmatched("its beta is not 1, or its threshold is below 20")
    layers.result("Softplus", layers.x("self"))


def _gelu(layers: NodeLayers) -> None:
    layers.result("Gelu", layers.x("self"), approximate=layers.value("approximate"))


def _prelu(layers: NodeLayers) -> None:
    """Translate a PReLU: the slopes are of the second axis."""
    rank, (count,) = layers.rank, layers.of("weight").shape
    slopes = layers.made("Reshape", (layers.x("weight"),), layers.dtype, (count, *(1,) * max(rank - 2, 0)))
    layers.result("PRelu", layers.x("self"), slopes)


def _add_third(op: str, layers: NodeLayers) -> None:
    """Translate the sum of a tensor and a product or quotient of two others, which has a factor."""
    inputs = [layers.operand(name, layers.dtype) for name in ("tensor1", "tensor2")]
    value = layers.value("value")
    if value != 1:
        shape = layers.tensors[inputs[0]].shape
        inputs[0] = layers.made("Mul", (inputs[0], layers.number(value, layers.dtype)), layers.dtype, shape)
    layers.result("Add", layers.operand("self", layers.dtype), layers.made(op, inputs, layers.dtype))


def _where(layers: NodeLayers) -> None:
    chosen = [layers.operand(name, layers.dtype) for name in ("self", "other")]
    layers.result("Where", layers.operand("condition", "bool"), *chosen)


def _same(layers: NodeLayers) -> None:
    if layers.given.get("train"):
        raise Unmatched("a dropout that trains draws random numbers")
    if layers.dtype != layers.of(_first(layers)).dtype and COMPUTED[layers.dtype] in ("int32", "int64"):
        raise Unmatched("it makes integers, which may be of floats beyond their range")
    layers.same(layers.x(_first(layers)))


def _first(layers: NodeLayers) -> str:
    return "input" if "input" in layers.given else "self"


def _of(
    names: Mapping[str, str], translate: Callable[[str, NodeLayers], None], *overloads: str
) -> dict[str, Translate]:
    return {f"aten.{name}.{each}": partial(translate, op) for name, op in names.items() for each in overloads}


TABLE: Mapping[str, Translate] = {
    **_of(UNARY, _unary, "default"),
    **_of({name: op for name, op in BINARY.items() if name in ("add", "sub")}, _with_alpha, "Tensor", "Scalar"),
    **_of({name: op for name, op in BINARY.items() if name in ("mul", "div")}, _binary, "Tensor", "Scalar"),
    **_of({name: op for name, op in BINARY.items() if name.endswith("imum")}, _binary, "default"),
    **_of({"pow": "Pow"}, _binary, "Tensor_Scalar", "Tensor_Tensor"),
    **_of(COMPARISONS, _compared, "Tensor", "Scalar"),
    **_of(LOGICAL, _logical, "default"),
    **_of(BITS, _bits, "Tensor", "Scalar"),
    **dict.fromkeys(SAME, _same),
    "aten.rsub.Scalar": _reversed,
    "aten.rsub.Tensor": _reversed,
    "aten.rsqrt.default": _reciprocal_root,
    "aten.addcmul.default": partial(_add_third, "Mul"),
    "aten.addcdiv.default": partial(_add_third, "Div"),
    "aten.clamp.default": partial(_clip, "min", "max"),
    "aten.hardtanh.default": partial(_clip, "min_val", "max_val"),
    "aten.relu6.default": _relu6,
    "aten.hardsigmoid.default": _hard_sigmoid,
    "aten.leaky_relu.default": _leaky,
    "aten.elu.default": _elu,
    "aten.softplus.default": _softplus,
    "aten.gelu.default": _gelu,
    "aten.prelu.default": _prelu,
    "aten.where.self": _where,
}
