"""What may be a part of the kernel of the convolution in front of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Choices:
    """Sums of two tensors, further convolutions (`chains`), functions of an output (`tables`), and max pools: None
    decides it for each place, True takes every kernel that there is, False takes none."""

    sums: bool | None = None
    chains: bool | None = None
    tables: bool | None = None
    pools: bool | None = None
