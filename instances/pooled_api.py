"""A convolution with a max pool behind it in one line: the faster of one kernel and two is looked up."""

from __future__ import annotations

from typing import Any

from qconv.instances.api import conv2d_problem, run
from qconv.instances.array_kinds import AnyArray, Extents, Numbers, gives_one
from qconv.mode import Mode
from qconv.pooled import PooledConv2d


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
    stride: Extents = 1,
    dilation: Extents = 1,
    pad: Extents = 0,
    groups: int = 1,
    w_layout: str = "krsc",
    x_scale: Numbers = 1.0,
    w_scale: Numbers = 1.0,
    y_scale: Numbers = 1.0,
    x_zero_point: Numbers = 0,
    w_zero_point: Numbers = 0,
    y_zero_point: Numbers = 0,
    bias: Numbers | None = None,
    activation: str = "none",
    slope: Numbers | None = None,
    low: Numbers | None = None,
    high: Numbers | None = None,
    table: AnyArray | None = None,
    out_type: str = "int8",
    mode: str | Mode | None = None,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """`max_pool` of `conv2d`: NHWC `x`, KRSC weights. Where one kernel is fastest, what is between them never reaches
    memory.

    `window`, `window_stride`, `window_pad` and `ceil_mode` are the pool's; all else is as of `conv2d`."""
    convolution = conv2d_problem(
        x, w, stride=stride, dilation=dilation, pad=pad, groups=groups, w_layout=w_layout,
        w_scale=w_scale, x_zero_point=x_zero_point, w_zero_point=w_zero_point, y_zero_point=y_zero_point, bias=bias,
        activation=activation, table=table, out_type=out_type, mode=mode,
    )  # fmt: skip
    of_pool = {"window_stride": window_stride, "window_pad": window_pad, "ceil_mode": ceil_mode}
    problem = PooledConv2d.over(convolution, window=window, **of_pool)
    return run(
        problem, (x, w), device, w_layout=w_layout, out=out, stream=stream,
        x_scale=x_scale, w_scale=w_scale, y_scale=y_scale,
        x_zero_point=x_zero_point, w_zero_point=w_zero_point, y_zero_point=y_zero_point, bias=bias,
        slope=slope, low=low, high=high, table=table,
    )  # fmt: skip
