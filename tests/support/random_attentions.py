"""Random problems of `attention`: heads that lie behind each other or beside each other, masks, weights by a table or
by the exponential function, and outputs of every type."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import prod

from qconv.expression import Attention

# A score is a byte of the sum, with a mask of rows and keys or without one.
SCORED = "{sum};u=multiply(u,0.0004);v={masked};w=to_int32(minimum(maximum(add(round(v),120.0),0.0),255.0))"
# Weights: nearly all of a softmax is zero without the factor.
BY_EXPONENTIAL = (
    "t=x0[{at}];m=maximum_of(t);e=exp(multiply(to_float32(subtract(t,m)),0.04));s=sum_of(e);"
    "w=nearest(minimum(multiply(divide(e,s),1500.0),255.0))"
)
BY_ROW = (
    "t=x0[{at}];m=maximum_of(t);e=exp(multiply(to_float32(subtract(t,m)),0.04));s=sum_of(e);"
    "w=nearest(minimum(maximum(multiply(divide(e,s),multiply(x1[r0],700.0)),0.0),255.0))"
)
BY_TABLE = (
    "t=x0[{at}];m=maximum_of(t);e=looked_up(x1,bit_and(add(subtract(t,m),255),255));s=sum_of(multiply(e,e));"
    "w=nearest(minimum(multiply(divide(multiply(e,e),add(s,1.0)),900.0),255.0))"
)
BY = {"exponential": BY_EXPONENTIAL, "table": BY_TABLE, "row": BY_ROW}
FINISHED = {
    "int32": "y=to_int32({sum})",
    "float32": "y=multiply(to_float32({sum}),0.125)",
    "uint8": "y=to_int32(minimum(maximum(add(round(multiply(to_float32({sum}),0.002)),128.0),0.0),255.0))",
}


@dataclass(frozen=True)
class Sizes:
    batch: tuple[int, ...]
    rows: int
    keys: int
    depth: int
    columns: int


def attentions(seed: int, count: int) -> list[Attention]:
    return [_attention(random.Random(f"attention {seed} {index}")) for index in range(count)]


def of(sizes: Sizes, dtype: str = "uint8", *, beside: bool = False, mask: bool = False, by: str = "exponential",
       integers: bool = False, guarded: bool = False, out: str = "int32") -> Attention:  # fmt: skip
    """Return an attention. `beside`: the heads of a row lie beside each other, and so do rows, keys and values, as one
    product makes them; else each is an array of its own, the values with their rows along the keys. `by`: one of BY.
    `guarded`: the last row of the left factor is a number."""
    batch = ",".join(map(str, sizes.batch))
    heads = prod(sizes.batch)
    row, key, value, elements = (_beside if beside else _behind)(sizes)
    number = "{}" if integers else "to_float32({})"
    left = f"guarded(x0[{row}],9,m0,{sizes.rows - 1})" if guarded else f"x0[{row}]"
    product = f"sum_of(multiply({number.format(f'subtract({left},x2[0])')},{{}}))"
    right = number.format(f"subtract(x1[{key}],100)")
    at = _batches(sizes, sizes.rows * sizes.keys) + f"m0*{sizes.keys}+n0"
    masked = f"add(u,x3[{at}])" if mask else "u"
    of_scores = f"s={product.format(right)};u=to_float32(s)"
    scores = (
        f"matmul:batch={batch}:m={sizes.rows}:n={sizes.keys}:k={sizes.depth}:"
        f"in={dtype}*{elements[0]},{dtype}*{elements[1]},{dtype}*1!"
        + (f",float32*{heads * sizes.rows * sizes.keys}" if mask else "")
        + f":out=uint8:do={SCORED.format(sum=of_scores, masked=masked)}"
    )
    weights = (
        f"reduce:rows={heads * sizes.rows}:columns={sizes.keys}:in=uint8*{heads * sizes.rows * sizes.keys}"
        + {"exponential": "", "table": ",float32*256!", "row": f",float32*{heads * sizes.rows}"}[by]
        + f":out=uint8:do={BY[by].format(at=f'r0*{sizes.keys}+c0')}"
    )
    images = [f"b{at}" for at in range(len(sizes.batch))]
    order = f"order={','.join((*images[:-1], 'm0', images[-1], 'n0'))}:" if beside else ""
    weight = _batches(sizes, sizes.rows * sizes.keys) + f"m0*{sizes.keys}+k0"
    factors = f"{number.format(f'subtract(x0[{weight}],3)')},{number.format(f'subtract(x1[{value}],x2[0])')}"
    values = (
        f"matmul:batch={batch}:m={sizes.rows}:n={sizes.columns}:k={sizes.keys}:"
        f"in=uint8*{heads * sizes.rows * sizes.keys},{dtype}*{elements[2]},{dtype}*1!:out={out}:{order}"
        f"do=s=sum_of(multiply({factors}));{FINISHED[out].format(sum='s')}"
    )
    return Attention.read("+".join((scores, weights, values)))


def _batches(sizes: Sizes, of_head: int) -> str:
    """Return the text of the first element of a head, where heads are behind each other."""
    strides = [prod(sizes.batch[at + 1 :]) * of_head for at in range(len(sizes.batch))]
    return "".join(f"b{at}*{stride}+" for at, stride in enumerate(strides))


def _behind(sizes: Sizes) -> tuple[str, str, str, tuple[int, int, int]]:
    heads, depth = prod(sizes.batch), sizes.depth
    counts = (heads * sizes.rows * depth, heads * sizes.keys * depth, heads * sizes.keys * sizes.columns)
    return (
        f"{_batches(sizes, sizes.rows * depth)}m0*{depth}+k0",
        f"{_batches(sizes, sizes.keys * depth)}n0*{depth}+k0",
        f"{_batches(sizes, sizes.keys * sizes.columns)}n0*{sizes.keys}+k0",
        counts,
    )


def _beside(sizes: Sizes) -> tuple[str, str, str, tuple[int, int, int]]:
    """The last axis of the batch is that of the heads."""
    *images, heads = sizes.batch
    wide = heads * (2 * sizes.depth + sizes.columns)
    tokens = max(sizes.rows, sizes.keys)
    strides = [prod(images[at + 1 :]) * tokens * wide for at in range(len(images))]
    image = "".join(f"b{at}*{stride}+" for at, stride in enumerate(strides))
    head = f"b{len(images)}"
    total = prod(images) * tokens * wide
    return (
        f"{image}m0*{wide}+{head}*{sizes.depth}+k0",
        f"{image}n0*{wide}+{head}*{sizes.depth}+{heads * sizes.depth}+k0",
        f"{image}k0*{wide}+{head}*{sizes.columns}+{2 * heads * sizes.depth}+n0",
        (total, total, total),
    )


def _attention(rng: random.Random) -> Attention:
    batch = tuple(rng.randint(1, 3) for _ in range(rng.randint(1, 3)))
    keys = rng.choice((5, 9, 16, 17, 31, 49, 64, 100, 129, rng.randint(5, 256)))
    sizes = Sizes(
        batch,
        rng.choice((1, 7, 16, 33, 49, rng.randint(1, 80))),
        keys,
        rng.choice((3, 8, 16, 20, 32, 36, 64, 72)),
        rng.choice((1, 5, 8, 16, 20, 32, 40, 64, 100)),
    )
    # Sums of products are exact up to 2**24.
    return of(
        sizes,
        rng.choice(("int8", "uint8")),
        beside=rng.random() < 0.5,
        mask=rng.random() < 0.3,
        by=rng.choice(tuple(BY)),
        integers=rng.random() < 0.3,
        out=rng.choice(tuple(FINISHED)),
    )
