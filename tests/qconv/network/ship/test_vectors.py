"""Inputs that C++ draws too, and the text of the outputs that belong to them."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from qconv.network.ship.program import Port
from qconv.network.ship.vectors import STORED, Recorded, drawn, vectors_text


def test_drawn_numbers_stay_what_they_are() -> None:
    """Folders that were written stay right: the first numbers of two seeds."""
    assert drawn(Port("x", "uint8", (6,)), 1).tolist() == [244, 191, 212, 208, 72, 54]
    assert drawn(Port("x", "uint8", (3,)), 2).tolist() == [97, 24, 91]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32", "float16", "bool", "int32", "int64"])
def test_types(dtype: str) -> None:
    array = drawn(Port("x", dtype, (4, 1000)), 3)
    assert (array.shape, array.dtype) == ((4, 1000), np.dtype(dtype))
    span = {"int8": (-128, 127), "bool": (0, 1), "float32": (-4, 127 / 32), "float16": (-4, 127 / 32)}.get(
        dtype, (0, 255)
    )
    assert (array.min(), array.max()) == span


def test_text() -> None:
    port = Port("x", "int8", (2, 50))
    tensors = {("a tensor", True): 7, ("two\nlines", False): 8, ("z", False): 9}
    text = vectors_text([Recorded([drawn(port, 1), np.float32([1.5])], tensors), Recorded([])])
    first, second, *others = (line.split() for line in text.splitlines())
    assert first[:4] == ["vector", "0", "0", str(zlib.crc32(drawn(port, 1).tobytes()))]
    assert int(first[4]) <= STORED
    assert len(first) == 5 + 2 * int(first[4])
    assert second[1:3] == ["0", "1"]
    assert second[5:] == ["0", "0000c03f"]
    assert others == [["tensor", "0", "last", "7", "a", "tensor"], ["tensor", "0", "model", "9", "z"]]
