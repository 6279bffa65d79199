"""Strides, dilations and pads from ONNX's attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
# The most pixels that windows may leave uncovered. With more, ONNX Runtime's windows start after the first pixel, as if
# the padding were negative.
MOST_LEFT_OVER = {"SAME_UPPER": 2, "SAME_LOWER": 3}


def auto_pad_of(attributes: Mapping[str, Any]) -> str:
    pad = attributes.get("auto_pad", b"NOTSET")
    return pad.decode() if isinstance(pad, bytes) else str(pad)


def check_auto_pad(attributes: Mapping[str, Any]) -> None:
    pad = auto_pad_of(attributes)
    if pad not in AUTO_PADS:
        raise ValueError(f"auto_pad={pad!r}; supported are {', '.join(AUTO_PADS)}")
    if pad != "NOTSET" and any(attributes.get("pads", ())):
        raise ValueError(f"auto_pad={pad!r} and pads={attributes['pads']}: ONNX allows one only")


def sides(attributes: Mapping[str, Any], sizes: Sequence[int], filters: Sequence[int]) -> dict[str, Any]:
    """Return stride, dilation and pad along h and w. A single axis is w."""
    axes = len(sizes)
    kernel = tuple(attributes.get("kernel_shape", filters))
    if kernel != tuple(filters):
        raise ValueError(f"kernel_shape={kernel}, but w is {tuple(filters)} along these axes: make the two agree")
    stride, dilation = (tuple(attributes.get(name) or (1,) * axes) for name in ("strides", "dilations"))
    pads = tuple(attributes.get("pads") or (0,) * (2 * axes))
    for name, values, count in (("strides", stride, axes), ("dilations", dilation, axes), ("pads", pads, 2 * axes)):
        if len(values) != count:
            raise ValueError(f"{name}={values} with {axes} axes: it must have {count} numbers")
    begins, ends = pads[:axes], pads[axes:]
    if auto_pad_of(attributes).startswith("SAME"):
        begins, ends = _same(auto_pad_of(attributes), sizes, filters, stride, dilation)
    zeros, ones = (0,) * (2 - axes), (1,) * (2 - axes)
    return {
        "stride": (*ones, *stride),
        "dilation": (*ones, *dilation),
        "pad": (*zeros, *begins, *zeros, *ends),
    }


def transposed_extents(
    attributes: Mapping[str, Any], sizes: Sequence[int], strides: Sequence[int], whole: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the extents of a transposed convolution's output, and the outputs that are removed in front of each.
    `whole` has the extents before any is removed."""
    axes, pad = len(sizes), auto_pad_of(attributes)
    asked = attributes.get("output_shape")
    if asked is None and pad in ("NOTSET", "VALID"):
        pads = (attributes.get("pads") if pad == "NOTSET" else None) or (0,) * (2 * axes)
        return [whole[at] - pads[at] - pads[at + axes] for at in range(axes)], [int(each) for each in pads[:axes]]
    outs = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    if asked is not None:
        outs = [int(each) for each in asked][-axes:]
    total = [max(size - out, 0) for size, out in zip(whole, outs, strict=True)]
    return outs, [each // 2 if pad == "SAME_UPPER" else each - each // 2 for each in total]


def _same(auto_pad: str, *along: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding before and after each axis that gives ceil(size / stride) outputs. An odd pixel goes where the
    name says."""
    totals = []
    for size, filter_size, stride, dilation in zip(*along, strict=True):
        total = (-(-size // stride) - 1) * stride + (filter_size - 1) * dilation + 1 - size
        if -total > MOST_LEFT_OVER[auto_pad]:
            raise ValueError(
                f"auto_pad={auto_pad!r} with a filter of {filter_size} that moves by {stride} along {size} pixels: "
                "ONNX Runtime does not begin at the first pixel, as the kernels do; give pads=0 for that"
            )
        totals.append(max(total, 0))
    less, more = tuple(total // 2 for total in totals), tuple(total - total // 2 for total in totals)
    return (less, more) if auto_pad == "SAME_UPPER" else (more, less)
