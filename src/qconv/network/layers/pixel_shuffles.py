"""DepthToSpace behind an integer convolution, which then stores its channels as the pixels that they become; and
SpaceToDepth in front of one, whose filter then moves over the blocks of pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qconv.network.graph.graph import Network
from qconv.network.graph.served import Served
from qconv.network.layers.convolution import IntegerConvolution
from qconv.network.layers.packed_convolution import Uploaded
from qconv.network.layers.pixel_blocks import Blocks
from qconv.network.layers.window import auto_pad_of
from qconv.problem.transposed import PER_OUTPUT


def fold_pixel_shuffles(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Fold blocks of pixels into the convolution beside them, if nothing else reads what lies between."""
    layers, folded = {layer.name: layer for layer in network.layers}, dict(served)
    for name, blocks in served.items():
        if not isinstance(blocks, Blocks):
            continue
        made = _before(network, folded, blocks) if blocks.to_space else _behind(network, folded, blocks)
        if made is not None:
            layers[made.layer.name] = made.layer
            folded[made.layer.name] = made
            del layers[name], folded[name]
    return replace(network, layers=tuple(layers.values())), folded


def _before(network: Network, served: Mapping[str, Served], blocks: Blocks) -> IntegerConvolution | None:
    """Return the convolution before the blocks with them folded in, or None where it stores none."""
    maker = network.producers.get(blocks.inputs[0])
    before = None if maker is None else served.get(maker.name)
    if not isinstance(before, IntegerConvolution) or not _may_store_blocks(before, blocks):
        return None
    return _with_blocks(before, blocks) if network.only_consumer(before.y) == blocks.layer else None


def _behind(network: Network, served: Mapping[str, Served], blocks: Blocks) -> IntegerConvolution | None:
    """Return the convolution behind the blocks with them folded in, or None where it reads them as they are."""
    reader = network.only_consumer(blocks.y)
    behind = None if reader is None else served.get(reader.name)
    if not isinstance(behind, IntegerConvolution) or behind.x != blocks.y or not _may_read_blocks(behind, blocks):
        return None
    return _over_blocks(behind, blocks)


def _may_store_blocks(convolution: IntegerConvolution, blocks: Blocks) -> bool:
    """True for a convolution alone. Its channels are in the order of the blocks, so that it has no groups."""
    is_alone = convolution.added is None and convolution.pooled is None and not convolution.is_shuffled
    of_blocks = len(convolution.weights) % blocks.size**2 == 0
    return is_alone and of_blocks and convolution.axes == 2 and convolution.groups == 1


def _with_blocks(convolution: IntegerConvolution, blocks: Blocks) -> IntegerConvolution:
    """Return the convolution with its output channels by row of the block, column, and the rest."""
    k, size = len(convolution.weights), blocks.size
    order = np.arange(k)
    if not blocks.parts_first:
        order = order.reshape(-1, size, size).transpose(1, 2, 0).reshape(-1)
    given = {
        name: value[order] if name in PER_OUTPUT and np.shape(value) == (k,) else value
        for name, value in convolution.parameters.items()
    }
    layer = replace(convolution.layer, outputs=blocks.layer.outputs, parts=(convolution.layer, blocks.layer))
    return replace(
        convolution,
        layer=layer,
        y=blocks.y,
        weights=np.ascontiguousarray(convolution.weights[order]),
        parameters=given,
        attributes={**convolution.attributes, "pixel_shuffle": size},
        _uploaded=Uploaded(),
    )


def _may_read_blocks(convolution: IntegerConvolution, blocks: Blocks) -> bool:
    """True for a filter without gaps and groups whose pads are numbers."""
    given = convolution.attributes
    has_gaps = any(gap != 1 for gap in given.get("dilations") or ())
    is_plain = convolution.axes == 2 and convolution.groups == 1 and auto_pad_of(given) == "NOTSET"
    others = convolution.inputs[1:]
    return is_plain and not has_gaps and convolution.channels % blocks.size**2 == 0 and blocks.y not in others


def _over_blocks(convolution: IntegerConvolution, blocks: Blocks) -> IntegerConvolution:
    """Return the convolution of pixels: a tap of the blocks is as many taps down and across as a block has pixels."""
    size, given = blocks.size, convolution.attributes
    k, c, r, s = convolution.weights.shape
    by_pixel = convolution.weights.reshape(k, size, size, c // size**2, r, s).transpose(0, 3, 4, 1, 5, 2)
    attributes = {name: value for name, value in given.items() if name not in ("kernel_shape", "strides", "pads")}
    attributes["strides"] = tuple(size * step for step in given.get("strides") or (1, 1))
    attributes["pads"] = tuple(size * pad for pad in given.get("pads") or (0, 0, 0, 0))
    parts = (blocks.layer, convolution.layer)
    inputs = tuple(blocks.inputs[0] if name == blocks.y else name for name in convolution.layer.inputs)
    return replace(
        convolution,
        layer=replace(convolution.layer, inputs=inputs, parts=parts),
        x=blocks.inputs[0],
        weights=np.ascontiguousarray(by_pixel.reshape(k, c // size**2, r * size, s * size)),
        attributes=attributes,
        _uploaded=Uploaded(),
    )
