"""The op `fused`: two or three convolutions in one kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from qconv.op import BETWEEN, Array, Op, Option, Sample, quoted, read_key
from qconv.ops.attempt import Given
from qconv.ops.convolution import conv2d, style_of, timed_arrays, towards
from qconv.ops.draft import draw_layer
from qconv.ops.window import windows
from qconv.problem.chain import Chain, FusedBlock, FusedConv2d, chain_of
from qconv.problem.convolution import FLAGS, Conv2d, read_conv2d

DRAWS = 4  # of a whole chain, at most
OPTIONS = (
    Option("first", "fused: the key of the first of two or three convolutions.", metavar="KEY", required=True),
    Option("second", "fused: the second key; fields of its input may be omitted.", metavar="KEY", required=True),
    Option("third", "fused: the third key, if there are three convolutions.", metavar="KEY"),
)


def read(key: str) -> Chain:
    return chain_of([_conv2d(key, one) for one in key.split(BETWEEN)])


def ask(given: dict[str, Any]) -> Chain:
    return chained(*(given[option.name] for option in OPTIONS if option.name in given))


def chained(*keys: str) -> Chain:
    """Return the chain of two or three keys. Fields that follow from the layer before may be omitted from a key."""
    problems = [_conv2d(keys[0], keys[0])]
    for key in keys[1:]:
        before = problems[-1]
        q = before.quantization
        _, told = read_key(key, FLAGS)
        follows = {"n": before.n, "h": before.oh, "w": before.ow, "c": before.k, "x_type": q.out_type}
        added = [f"{name}={value}" for name, value in follows.items() if name not in told]
        added += ["x_zero_point"] * (q.y_zero_point and "x_zero_point" not in told)
        problems.append(_conv2d(key, ":".join((key, *added))))
    return chain_of(problems)


def _conv2d(key: str, part: str) -> Conv2d:
    op, given = read_key(part, FLAGS)
    if op != "conv2d":
        raise ValueError(f"the key {quoted(key)} joins {quoted(op)} with another op; only conv2d can be joined")
    return read_conv2d(part, given)


def draw(problem: Chain, seed: int, fixed: dict[str, int]) -> Sample:
    """Draw data for the whole chain. Draw all of it again where one layer's output leaves the next without variety."""
    rng = np.random.default_rng(seed)
    drawn, lacks = _draft(problem, rng, fixed)
    for _ in range(DRAWS - 1):
        if not lacks:
            break
        drawn, lacks = _draft(problem, rng, fixed)
    return replace(drawn, forced=(*drawn.forced, *(f"{lack}, in {DRAWS} draws" for lack in lacks)))


def _draft(problem: Chain, rng: np.random.Generator, fixed: dict[str, int]) -> tuple[Sample, list[str]]:
    """Return one draw, and which variety its layers lack for no known reason."""
    arrays: list[Array] = []
    parameters: dict[str, Any] = {}
    forced: list[str] = []
    lacks: list[str] = []
    given: Given | None = None
    every = windows(list(problem.layers.values()), rng)
    style = style_of(every, rng)
    chosen = {layer: problem.of_layer(layer, fixed) for layer in problem.layers}
    reads = [*(seen.reads for seen in every[1:]), None]
    for (layer, one), seen, wanted in zip(problem.layers.items(), every, reads, strict=True):
        side = towards(one.quantization, chosen[layer])
        drawn = draw_layer(seen, rng, chosen[layer], style, side, given, wanted)
        arrays += drawn.arrays
        names = problem.names(layer)
        parameters |= {names[own]: value for own, value in drawn.parameters.items() if own in names}
        if drawn.forced:
            forced.append(f"{layer}: {drawn.forced}")
        elif drawn.lacks:
            lacks.append(f"{layer}: {drawn.lacks}")
        if layer != problem.LAYERS[-1]:
            q = drawn.parameters
            given = Given(q.get("y_scale", 1.0), q["y_zero_point"], seen.pixels, drawn.rows, drawn.largest)
    return Sample(tuple(arrays), parameters, tuple(forced), timed_arrays(tuple(arrays), rng)), lacks


def compute(problem: Chain, drawn: Sample) -> tuple[Array, ...]:
    values = problem.checked(drawn.parameters)
    x, *others = drawn.arrays
    for layer, one in problem.layers.items():
        w, *others = others
        x = conv2d(one, x, w, getattr(values, layer), *(others if layer == problem.LAYERS[-1] else ()))
    return (x,)


OP = Op(
    name="fused",
    says="Two or three convolutions in a row, each of what the one before gives.",
    problems=(FusedConv2d, FusedBlock),
    read=read,
    ask=ask,
    options=OPTIONS,
    draw=draw,
    compute=compute,
    instead="give --first KEY and --second KEY, of three --third KEY too, which say everything",
    joins="conv2d",
)
