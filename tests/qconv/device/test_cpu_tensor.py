"""TMA copies on the CPU device, as late as allowed and as early, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_kernels import unoptimised
from random_tiles import array_of, random_case
from tensor_kernels import Case, Kind, difference

from qconv import Conv2d
from qconv.device.cache import Binary
from qconv.device.cpu import CpuDevice, CpuKernel
from qconv.errors import LaunchError
from qconv.generator.tensor_map import TensorMap, im2col, matrix
from qconv.targets.target import target

TARGET = target("cpu.sm_90a")
CASES: list[tuple[Kind, int]] = [(kind, seed) for kind in ("load", "store") for seed in range(8)]
SEEDS = (0, 1, 2, 3)


def kernel_of(case: Case, seed: int, text: str | None = None) -> CpuKernel:
    source = case.text(TARGET) if text is None else text
    path = unoptimised(source)
    return CpuKernel(TARGET, Binary(b"", path, "g++", 0.0, {}), case.plan(TARGET).launches, seed)


def finding(case: Case, seed: int, text: str | None = None) -> str | None:
    """Return the runtime's message, or the position of the first differing byte."""
    try:
        return difference(case, *case.on(CpuDevice(TARGET, seed), kernel_of(case, seed, text)))
    except LaunchError as error:
        return str(error)


@pytest.mark.turns
@pytest.mark.parametrize(("kind", "number"), CASES)
def test_tiles_lie_where_numpy_puts_them(kind: Kind, number: int) -> None:
    case = random_case(number, kind)
    for seed in SEEDS:
        assert finding(case, seed) is None, (seed, case.tensor_map, case.coordinates)


ROWS = matrix("x", "int32", 8, 16, 4, 8, 32)
OUTPUTS = TensorMap("y", "int8", (32, 5, 5, 1), (32, 160, 800), (16, 2, 2, 1))
PIXELS = im2col(Conv2d(1, 5, 5, 16, 8, 3, 3, pad=1), 16, 8)


@pytest.mark.parametrize(
    ("tensor_map", "kind", "coordinates", "says"),
    [
        (ROWS, "load", (2, 0), "a tile that begins at byte 8 of its rows, which 16 does not divide"),
        (OUTPUTS, "store", (8, 0, 0, 0), "a tile that begins at byte 8 of its rows, which 16 does not divide"),
        (OUTPUTS, "store", (0, -1, 0, 0), "a store of a tile that begins before the array"),
        (PIXELS, "load", (0, -2, 0, 0, 0, 0), "im2col from a pixel outside of the box of its tensor map"),
        (PIXELS, "load", (0, 0, 4, 0, 0, 0), "im2col from a pixel outside of the box of its tensor map"),
    ],
)
def test_what_stops_a_gpu_is_said_in_words(
    tensor_map: TensorMap, kind: Kind, coordinates: tuple[int, ...], says: str
) -> None:
    tiles = np.zeros(tensor_map.bytes if kind == "store" else 0, np.uint8)
    case = Case(tensor_map, array_of(tensor_map, 1), [coordinates], kind, 1, tiles)
    assert says in str(finding(case, 0))


def test_a_map_that_nobody_has_encoded_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CpuDevice, "encode", lambda *_: bytes(128))
    case = Case(ROWS, array_of(ROWS, 1), [(0, 0)])
    assert "a tensor map that nobody has encoded" in str(finding(case, 0))
