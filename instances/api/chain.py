"""Chains of two or three convolutions, or of a convolution and a max pool, as single functions. The lookup chooses the
faster of one fused kernel and several kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qconv.arithmetic.quantization import X_TYPES
from qconv.instances.api.array_kinds import AnyArray, Extents, Numbers, gives_one
from qconv.instances.api.convolution import conv2d_problem, run
from qconv.op import quoted
from qconv.problem.chain import MIDS, OF_EACH, WORDS, Chain, chain_of
from qconv.problem.convolution import Conv2d
from qconv.problem.pooled import PooledConv2d

# Arguments of a convolution that select the kernel and are not values of a call.
_SHAPE = ("stride", "dilation", "pad", "groups", "activation", "out_type", "mode")


@gives_one
def conv2d_conv2d(
    x: Any,
    /,
    w1: AnyArray,
    w2: AnyArray,
    w3: AnyArray | None = None,
    *,
    first: Mapping[str, Any] | None = None,
    second: Mapping[str, Any] | None = None,
    third: Mapping[str, Any] | None = None,
    x_scale: Numbers = 1.0,
    x_zero_point: Numbers = 0,
    mid_scale: Numbers = 1.0,
    mid_zero_point: Numbers = 0,
    mid2_scale: Numbers | None = None,
    mid2_zero_point: Numbers | None = None,
    y_scale: Numbers = 1.0,
    y_zero_point: Numbers = 0,
    residual: AnyArray | None = None,
    residual_scale: Numbers | None = None,
    residual_zero_point: Numbers = 0,
    out: AnyArray | None = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """`conv2d` applied two or three times (three with `w3`), with NHWC `x` and KRSC weights. The first intermediate
    tensor is int8 (or the `out_type` of `first`) at `mid_scale` and `mid_zero_point`, the second one is at `mid2_scale`
    and `mid2_zero_point`. Where a fused kernel is fastest, they never reach device memory.

    `first`, `second` and `third` are dicts of the other arguments of each `conv2d`: stride, dilation, pad, groups,
    w_scale, w_zero_point, bias, activation with slope, low and high, mode, and `out_type`. The last convolution adds
    the residual.
    """
    of_three = {"third": third, "mid2_scale": mid2_scale, "mid2_zero_point": mid2_zero_point}
    if w3 is None and (name := next((name for name, value in of_three.items() if value is not None), None)):
        raise ValueError(f"{name} was given without w3: give the third convolution's weights, or leave it out")
    weights = (w1, w2) if w3 is None else (w1, w2, w3)
    of = _checked({"first": first, "second": second, "third": third}, len(weights))
    values = {
        "x_scale": x_scale, "x_zero_point": x_zero_point, "mid_scale": mid_scale, "mid_zero_point": mid_zero_point,
        "y_scale": y_scale, "y_zero_point": y_zero_point,
        "residual_scale": residual_scale, "residual_zero_point": residual_zero_point,
    }  # fmt: skip
    if w3 is not None:
        values["mid2_scale"] = 1.0 if mid2_scale is None else mid2_scale
        values["mid2_zero_point"] = 0 if mid2_zero_point is None else mid2_zero_point
    problem, values = chain_call(x, weights, of, values, residual)
    return run(problem, (x, *weights, residual), device, out=out, stream=stream, **values)


def chain_call(
    x: Any, weights: Sequence[Any], of: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any], residual: Any
) -> tuple[Chain, dict[str, Any]]:
    """Return the problem of a call, from the shapes and types of its arrays, and all parameters under their names in
    the chain. `of` holds the arguments of each convolution, `values` all others."""
    problems: list[Conv2d] = []
    taken, zero_point = x, values["x_zero_point"]
    for (name, own), w, gives in zip(of.items(), weights, (*MIDS[: len(of) - 1], "y"), strict=True):
        added = {"residual": residual, "residual_zero_point": values["residual_zero_point"]} if gives == "y" else {}
        given_zero_point = values[f"{gives}_zero_point"]
        try:
            made = conv2d_problem(
                taken, w, x_zero_point=zero_point, y_zero_point=given_zero_point, **added, **_of_problem(own)
            )
            if gives != "y" and (out_type := made.quantization.out_type) not in X_TYPES:
                raise ValueError(f"out_type={out_type!r}, which the next would multiply; it has {' or '.join(X_TYPES)}")
        except ValueError as error:
            raise ValueError(f"of the {name} convolution: {error}") from None
        problems.append(made)
        taken, zero_point = Shaped(made.y_shape, made.quantization.out_type), given_zero_point
    problem = chain_of(problems)
    own_values = {problem.names(layer)[name]: own[name] for layer, own in of.items() for name in OF_EACH if name in own}
    return problem, {**values, **own_values}


def _checked(given: Mapping[str, Mapping[str, Any] | None], count: int) -> dict[str, Mapping[str, Any]]:
    """Check the arguments of the first `count` convolutions."""
    of = {name: {} if own is None else own for name, own in list(given.items())[:count]}
    for name, own in of.items():
        if not isinstance(own, Mapping):
            raise ValueError(f"{name}={quoted(own)} must be a dict of what conv2d takes, as in {{'stride': 2}}")
        if unknown := [key for key in own if key not in (*_SHAPE, *OF_EACH)]:
            raise ValueError(
                f"{name}={{{unknown[0]!r}: ...}} is not known; each of the {WORDS[count]} takes "
                f"{', '.join((*_SHAPE, *OF_EACH))}"
            )
    return of


def _of_problem(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in ("slope", "low", "high")}


class Shaped:
    """Shape and type of a tensor that does not exist yet, such as an intermediate one."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape = shape
        self.dtype = dtype


# Arguments of a convolution that select the kernel and are values of a call as well, and those that are values only.
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
    """`max_pool` of `conv2d`, with NHWC `x` and KRSC weights. Where a fused kernel is fastest, the intermediate tensor
    never reaches device memory.

    `window`, `window_stride`, `window_pad` and `ceil_mode` are the pool's arguments. All others are those of conv2d,
    except `layout` and the residual.
    """
    if unknown := [name for name in parameters if name not in (*_SHAPE, *_BOTH, *_VALUES)]:
        raise ValueError(f"{unknown[0]} is not known; conv2d_pool takes {', '.join((*_SHAPE, *_BOTH, *_VALUES))}")
    arguments = {name: parameters[name] for name in (*_SHAPE, *_BOTH) if name in parameters}
    of_pool = {"window": window, "window_stride": window_stride, "window_pad": window_pad, "ceil_mode": ceil_mode}
    problem = PooledConv2d.over(conv2d_problem(x, w, **arguments), **of_pool)
    values = {name: value for name, value in parameters.items() if name not in _SHAPE}
    return run(problem, (x, w), device, out=out, stream=stream, **values)
