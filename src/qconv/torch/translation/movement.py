"""Ops that move elements: shapes, orders of axes, parts, concatenations, padding and shuffles of pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from qconv.torch.extents import Extent, extent_of
from qconv.torch.pattern import Unmatched, arguments, target_of
from qconv.torch.translation.node_layers import NodeLayers, Translate

RESHAPES = (
    *("aten.reshape.default", "aten.view.default", "aten._unsafe_view.default", "aten.flatten.using_ints"),
    *("aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default", "aten.unsqueeze.default", "aten.unflatten.int"),
)
# Ops that give several tensors, of which each is read by its number.
SPLITS = ("aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default", "aten.unbind.int")
GETITEM = "<built-in function getitem>"
# PyTorch's modes of padding, and ONNX's.
MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _reshape(layers: NodeLayers) -> None:
    layers.result("Reshape", layers.x("self"))


def _permute(layers: NodeLayers) -> None:
    layers.result("Transpose", layers.x("self"), perm=[axis % layers.rank for axis in layers.value("dims")])


def _transpose(layers: NodeLayers) -> None:
    perm = list(range(layers.rank))
    one, other = layers.axis("dim0"), layers.axis("dim1")
    perm[one], perm[other] = other, one
    layers.result("Transpose", layers.x("self"), perm=perm)


def _matrix(layers: NodeLayers) -> None:
    layers.result("Transpose", layers.x("self"), perm=list(range(layers.rank))[::-1])


def _expand(layers: NodeLayers) -> None:
    layers.result("Expand", layers.x("self"), shape=list(layers.shape))


def _repeat(layers: NodeLayers) -> None:
    x, repeats = layers.x("self"), layers.value("repeats")
    shape = layers.of("self").shape
    whole = (*(1,) * (len(repeats) - len(shape)), *shape)
    layers.result("Tile", layers.made("Reshape", (x,), layers.dtype, whole), repeats=list(repeats))


def _number(value: Any) -> Extent:
    """Return an argument that is an integer, or a size of a tensor."""
    return extent_of(value.meta["val"] if isinstance(value, torch.fx.Node) else value)


def _slice(layers: NodeLayers) -> None:
    start, end = (layers.given[name] for name in ("start", "end"))
    axis = layers.axis("dim")
    whole = layers.of("self").shape[axis]
    layers.result(
        "Slice",
        layers.x("self"),
        starts=[0 if start is None else _number(start)],
        ends=[whole if end is None else _number(end)],
        axes=[axis],
        steps=[layers.value("step")],
    )


def _taken(layers: NodeLayers, x: str, axis: int, begin: Extent, size: int, removes: bool) -> None:
    """Take elements of an axis, which a single one may remove."""
    end = begin + size if isinstance(begin, int) else f"({begin}) + {size}"
    part = {"starts": [begin], "ends": [end], "axes": [axis], "steps": [1]}
    if not removes:
        layers.result("Slice", x, **part)
        return
    shape = list(layers.shape)
    shape.insert(axis, size)
    layers.same(layers.made("Slice", (x,), layers.dtype, shape, **part))


def _select(layers: NodeLayers) -> None:
    shape = layers.of("self").shape
    axis, index = layers.axis("dim", len(shape)), _number(layers.given["index"])
    if isinstance(index, int) and index < 0:
        if not isinstance(extent := shape[axis], int):
            raise Unmatched("it counts from the end of an axis of dynamic extent")
        index += extent
    _taken(layers, layers.x("self"), axis, index, 1, True)


def part_of(node: Any) -> tuple[Any, int] | None:
    """Return the node with several outputs, and the number of the one that a node takes; None for another node."""
    is_part = node.op == "call_function" and str(node.target) == GETITEM
    return (node.args[0], node.args[1]) if is_part and isinstance(node.args[0], torch.fx.Node) else None


def split_part(layers: NodeLayers) -> None:
    """Translate one output of a split."""
    found = part_of(layers.node)
    assert found is not None
    source, number = found
    given, values = arguments(source), source.meta["val"]
    x = given["self"]
    axis = int(given["dim"]) % len(layers.of(x).shape)
    removes = target_of(source) == "aten.unbind.int"
    sizes = [1 if removes else extent_of(each.shape[axis]) for each in values]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes):
        raise Unmatched("it splits an axis of dynamic extent")
    _taken(layers, layers.x(x), axis, sum(known[:number]), known[number], removes)


def _flip(layers: NodeLayers) -> None:
    axes = [axis % layers.rank for axis in layers.value("dims")]
    count = len(axes)
    layers.result(
        "Slice", layers.x("self"), starts=[-1] * count, ends=[-(2**31)] * count, axes=axes, steps=[-1] * count
    )


def _joined(layers: NodeLayers, parts: Sequence[Any]) -> list[str]:
    """Return tensors that are joined, in the type of the output."""
    return [layers.cast(layers.x(part), layers.dtype) for part in parts]


def _concatenate(layers: NodeLayers) -> None:
    parts = [part for part in layers.given["tensors"] if layers.of(part).shape != (0,)]
    if not parts:
        raise Unmatched("all that it joins is empty")
    layers.result("Concat", *_joined(layers, parts), axis=layers.axis("dim"))


def _stack(layers: NodeLayers) -> None:
    axis = layers.axis("dim")
    shape = (*layers.shape[:axis], 1, *layers.shape[axis + 1 :])
    parts = _joined(layers, layers.given["tensors"])
    layers.result("Concat", *(layers.made("Reshape", (part,), layers.dtype, shape) for part in parts), axis=axis)


def _pad(layers: NodeLayers) -> None:
    """Translate a padding, whose pads PyTorch counts from the last axis, before and behind."""
    mode = layers.given.get("mode", "constant")
    if mode not in MODES:
        raise Unmatched(f"its mode is {mode}; expressions pad by {', '.join(MODES)}")
    given = layers.value("pad")
    axes = [layers.rank - 1 - at for at in range(len(given) // 2)]
    inputs = [layers.x("self"), "", ""]
    if mode == "constant":
        value = layers.given["value"]
        inputs[2] = layers.number(0 if value is None else layers.value("value"), layers.dtype)
    pads = [0] * 2 * layers.rank
    for axis, before, behind in zip(axes, given[::2], given[1::2], strict=True):
        pads[axis], pads[layers.rank + axis] = before, behind
    layers.result("Pad", *inputs, pads=pads, mode=MODES[mode])


def _pixels(op: str, factor: str, layers: NodeLayers) -> None:
    """Translate a shuffle of pixels to channels or back; channels are slower than the places of a block."""
    if layers.rank != 4:
        raise Unmatched(f"its output has {layers.rank} axes; expressions shuffle pixels of images in batches")
    n, c, h, w = layers.of("self").shape
    size = layers.value(factor)
    x = layers.x("self")
    if op == "DepthToSpace":
        layers.result(op, x, blocksize=size, mode="CRD")
        return
    # ONNX has the places of a block slower than the channels alone.
    if not (isinstance(c, int) and isinstance(h, int) and isinstance(w, int)):
        raise Unmatched("its images have a dynamic extent")
    parts = layers.made("Reshape", (x,), layers.dtype, (n, c, h // size, size, w // size, size))
    shape = (n, c, size, size, h // size, w // size)
    layers.same(layers.made("Transpose", (parts,), layers.dtype, shape, perm=[0, 1, 3, 5, 2, 4]))


def _channel_shuffle(layers: NodeLayers) -> None:
    n, c, *rest = layers.shape
    groups = layers.value("groups")
    if not isinstance(c, int):
        raise Unmatched("its channels are dynamic")
    split: Sequence[Extent] = (n, groups, c // groups, *rest)
    turned: Sequence[Extent] = (n, c // groups, groups, *rest)
    parts = layers.made("Reshape", (layers.x("self"),), layers.dtype, split)
    perm = [0, 2, 1, *range(3, len(split))]
    layers.same(layers.made("Transpose", (parts,), layers.dtype, turned, perm=perm))


TABLE: Mapping[str, Translate] = {
    **dict.fromkeys(RESHAPES, _reshape),
    "aten.permute.default": _permute,
    "aten.transpose.int": _transpose,
    "aten.t.default": _matrix,
    "aten.expand.default": _expand,
    "aten.repeat.default": _repeat,
    "aten.slice.Tensor": _slice,
    "aten.select.int": _select,
    "aten.flip.default": _flip,
    "aten.cat.default": _concatenate,
    "aten.stack.default": _stack,
    "aten.pad.default": _pad,
    "aten.constant_pad_nd.default": _pad,
    "aten.pixel_shuffle.default": partial(_pixels, "DepthToSpace", "upscale_factor"),
    "aten.pixel_unshuffle.default": partial(_pixels, "SpaceToDepth", "downscale_factor"),
    "aten.channel_shuffle.default": _channel_shuffle,
}
