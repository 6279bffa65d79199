"""Random tensor maps of random arrays, and tiles to copy by them, some of them partly or wholly outside."""

from __future__ import annotations

import random

import numpy as np
from tensor_kernels import Case, Kind

from qconv import Conv2d, Quantization
from qconv.dtypes import ELEMENT_TYPES
from qconv.generator.tensor_map import TensorMap, first_tap, im2col

ROWS = {0: (16, 48, 80, 256), 32: (32,), 64: (64,), 128: (128,)}  # bytes, by swizzle


def array_of(tensor_map: TensorMap, seed: int) -> np.ndarray:
    """Return an array without a byte beyond its last element."""
    size = sum((extent - 1) * stride for extent, stride in zip(tensor_map.dims[1:], tensor_map.strides, strict=True))
    size += tensor_map.dims[0] * tensor_map.element_bytes
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def random_tile(seed: int, kind: Kind) -> Case:
    draw = random.Random(f"tile {seed} {kind}")
    rank = 4 if kind == "store" else draw.randint(2, 5)  # outputs have four dimensions
    swizzle = draw.choice(list(ROWS))
    dtype = draw.choice(["int8", "uint8", "int32", "float16", "float32", "float64"])
    size = ELEMENT_TYPES[dtype].bytes
    row = draw.choice([row for row in ROWS[swizzle] if row % size == 0 and row // size <= 256])
    chunk = 16 // size  # the unit in which TMA counts rows
    dims = [chunk * draw.randint(1, 2 * row // 16), *(draw.randint(1, 9) for _ in range(rank - 1))]
    strides, pitch = [], dims[0] * size
    for extent in dims[1:]:
        pitch = -(-pitch // 16) * 16 + 16 * draw.randint(0, 1)
        strides.append(pitch)
        pitch *= extent
    box = [row // size, draw.choice([8, 16, 5, 3])]
    box += [draw.randint(1, 3) for _ in range(rank - 2)]
    steps = (1, *(draw.choice([1, 1, 2, 3]) if kind == "load" else 1 for _ in range(rank - 1)))
    tensor_map = TensorMap("x", dtype, tuple(dims), tuple(strides), tuple(box), None, steps, swizzle)
    count = 2 * draw.randint(2, 4)
    if kind == "store":
        return _disjoint(tensor_map, seed, draw)
    counts = [(chunk, box[0], dims[0]), *((1, extent, whole) for extent, whole in zip(box[1:], dims[1:], strict=True))]
    coordinates = [
        tuple(step * draw.randint(-extent // step, whole // step) for step, extent, whole in counts)
        for _ in range(count)
    ]
    coordinates[0] = (0,) * rank
    return Case(tensor_map, array_of(tensor_map, seed), coordinates, kind, slots=draw.randint(1, 4))


def _disjoint(tensor_map: TensorMap, seed: int, draw: random.Random) -> Case:
    """Draw disjoint tiles, some of which extend outside; none may begin before the array."""
    chunk = 16 // tensor_map.element_bytes
    first = [draw.randrange(0, tensor_map.dims[0], chunk), *(draw.randrange(extent) for extent in tensor_map.dims[1:])]
    grid = [(d, e) for d, e in zip(tensor_map.dims, tensor_map.box, strict=True)]
    counts = [min(3, -(-(d - f) // e)) for (d, e), f in zip(grid, first, strict=True)]
    every = [tuple(f + i * e for f, i, (_, e) in zip(first, index, grid, strict=True)) for index in np.ndindex(*counts)]
    coordinates = draw.sample(every, min(len(every), 6))
    tiles = np.random.default_rng(seed + 1).integers(0, 256, len(coordinates) * tensor_map.bytes, dtype=np.uint8)
    return Case(tensor_map, array_of(tensor_map, seed), coordinates, "store", draw.randint(1, 3), tiles)


def random_im2col(seed: int, kind: Kind) -> Case:
    draw = random.Random(f"im2col {seed} {kind}")
    r, s = draw.randint(1, 4), draw.randint(1, 4)
    dilation = draw.randint(1, 3), draw.randint(1, 3)
    pad = tuple(draw.randint(0, 3) for _ in range(4))
    least = ((r - 1) * dilation[0] + 1, (s - 1) * dilation[1] + 1)
    problem = Conv2d(
        draw.randint(1, 3),
        max(draw.randint(1, 9), least[0] - pad[0] - pad[2]),
        max(draw.randint(1, 9), least[1] - pad[1] - pad[3]),
        16 * draw.randint(1, 6),
        8,
        r,
        s,
        stride=(draw.randint(1, 3), draw.randint(1, 3)),
        dilation=dilation,
        pad=(pad[0], pad[1], pad[2], pad[3]),
        quantization=Quantization(x_type=draw.choice(["int8", "uint8"])),
    )
    swizzle = draw.choice(list(ROWS))
    pixels = draw.choice([1, 5, 8, 16, 40, 64])
    tensor_map = im2col(problem, draw.choice(ROWS[swizzle]), pixels, swizzle)
    begins = [first_tap(problem, pixel) for pixel in range(0, problem.n * problem.oh * problem.ow, pixels)]
    coordinates = [
        (
            draw.randrange(0, problem.c, 16),
            *draw.choice(begins),
            draw.randrange(s) * dilation[1],
            draw.randrange(r) * dilation[0],
        )
        for _ in range(2 * draw.randint(2, 5))
    ]
    return Case(tensor_map, array_of(tensor_map, seed), coordinates, kind, slots=draw.randint(1, 4))


def random_case(seed: int, kind: Kind) -> Case:
    return random_im2col(seed, kind) if seed % 2 and kind != "store" else random_tile(seed, kind)
