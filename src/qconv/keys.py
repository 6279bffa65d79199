"""A problem's canonical key, read back: `parse(str(problem)) == problem`."""

from __future__ import annotations

from qconv import conversion
from qconv.fused import BETWEEN, Chain, chain_of
from qconv.op import Problem, read_key, short
from qconv.problem import FLAGS, Conv2d, read_conv2d


def parse(key: str) -> Problem:
    """The problem that a key names. Order and omitted defaults are free; anything unknown or given twice is refused."""
    if BETWEEN in key:
        return chain_of([_conv2d(key, one) for one in key.split(BETWEEN)])
    op, given = read_key(key, (*FLAGS, *conversion.FLAGS))
    if op == "conv2d":
        return read_conv2d(key, given)
    if op not in conversion.OPS:
        known = ", ".join(("conv2d", *conversion.OPS))
        raise ValueError(f"the key {short(key)!r} names the op {short(op)!r}; known: {known}")
    return conversion.OPS[op].read(given)


def chained(*keys: str) -> Chain:
    """Of two or three keys. What one takes may be left out of it: it follows from the one before."""
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
        raise ValueError(f"the key {short(key)!r} joins {short(op)!r} with another op; only conv2d can be joined")
    return read_conv2d(part, given)
