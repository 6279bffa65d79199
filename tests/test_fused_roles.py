"""Roles of two convolutions in one kernel that few random plans have, each by a plan that asks for it: tolerance 0."""

from __future__ import annotations

from exactness import check
from random_fused import TILE
from test_sanitizers_fused import GIVES, SM_80, TAKES

from qconv import Conv2d, generator
from qconv.device import open_device
from qconv.fused import chain_of


def test_rows_and_columns_are_padded_each_by_its_own() -> None:
    """The second looks at three columns of one row."""
    first = Conv2d(1, 9, 9, 16, 32, 1, 1, quantization=GIVES)
    second = Conv2d(1, 9, 9, 32, 24, 1, 3, pad=(0, 1, 0, 1), quantization=TAKES)
    device = open_device(SM_80)
    check(generator.plan(chain_of([first, second]), TILE, device.target), device, seed=2)
