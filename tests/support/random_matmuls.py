"""Random problems of `matmul`: plain, batched and transposed factors, convolutions, and epilogues, of every type."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod

from qconv.expression import MatMul

CLAMPED = "to_int32(maximum(-128.0,minimum(127.0,round(multiply(to_float32({}),0.03)))))"
# A factor's element type, its term, and the type of the sums.
FACTORS = {
    "float": ("float32", "{}", "float32"),
    "half": ("float16", "{}", "float32"),
    "dequantized": ("int8", "multiply(to_float32(subtract({},3)),0.0625)", "float32"),
    "byte": ("uint8", "subtract({},128)", "int32"),
    "signed byte": ("int8", "{}", "int32"),
    "long": ("int64", "{}", "int64"),
}
PAIRS = (
    *(("float", "float"), ("float", "half"), ("half", "half"), ("float", "dequantized")),
    *(("byte", "signed byte"), ("signed byte", "signed byte"), ("long", "long")),
)


def offset(names: Sequence[str], extents: dict[str, int]) -> str:
    """Return the text of the offset of an element in a contiguous array with these axes."""
    terms, step = [], 1
    for name in reversed(names):
        terms.append(f"{name}*{step}")
        step *= extents[name]
    return "+".join(reversed(terms)) or "0"


def matmuls(seed: int, count: int) -> list[MatMul]:
    return [_matmul(random.Random(f"matmul {seed} {index}")) for index in range(count)]


def convolutions(seed: int, count: int) -> list[MatMul]:
    return [_convolution(random.Random(f"convolution {seed} {index}")) for index in range(count)]


def _extents(rng: random.Random, letter: str, most: int) -> dict[str, int]:
    axes = rng.choices((0, 1, 2, 3), (1, 6, 2, 1))[0]
    extents: dict[str, int] = {}
    for axis in range(axes):
        extents[f"{letter}{axis}"] = rng.choice((1, 2, 3, most // 3, most)) if axis == 0 else rng.randint(1, 4)
    return extents


def _matmul(rng: random.Random) -> MatMul:
    groups = {letter: _extents(rng, letter, most) for letter, most in zip("bmnk", (3, 40, 40, 70), strict=True)}
    extents = {name: extent for group in groups.values() for name, extent in group.items()}
    pair = rng.choice(PAIRS)
    operands: list[str] = []
    terms: list[str] = []
    dtype = ""
    for side, factor in zip("mn", pair, strict=True):
        stored, term, dtype = FACTORS[factor]
        # Some factors are the same for all batches; the axes of memory are in any order.
        names = [*(groups["b"] if rng.random() < 0.7 else ()), *groups[side], *groups["k"]]
        rng.shuffle(names)
        terms.append(term.format(f"x{len(operands)}[{offset(names, extents)}]"))
        operands.append(f"{stored}*{prod(extents[name] for name in names)}")
    kept = [*groups["b"], *groups["m"], *groups["n"]]
    order = rng.sample(kept, len(kept)) if rng.random() < 0.4 else []
    lines, made, y_type = _epilogue(rng, dtype, groups["n"], extents)
    operands += made
    do = ";".join([f"s=sum_of(multiply({','.join(terms)}))", *lines])
    return MatMul.of(
        {
            **dict(zip(("batch", "m", "n", "k"), ([*group.values()] for group in groups.values()), strict=True)),
            "in": ",".join(operands),
            "out": y_type,
            "order": order,
            "do": do,
        }
    )


def _epilogue(
    rng: random.Random, dtype: str, n: dict[str, int], extents: dict[str, int]
) -> tuple[list[str], list[str], str]:
    """Return the statements that follow the sum s, the operands from x2 on that they read, and the output's type."""
    columns = prod(n.values())
    if dtype == "int64":
        return ["t=add(s,x2[0])"], ["int64*1"], "int64"
    at = offset(list(n), extents)
    if dtype == "int32":
        if rng.random() < 0.4:
            return [], [], "int32"
        return [f"t={CLAMPED.format(f'add(s,x2[{at}])')}"], [f"int32*{columns}!"], "int8"
    y_type = rng.choice(("float32", "float16"))
    if rng.random() < 0.3:
        return [], [], y_type
    function = rng.choice(("absolute", "sigmoid", "negate"))
    return [f"t={function}(add(s,multiply(x2[{at}],x3[0])))"], [f"float32*{columns}", "float16*1"], y_type


