"""Folds of the layers after an integer convolution into it: a clamp, a constant, a max pool, a sum or a table. The
result is one kernel with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeGuard, TypeVar

import numpy as np

from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import Array
from qconv.network.graph.served import Served, Unserved
from qconv.network.layers.binary import QuantizedBinary
from qconv.network.layers.convolution import Added, Constant, IntegerConvolution
from qconv.network.layers.packed_convolution import check_smallest
from qconv.network.layers.pooling import QuantizedPool
from qconv.network.layers.table import Tabulated
from qconv.tensor_ops import Add, MaxPool

Behind = TypeVar("Behind", bound=Served)  # the kind of a layer behind a convolution
# A number of output steps that is farther from zero than any byte.
BEYOND = 512.0


def fold_clamps(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Fold DequantizeLinear, Relu or Clip, and QuantizeLinear into the convolution before them, if both have the
    convolution's scale and zero point.

    QuantizeLinear then returns every integer that DequantizeLinear received, because the errors of the product and the
    quotient together are far below half a step. Both are monotone, so that a clamp between them is a clamp of the
    integers; and rounding is monotone, so that the clamp may precede the convolution's own rounding."""
    layers, folded = {layer.name: layer for layer in network.layers}, dict(served)
    for name, convolution in served.items():
        chain = _chain(network, convolution) if isinstance(convolution, IntegerConvolution) else None
        if chain is None or not isinstance(convolution, IntegerConvolution):
            continue
        clamp = _clamp(network, chain[1], convolution)
        if clamp is None:
            continue
        activation, limits = clamp
        layer = replace(convolution.layer, outputs=chain[-1].outputs, parts=(convolution.layer, *chain))
        parameters = {**convolution.parameters, **limits}
        folded[name] = replace(
            convolution, layer=layer, y=layer.outputs[0], activation=activation, parameters=parameters
        )
        layers[name] = layer
        for gone in chain:
            del layers[gone.name]
    return replace(network, layers=tuple(layers.values())), folded


def _chain(network: Network, convolution: IntegerConvolution) -> tuple[Layer, Layer, Layer] | None:
    """Return the three layers after the convolution if nothing else reads between them, else None."""
    found = []
    name = convolution.y
    for ops in (("DequantizeLinear",), ("Relu", "Clip"), ("QuantizeLinear",)):
        layer = network.only_consumer(name)
        if layer is None or layer.op not in ops or layer.inputs[0] != name:
            return None
        found.append(layer)
        (name,) = layer.outputs
    first, clamp, last = found
    own = _output_of(convolution) if convolution.activation == "none" else None
    same = own is not None and own == _linear(network, first) == _linear(network, last)
    return (first, clamp, last) if same else None


def _output_of(convolution: IntegerConvolution) -> tuple[float, int, str] | None:
    given = convolution.parameters
    if "y_scale" not in given:
        return None
    return float(given["y_scale"]), int(given["y_zero_point"]), convolution.out_type


def _linear(network: Network, layer: Layer) -> tuple[float, int, str] | None:
    """Return the scale, zero point and integer type of a conversion with one float32 scale, else None."""
    arrays = [network.constant(name) if name else None for name in (*layer.inputs[1:], "")[:2]]
    scale, zero = arrays
    if scale is None or scale.size != 1 or scale.dtype != np.float32 or zero is None or zero.size != 1:
        return None
    return float(scale.item()), int(zero.item()), str(zero.dtype)


def _clamp(network: Network, layer: Layer, convolution: IntegerConvolution) -> tuple[str, dict[str, Any]] | None:
    if layer.op == "Relu":
        return "relu", {}
    step = float(convolution.parameters["y_scale"])
    limits = {"low": np.float32(-BEYOND * step), "high": np.float32(BEYOND * step)}
    for number, (name, attribute) in enumerate((("low", "min"), ("high", "max")), 1):
        tensor = layer.inputs[number] if number < len(layer.inputs) else ""
        if tensor:
            array = network.constant(tensor)
            if array is None or array.size != 1:
                return None
            limits[name] = np.float32(array.item())
        elif attribute in layer.attributes:
            limits[name] = np.float32(layer.attributes[attribute])
    finite = np.isfinite(list(limits.values())).all() and limits["low"] <= limits["high"]
    return ("clamp", dict(limits)) if finite else None


