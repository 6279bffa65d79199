"""Folds the sum behind an integer convolution into it: one kernel, which changes no bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from qconv.network.elementwise import QuantizedBinary
from qconv.network.graph import Network
from qconv.network.integer import Added, IntegerConvolution, check_smallest
from qconv.network.served import Served, Unserved
from qconv.tensor_ops import Add


def fold_sums(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """QLinearConv and QLinearAdd: one convolution with a residual, if only the sum reads what the convolution gives.

    The convolution moves to where the sum stands, by when the other tensor is there: it cannot depend on the
    convolution, whose only reader is the sum. Of two convolutions the later one takes the sum."""
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
    """None where one kernel does not compute both."""
    own = _letter(convolution, add)
    if own is None or network.only_consumer(convolution.y) != add.layer:
        return None
    other = "b" if own == "a" else "a"
    tensor = add.operands["ab".index(other)]
    if not isinstance(tensor, str) or tensor == convolution.y or not _may_be_equal(network, convolution.y, tensor):
        return None
    numbers = add.parameters
    parameters = {name: value for name, value in convolution.parameters.items() if not name.startswith("y_")}
    for what, default in (("scale", 1.0), ("zero_point", 0)):
        parameters[f"inner_{what}"] = numbers.get(f"{own}_{what}", default)
        parameters[f"residual_{what}"] = numbers.get(f"{other}_{what}", default)
        parameters[f"y_{what}"] = numbers.get(f"y_{what}", default)
    layer = replace(
        convolution.layer,
        inputs=(*convolution.layer.inputs, tensor),
        outputs=add.layer.outputs,
        parts=(convolution.layer, add.layer),
    )
    added = Added(tensor, other == "a")
    made = replace(convolution, layer=layer, y=add.y, parameters=parameters, added=added)
    try:
        check_smallest(made)
    except Unserved:
        return None
    return made


def _letter(convolution: IntegerConvolution, add: QuantizedBinary) -> str | None:
    """Which of the two that are added it gives, if the sum reads it as it was written and nothing is folded yet."""
    if convolution.activation != "none" or convolution.added is not None or convolution.out_type != add.dtype:
        return None
    letter = "ab"[add.operands.index(convolution.y)] if isinstance(add.operands[0], str) else "b"
    same = all(
        _number(convolution.parameters, f"y_{what}", default) == _number(add.parameters, f"{letter}_{what}", default)
        for what, default in (("scale", 1.0), ("zero_point", 0))
    )
    return letter if same else None


def _number(parameters: Mapping[str, Any], name: str, default: float) -> float:
    return float(np.float32(parameters.get(name, default)))


def _may_be_equal(network: Network, one: str, other: str) -> bool:
    """Whether nothing that is known of the shapes says that they differ."""
    a, b = network.tensor(one).shape, network.tensor(other).shape
    if a is None or b is None:
        return True
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(None in pair or pair[0] == pair[1] for pair in pairs)