def convolution(
    images: int,
    image: tuple[int, int],
    channels: int,
    filters: int,
    kernel: tuple[int, int],
    *,
    stride: int = 1,
    dilation: int = 1,
    pad: int = 0,
    groups: int = 1,
    channels_last: bool = True,
) -> MatMul:
    """Return a float convolution with a bias: groups are batches, pixels are rows, filters of a group are columns."""
    (h, w), (r, s) = image, kernel
    out = [(extent + 2 * pad - dilation * (taps - 1) - 1) // stride + 1 for extent, taps in ((h, r), (w, s))]
    of_group, filters_of_group = channels // groups, filters // groups
    row, column = (f"m{axis}*{stride}+k{axis - 1}*{dilation}-{pad}" for axis in (1, 2))
    channel = f"b0*{of_group}+k2"
    if channels_last:
        at = f"m0*{h * w * channels}+({row})*{w * channels}+({column})*{channels}+{channel}"
    else:
        at = f"m0*{channels * h * w}+({channel})*{h * w}+({row})*{w}+{column}"
    element = f"guarded(x0[{at}],0.0,{row},{h},{column},{w})"
    weight = f"x1[(b0*{filters_of_group}+n0)*{r * s * of_group}+k0*{s * of_group}+k1*{of_group}+k2]"
    return MatMul.of(
        {
            "batch": [groups],
            "m": [images, *out],
            "n": [filters_of_group],
            "k": [r, s, of_group],
            "order": "m0,m1,m2,b0,n0" if channels_last else "m0,b0,n0,m1,m2",
            "in": f"float32*{images * h * w * channels},float32*{filters * r * s * of_group}!,float32*{filters}!",
            "out": "float32",
            "do": f"s=sum_of(multiply({element},{weight}));t=add(s,x2[b0*{filters_of_group}+n0])",
        }
    )


def transposed(images: int, image: tuple[int, int], channels: int, filters: int, taps: int, stride: int) -> MatMul:
    """Return a transposed float convolution. A tap reads a pixel where the stride divides its distance."""
    h, w = image
    out = [(extent - 1) * stride + taps for extent in image]
    # Enough is added so that no dividend is negative.
    more = stride * taps
    row, column = (f"(m{axis}-k{axis - 1}+{more})" for axis in (1, 2))
    at = f"m0*{h * w * channels}+({row}/{stride}-{taps})*{w * channels}+({column}/{stride}-{taps})*{channels}+k2"
    guards = f"{row}%{stride},1,{column}%{stride},1,{row}/{stride}-{taps},{h},{column}/{stride}-{taps},{w}"
    return MatMul.of(
        {
            "m": [images, *out],
            "n": [filters],
            "k": [taps, taps, channels],
            "in": f"float32*{images * h * w * channels},float32*{taps * taps * channels * filters}!",
            "out": "float32",
            "do": f"s=sum_of(multiply(guarded(x0[{at}],0.0,{guards}),"
            f"x1[k2*{filters * taps * taps}+n0*{taps * taps}+k0*{taps}+k1]))",
        }
    )


def attention(heads: int, tokens: int, width: int) -> MatMul:
    """Return the scores of heads: queries by keys, whose rows are contiguous, divided and masked."""
    element, masks = heads * tokens * width, tokens * tokens
    at = f"[b0*{tokens * width}+{{}}*{width}+k0]"
    return MatMul.of(
        {
            "batch": heads,
            "m": tokens,
            "n": tokens,
            "k": width,
            "in": f"float32*{element},float32*{element},float32*{masks}",
            "out": "float32",
            "do": f"s=sum_of(multiply(x0{at.format('m0')},x1{at.format('n0')}));"
            f"t=add(multiply(s,0.125),x2[m0*{tokens}+n0])",
        }
    )


def of_bytes(m: int, n: int, k: int) -> MatMul:
    """Return a product of bytes with zero points and scales of columns, requantized."""
    return MatMul.of(
        {
            "m": m,
            "n": n,
            "k": k,
            "in": f"uint8*{m * k},int8*{n * k}!,uint8*1,int32*{n}!,float32*{n}!",
            "out": "int8",
            "do": f"s=sum_of(multiply(subtract(x0[m0*{k}+k0],x2[0]),x1[n0*{k}+k0]));a=add(s,x3[n0]);"
            "t=to_int32(maximum(-128.0,minimum(127.0,round(multiply(to_float32(a),x4[n0])))))",
        }
    )


def _convolution(rng: random.Random) -> MatMul:
    groups = rng.choice((1, 1, 2, 3))
    return convolution(
        rng.randint(1, 2),
        (rng.randint(5, 9), rng.randint(5, 9)),
        groups * rng.choice((1, 3, 8)),
        groups * rng.choice((1, 5, 16)),
        (rng.randint(1, 3), rng.randint(1, 3)),
        stride=rng.randint(1, 2),
        dilation=rng.randint(1, 2),
        pad=rng.randint(0, 2),
        groups=groups,
        channels_last=rng.random() < 0.6,
    )