def fold_channel_constants(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Fold the QLinearAdd or QLinearMul of a constant per channel into the convolution or product before it. Exporters
    write the bias of a product as the one, and the scale of a residual branch as the other."""
    with_one = {one.inputs[0]: one for one in served.values() if _has_constant(one)}
    return _each_with_next(network, served, with_one, with_constant)


def _has_constant(one: Served) -> TypeGuard[QuantizedBinary]:
    return isinstance(one, QuantizedBinary) and len(one.inputs) == 1


def _each_with_next(
    network: Network,
    served: Mapping[str, Served],
    behind: Mapping[str, Behind],
    fold: Callable[[Network, IntegerConvolution, Behind], IntegerConvolution | None],
) -> tuple[Network, dict[str, Served]]:
    """Return the network with each of these layers, given by what they read, folded into the convolution before it."""
    convolutions = [one for one in served.values() if isinstance(one, IntegerConvolution) and one.y in behind]
    made = [fold(network, one, behind[one.y]) for one in convolutions]
    found = {one.layer.name: one for one in made if one is not None}
    gone = {part.name for one in found.values() for part in one.layer.parts[1:]}
    left = (layer for layer in network.layers if layer.name not in gone)
    layers = tuple(found[layer.name].layer if layer.name in found else layer for layer in left)
    return replace(network, layers=layers), {name: one for name, one in {**served, **found}.items() if name not in gone}


def with_constant(network: Network, convolution: IntegerConvolution, add: QuantizedBinary) -> IntegerConvolution | None:
    """Return the convolution with the sum or product of its output and a constant folded in, or None where no kernel
    computes both."""
    letters = _letters(network, convolution, add)
    if letters is None or not convolution.is_single:
        return None
    own, other = letters
    constant = add.operands["ab".index(other)]
    assert not isinstance(constant, str)
    values = _per_channel(network, convolution, constant)
    if values is None:
        return None
    parameters = _of_sum(convolution, add, {"own": own, "constant": other})
    layer = replace(convolution.layer, outputs=add.layer.outputs, parts=(convolution.layer, add.layer))
    made = replace(
        convolution,
        layer=layer,
        y=add.y,
        parameters={**parameters, "constant": values},
        constant=Constant(constant.shape, other == "a", add.kind is not Add),
    )
    return _if_served(made)


def _per_channel(network: Network, convolution: IntegerConvolution, constant: Array) -> Array | None:
    """Return the constant as a byte for each output channel, or None where it is one number or differs along another
    axis."""
    k, axes = len(convolution.weights), convolution.axes
    shape = network.tensor(convolution.y).shape
    rank = axes + 2 if axes else len(shape) if shape is not None else 1
    if convolution.is_shuffled or constant.ndim > rank:
        return None
    wide = (1,) * (rank - constant.ndim) + constant.shape
    at = 1 if axes else rank - 1
    return constant.reshape(-1) if k > 1 and constant.size == wide[at] == k else None


def with_pool(network: Network, convolution: IntegerConvolution, pool: QuantizedPool) -> IntegerConvolution | None:
    """Return the convolution with the pool folded in, or None where no kernel computes both."""
    if pool.kind is not MaxPool or convolution.y != pool.x or network.only_consumer(convolution.y) != pool.layer:
        return None
    # Kernels apply one pool, directly to the requantized sums.
    if not convolution.is_single:
        return None
    gaps = pool.attributes.get("dilations") or ()
    is_image = convolution.axes == len(pool.attributes["kernel_shape"]) == 2
    if not is_image or any(gap != 1 for gap in gaps) or convolution.out_type != pool.dtype:
        return None
    layer = replace(convolution.layer, outputs=pool.layer.outputs, parts=(convolution.layer, pool.layer))
    return replace(convolution, layer=layer, y=pool.y, pooled=pool)


def fold_sums(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Fold QLinearAdd into a QLinearConv as a residual, if only the sum reads the convolution's output.

    The convolution moves to the place of the sum, where the other tensor exists: that cannot depend on the convolution,
    whose only reader is the sum. If both operands are convolutions, the later one takes the sum."""
    order = {layer.name: at for at, layer in enumerate(network.layers)}
    convolutions = {one.y: one for one in served.values() if isinstance(one, IntegerConvolution)}
    layers, folded = {layer.name: layer for layer in network.layers}, dict(served)
    for name, add in served.items():
        if not isinstance(add, QuantizedBinary) or add.kind is not Add:
            continue
        candidates = [convolutions[one] for one in add.inputs if one in convolutions]
        for convolution in sorted(candidates, key=lambda one: -order[one.layer.name]):
            made = with_sum(network, convolution, add)
            if made is None:
                continue
            layers[name] = made.layer
            del layers[convolution.layer.name], folded[name]
            folded[convolution.layer.name] = made
            break
    return replace(network, layers=tuple(layers.values())), folded


def with_sum(network: Network, convolution: IntegerConvolution, add: QuantizedBinary) -> IntegerConvolution | None:
    """Return the convolution with the sum folded in, or None where no kernel computes both."""
    letters = _letters(network, convolution, add)
    if letters is None:
        return None
    own, other = letters
    tensor = add.operands["ab".index(other)]
    if not isinstance(tensor, str) or tensor == convolution.y or not _may_be_equal(network, convolution.y, tensor):
        return None
    parameters = _of_sum(convolution, add, {"inner": own, "residual": other})
    layer = replace(
        convolution.layer,
        inputs=(*convolution.layer.inputs, tensor),
        outputs=add.layer.outputs,
        parts=(convolution.layer, add.layer),
    )
    added = Added(tensor, other == "a")
    made = replace(convolution, layer=layer, y=add.y, parameters=parameters, added=added)
    return _if_served(made)


def _of_sum(convolution: IntegerConvolution, add: QuantizedBinary, letters: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of a convolution and of the sum behind it, whose operands have these letters."""
    parameters = {name: value for name, value in convolution.parameters.items() if not name.startswith("y_")}
    for name, letter in {**letters, "y": "y"}.items():
        for what, default in (("scale", 1.0), ("zero_point", 0)):
            parameters[f"{name}_{what}"] = add.parameters.get(f"{letter}_{what}", default)
    return parameters


def _if_served(made: IntegerConvolution) -> IntegerConvolution | None:
    try:
        check_smallest(made)
    except Unserved:
        return None
    return made


def _letters(network: Network, convolution: IntegerConvolution, add: QuantizedBinary) -> tuple[str, str] | None:
    """Return the operand of the sum that the convolution produces, and the other one, if only the sum reads it, both
    agree on scale, zero point and type, and no clamp and no other tensor is folded in; else None."""
    if convolution.activation != "none" or convolution.added is not None or convolution.out_type != add.dtype:
        return None
    if network.only_consumer(convolution.y) != add.layer:
        return None
    letter = "ab"[add.operands.index(convolution.y)] if isinstance(add.operands[0], str) else "b"
    same = all(
        _number(convolution.parameters, f"y_{what}", default) == _number(add.parameters, f"{letter}_{what}", default)
        for what, default in (("scale", 1.0), ("zero_point", 0))
    )
    return (letter, "b" if letter == "a" else "a") if same else None


def _number(parameters: Mapping[str, Any], name: str, default: float) -> float:
    return float(np.float32(parameters.get(name, default)))


def _may_be_equal(network: Network, one: str, other: str) -> bool:
    """True where the known extents permit equal shapes."""
    a, b = network.tensor(one).shape, network.tensor(other).shape
    if a is None or b is None:
        return True
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(None in pair or pair[0] == pair[1] for pair in pairs)


def fold_tables_behind(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Fold a table into the convolution before it, if only the table reads the convolution's output."""
    tables = {one.x: one for one in served.values() if isinstance(one, Tabulated)}
    return _each_with_next(network, served, tables, with_table)


def with_table(network: Network, convolution: IntegerConvolution, table: Tabulated) -> IntegerConvolution | None:
    """Return the convolution with the table folded in, or None where no kernel computes both."""
    if convolution.y != table.x or network.only_consumer(convolution.y) != table.layer:
        return None
    # Kernels look up one byte by another of the same type, once, without a sum of two tensors or a pool.
    types = {convolution.out_type, table.dtype, str(table.table.dtype)}
    if len(types) > 1 or convolution.has_end:
        return None
    layer = replace(convolution.layer, outputs=table.layer.outputs, parts=(convolution.layer, table.layer))
    parameters = {**convolution.parameters, "table": table.table}
    made = replace(convolution, layer=layer, y=table.y, parameters=parameters)
    return _if_served(made)
