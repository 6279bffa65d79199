"""Lowering of a model: which layers run on kernels, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from qconv.expression.function import COMPUTED
from qconv.network import (
    Choices,
    Layer,
    Network,
    Reason,
    Region,
    Served,
    Unserved,
    decompose_zero_points,
    find_regions,
    fold_byte_chains,
    fold_channel_constants,
    fold_clamps,
    fold_dequantized,
    fold_dequantized_products,
    fold_integers,
    fold_pixel_shuffles,
    fold_shuffles,
    fold_sums,
    fold_tables,
    fold_tables_behind,
    is_of_integers,
    is_of_product,
    narrow_products,
    one_output_each,
    read_layer,
    serve_dynamic,
    serve_ends,
    serve_moving,
    serve_suppressions,
    with_scalars,
)
from qconv.network.expressions.attended import with_attention
from qconv.network.expressions.constants import fold_constants
from qconv.network.expressions.fuse import fuse, unfolded
from qconv.network.expressions.light import is_a_view, taken_over
from qconv.onnx.blocked import DOMAIN, REORDERS
from qconv.onnx.options import Bits, Meaning
from qconv.tensor_ops.problem import BYTES

FLOAT_CONVOLUTIONS = ("Conv", "com.microsoft.FusedConv", f"{DOMAIN}.Conv")

# Returns layers, from one tensor to another, as a function of arrays of any shape.
FunctionOf = Callable[[Sequence[Layer], str, str], Callable[[Any], Any]]


@dataclass(frozen=True, eq=False)
class Lowered:
    """A lowered network. `served` are by the names of the layers that run on kernels; `why_not` has all others.
    `waits_for_shapes`: some layers would be parts of expressions, and not views, if shapes were known."""

    network: Network
    served: Mapping[str, Served | Region]
    why_not: Mapping[str, Reason]
    waits_for_shapes: bool = False

    def __repr__(self) -> str:
        return f"<Lowered: {len(self.served)} layers on kernels, {len(self.why_not)} elsewhere, of {self.network!r}>"


def lower(network: Network, function: FunctionOf, choices: Choices, meaning: Meaning) -> Lowered:
    is_own = meaning.bits is Bits.INTEGERS
    dtypes = COMPUTED if is_own else BYTES
    network = one_output_each(network, dtypes).without_unread()
    if is_own:
        return _lowered_to_integers(network, function, choices, meaning)
    served, why_not = _sorted_out(network)
    network, served = _folded(network, served, function, choices)
    served, left = serve_moving(network, served)
    served, outside = serve_ends(network, served)
    elsewhere = {layer.name for layer in network.layers if layer.name not in served}
    why_not = {name: why for name, why in (why_not | left | outside).items() if name in elsewhere}
    network, arranged = find_regions(network, served, choices)
    return Lowered(network, arranged, why_not)


def _lowered_to_integers(
    network: Network,
    function: FunctionOf,
    choices: Choices,
    meaning: Meaning,
    whole: Mapping[str, Reason] = MappingProxyType({}),
) -> Lowered:
    """Lower a network whose floats are expressions. The products named in `whole` are not decomposed, for a reason
    each."""
    given = network
    network = fold_constants(network, without=("DequantizeLinear",))  # integer layers read what is before it
    network, not_decomposed = decompose_zero_points(with_scalars(network), whole)
    served, why_not = _sorted_out(network)
    served, not_dynamic = serve_dynamic(network, served)
    network, served = fold_integers(network, served)
    network, served = fold_dequantized_products(network, served, choices.sums is not False)
    network = fold_constants(network)
    network, served = _folded(network, served, function, choices)
    if meaning.narrow is not None:
        network, served = narrow_products(network, served, meaning.narrow, meaning.keep, choices.sums is not False)
    made = _with_expressions(network, served, why_not | not_decomposed | not_dynamic | dict(whole), choices)
    # A layer that is left over of a product cannot run elsewhere without the others.
    left = {
        layer.parts[0].name: made.why_not[layer.name]
        for layer in made.network.layers
        if layer.name in made.why_not and is_of_product(layer)
    }
    return _lowered_to_integers(given, function, choices, meaning, {**whole, **left}) if left else made


def _folded(
    network: Network, served: Mapping[str, Served], function: FunctionOf, choices: Choices
) -> tuple[Network, dict[str, Served]]:
    """Fold layers into the integer layers beside them."""
    network, folded = fold_clamps(network, served)
    network, folded = fold_channel_constants(network, folded)
    network, folded = fold_tables(network, folded, function)
    network, folded = fold_dequantized(network, folded)
    network, folded = fold_shuffles(network, folded)
    network, folded = fold_byte_chains(network, folded)
    if choices.tables:
        network, folded = fold_tables_behind(network, folded)
    if choices.sums:
        network, folded = fold_sums(network, folded)
    return fold_pixel_shuffles(network, folded)


def _with_expressions(
    network: Network, served: Mapping[str, Served], why_not: Mapping[str, Reason], choices: Choices
) -> Lowered:
    """Return the network with expressions for all layers that they compute. Of a layer of integers that runs elsewhere,
    the reason is why no kernel of integers computes it."""
    moving, _ = serve_moving(network, served)
    ends, _ = serve_ends(network, moving)
    network = unfolded(network, ends)
    ends, unsuppressed = serve_suppressions(network, ends)
    lights = taken_over(network, ends)
    network, here, left = fuse(network, ends)
    network, here = with_attention(network, here)
    waits = any(
        layer.name in lights and not layer.is_expression and not is_a_view(network, here.get(layer.name))
        for layer in network.layers
    )
    left |= unsuppressed
    reasons = {
        layer.name: why_not.get(layer.name, left[layer.name]) if is_of_integers(layer.op) else left[layer.name]
        for layer in network.layers
        if layer.name in left
    }
    network, arranged = find_regions(network, here, choices)
    return Lowered(network, arranged, reasons, waits)


def _sorted_out(network: Network) -> tuple[dict[str, Served], dict[str, Reason]]:
    """Return the layers that run on kernels, and the reasons of all others, by their names."""
    served: dict[str, Served] = {}
    why_not: dict[str, Reason] = {}
    for layer in network.layers:
        try:
            served[layer.name] = read_layer(layer, network)
        except Unserved as error:
            why_not[layer.name] = _with_remedy(network, layer, error.reason)
    return served, why_not


def _is_blocked(layer: Layer) -> bool:
    return layer.op.startswith(DOMAIN) and layer.op not in REORDERS


def _with_remedy(network: Network, layer: Layer, why: Reason) -> Reason:
    if layer.op in REORDERS:
        beside = (network.producers.get(layer.inputs[0]), *network.consumers.get(layer.outputs[0], ()))
        own = next((one.name for one in beside if one is not None and _is_blocked(one)), None)
        return Reason("it brings floats into the blocks of ONNX Runtime's own layers, or back", own)
    source = network.producers.get(layer.inputs[0]) if layer.inputs else None
    if source is not None and source.op in REORDERS:
        source = network.producers.get(source.inputs[0])
    if layer.op not in FLOAT_CONVOLUTIONS or source is None or source.op != "DequantizeLinear":
        return why
    said = "ONNX Runtime computes it in floats with these settings, and integers would be other bits"
    is_signed = network.tensor(source.inputs[0]).dtype == "int8"
    cure = 'bits="integers" makes it an integer layer, as uint8 activations do'
    return Reason(said, cure=cure if is_signed else None)
