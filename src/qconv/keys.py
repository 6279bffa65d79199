"""A problem's canonical key, read back: `parse(str(problem)) == problem`."""

from __future__ import annotations

from qconv import conversion
from qconv.fused import BETWEEN, FusedConv2d
from qconv.op import Problem, read_key, short
from qconv.problem import FLAGS, Conv2d, read_conv2d


def parse(key: str) -> Problem:
    """The problem that a key names. Order and omitted defaults are free; anything unknown or given twice is refused."""
    first, between, second = key.partition(BETWEEN)
    if between:
        return FusedConv2d(_conv2d(key, first), _conv2d(key, second))
    op, given = read_key(key, (*FLAGS, *conversion.FLAGS))
    if op == "conv2d":
        return read_conv2d(key, given)
    if op not in conversion.OPS:
        known = ", ".join(("conv2d", *conversion.OPS))
        raise ValueError(f"the key {short(key)!r} names the op {short(op)!r}; known: {known}")
    return conversion.OPS[op].read(given)


def chained(first: str, second: str) -> FusedConv2d:
    """Of two keys. What the second takes may be left out of it: it follows from the first."""
    one = _conv2d(first, first)
    q = one.quantization
    _, told = read_key(second, FLAGS)
    follows = {"n": one.n, "h": one.oh, "w": one.ow, "c": one.k, "x_type": q.out_type}
    added = [f"{name}={value}" for name, value in follows.items() if name not in told]
    added += ["x_zero_point"] * (q.y_zero_point and "x_zero_point" not in told)
    return FusedConv2d(one, _conv2d(second, ":".join((second, *added))))


def _conv2d(key: str, half: str) -> Conv2d:
    op, given = read_key(half, FLAGS)
    if op != "conv2d":
        raise ValueError(f"the key {short(key)!r} joins {short(op)!r} with another op; only two conv2d can be joined")
    return read_conv2d(half, given)
