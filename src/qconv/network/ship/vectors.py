"""The vectors of a shipped network: random inputs that C++ draws as well, the outputs that belong to them, and the
checksums of tensors that kernels make on the way."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qconv.network.ship.program import Port
from qconv.op import Array

# Stored elements per output, at equal distances, to say where one differs. The checksum is of all.
STORED = 32


def drawn(port: Port, seed: int) -> Array:
    """Return an input as `drawn.h` draws it: bytes of their whole range, floats from -4 to 4, bools, and wider integers
    from 0 to 255."""
    count = int(np.prod(port.shape, dtype=np.int64))
    with np.errstate(over="ignore"):
        first = np.uint64(seed) * np.uint64(0xD1342543DE82EF95)
        z = first + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    made: Array = ((z ^ (z >> np.uint64(31))) >> np.uint64(56)).astype(np.uint8)
    kind = np.dtype(port.dtype)
    if kind.kind == "f" and kind.itemsize > 1:
        made = (made.view(np.int8).astype(np.float32) / 32).astype(kind)
    elif kind.kind == "b":
        made = (made & 1).astype(kind)
    else:
        made = made.view(kind) if kind.itemsize == 1 else made.astype(kind)
    return made.reshape(port.shape)


@dataclass(frozen=True)
class Recorded:
    """A run with drawn inputs: its outputs, and the checksums of tensors by their names and by whether their
    channels are last in memory."""

    outputs: Sequence[Any]
    tensors: Mapping[tuple[str, bool], int] = field(default_factory=dict)


def vectors_text(runs: Sequence[Recorded]) -> str:
    """Return the text that the self-test reads, of one run for each program."""
    return "".join(f"{line}\n" for number, run in enumerate(runs) for line in _lines(number, run))


def _lines(number: int, run: Recorded) -> Iterator[str]:
    for at, output in enumerate(run.outputs):
        flat = np.ascontiguousarray(output).reshape(-1)
        places = range(0, flat.size, max(1, -(-flat.size // STORED)))
        shown = " ".join(f"{place} {flat[place].tobytes().hex()}" for place in places)
        yield f"vector {number} {at} {zlib.crc32(flat.tobytes())} {len(places)} {shown}"
    for (name, is_last), crc in run.tensors.items():
        if name.isprintable():  # others would be several lines
            yield f"tensor {number} {'last' if is_last else 'model'} {crc} {name}"
