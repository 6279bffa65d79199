"""Random problems of `reduce`: the reductions of networks, and folds of every type in every layout."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import prod

from qconv.expression import Reduce

# Expressions of the element x, of n columns, with a number g per column and a number h per row.
FLOATS = {
    "softmax": "m=maximum_of(x);e=exp(subtract(x,m));s=sum_of(e);y=divide(e,s)",
    "logarithm's argument": "m=maximum_of(x);y=sum_of(exp(subtract(x,m)))",
    "normalization": "a=divide(sum_of(x),n);d=subtract(x,a);v=divide(sum_of(multiply(d,d)),n);"
    "i=divide(1.0,sqrt(add(v,1e-05)));y=add(multiply(multiply(d,i),g),h)",
    "mean": "y=divide(sum_of(x),n)",
    "norm": "y=sqrt(sum_of(multiply(x,x)))",
    "range": "y=subtract(maximum_of(x),minimum_of(x))",
    "product": "y=product_of(add(1.0,multiply(x,0.001)))",
    "weighted": "y=add(sum_of(multiply(x,g)),h)",
    "scaled by the largest": "a=maximum_of(maximum(x,negate(x)));y=divide(x,a)",
    "of numbers": "y=add(sum_of(1.0),sum_of(h))",
}
INTEGERS = {
    "sum": "y=sum_of(x)",
    "product": "y=product_of(x)",
    "first largest": "y=P(argmax_of(x))",
    "first least": "y=P(argmin_of(x))",
    "range": "y=subtract(maximum_of(x),minimum_of(x))",
    "distance": "y=subtract(maximum_of(x),x)",
    "largest and where": "y=add(maximum_of(x),P(argmax_of(x)))",
}
BOOLS = {
    "any": "y=maximum_of(x)",
    "all": "y=minimum_of(x)",
    "any, as a sum": "y=sum_of(x)",
    "all, as a product": "y=product_of(x)",
    "first": "y=argmax_of(x)",
}


def reductions(seed: int, count: int) -> list[Reduce]:
    rng = random.Random(f"reductions {seed}")
    return [_reduction(rng) for _ in range(count)]


def _reduction(rng: random.Random) -> Reduce:
    rows = [rng.choice((1, 2, 3, 4, 8, 16)) for _ in range(rng.randint(0, 2))]
    columns = [rng.choice((1, 3, 8, 10, 16, 33, 64, 257, 640, 1024)), *rng.choice(((), (), (2,), (7,)))]
    kind = rng.choice(("float", "float", "int8", "integer", "bool"))
    if kind == "bool":
        name = rng.choice(list(BOOLS))
        return reduction(rows, columns, "bool", BOOLS[name], "int32" if name == "first" else "bool", _order(rng))
    if kind == "integer":
        dtype = rng.choice(("int8", "uint8", "int32", "int64"))
        text = rng.choice(list(INTEGERS.values())).replace("P(", "to_int64(" if dtype == "int64" else "to_int32(")
        return reduction(rows, columns, dtype, text, "int64" if dtype == "int64" else "int32", _order(rng))
    dtype = "int8" if kind == "int8" else rng.choice(("float16", "float32"))
    text = rng.choice(list(FLOATS.values()))
    return reduction(rows, columns, dtype, text, rng.choice(("float16", "float32")), _order(rng))


def _order(rng: random.Random) -> Callable[[Sequence[str]], Sequence[str]]:
    """Return how the axes lie in memory: rows or columns innermost, or mixed."""
    choice = rng.choice(("rows outside", "rows outside", "rows inside", "mixed"))
    if choice == "mixed":
        return lambda names: rng.sample(list(names), len(names))
    return inside if choice == "rows inside" else list


def inside(names: Sequence[str]) -> list[str]:
    """Return the axes of columns before those of rows, which are then the innermost."""
    return sorted(names, key=lambda name: name[0])


def between(names: Sequence[str]) -> list[str]:
    """Return the axes of groups in NHWC: the image, its pixels, the group, and the channels within it."""
    first, group, pixels, channels = names
    return [first, pixels, group, channels]


def pixels_outside(names: Sequence[str]) -> list[str]:
    """Return the axes of images in NHWC, of which the first row is the image and the last row the channel."""
    return [names[0], *(name for name in names if name[0] == "c"), names[1]]


def reduction(
    rows: Sequence[int],
    columns: Sequence[int],
    dtype: str,
    text: str,
    y_type: str,
    order: Callable[[Sequence[str]], Sequence[str]] = list,
) -> Reduce:
    """Return the reduction of an operand x0 with these axes, whose element is x in the text."""
    extents = {f"r{at}": extent for at, extent in enumerate(rows)} | {f"c{at}": e for at, e in enumerate(columns)}
    stride, terms = 1, []
    for name in reversed(order(list(extents))):
        terms.append(f"{name}*{stride}" if extents[name] > 1 else "0")
        stride *= extents[name]
    flat = [f"c{at}*{prod(columns[at + 1 :])}" for at, extent in enumerate(columns) if extent > 1]
    element = "to_float32(x0[{}])" if dtype == "int8" and "float" in y_type else "x0[{}]"
    does = [f"x={element.format('+'.join(terms))}", f"g=x1[{'+'.join(flat) or 0}]"]
    flat = [f"r{at}*{prod(rows[at + 1 :])}" for at, extent in enumerate(rows) if extent > 1]
    does += [f"h=x2[{'+'.join(flat) or 0}]", f"n={float(prod(columns))}", text]
    operands = f"{dtype}*{stride},float32*{prod(columns)}!,float16*{prod(rows)}"
    return Reduce.of(
        {"rows": tuple(rows), "columns": tuple(columns), "in": operands, "out": y_type, "do": ";".join(does)}
    )
