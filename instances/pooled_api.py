"""A convolution with a max pool behind it in one line: the faster of one kernel and two is looked up."""

from __future__ import annotations

from typing import Any

from qconv.instances.api import conv2d_problem, run
from qconv.instances.array_kinds import AnyArray, Extents, gives_one
from qconv.pooled import PooledConv2d

# Arguments of a convolution that say which kernel it is, those that are values of a call, and those that are both.
_SHAPE = ("stride", "dilation", "pad", "groups", "activation", "out_type", "mode")
_BOTH = ("w_layout", "w_scale", "x_zero_point", "w_zero_point", "y_zero_point", "bias", "table")
_VALUES = ("x_scale", "y_scale", "slope", "low", "high")


@gives_one
def conv2d_pool(
    x: Any,
    /,
    w: AnyArray,
    window: Extents,
    *,
    window_stride: Extents = 1,
    window_pad: Extents = 0,
    ceil_mode: bool = False,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
    **parameters: Any,
) -> Any:
    """`max_pool` of `conv2d`: NHWC `x`, KRSC weights. Where one kernel is fastest, what is between them never reaches
    memory.

    `window`, `window_stride`, `window_pad` and `ceil_mode` are the pool's. Everything else is conv2d's, without
    `layout` and a residual."""
    if unknown := [name for name in parameters if name not in (*_SHAPE, *_BOTH, *_VALUES)]:
        raise ValueError(f"{unknown[0]} is not known; conv2d_pool takes {', '.join((*_SHAPE, *_BOTH, *_VALUES))}")
    asked = {name: parameters[name] for name in (*_SHAPE, *_BOTH) if name in parameters}
    of_pool = {"window": window, "window_stride": window_stride, "window_pad": window_pad, "ceil_mode": ceil_mode}
    problem = PooledConv2d.over(conv2d_problem(x, w, **asked), **of_pool)
    values = {name: value for name, value in parameters.items() if name not in _SHAPE}
    return run(problem, (x, w), device, out=out, stream=stream, **values)
