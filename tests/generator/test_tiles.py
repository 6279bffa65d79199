"""How many blocks a multiprocessor holds at a time, by the shared memory that each takes."""

from __future__ import annotations

import pytest

from qconv.errors import Infeasible
from qconv.generator.tiles import check_blocks_per_sm
from qconv.target import TARGETS

H200 = TARGETS["sm_90a"]


def test_every_block_takes_a_kilobyte_beside_its_own() -> None:
    """The driver reserves it."""
    half = H200.smem_bytes_per_sm // 2
    check_blocks_per_sm(2, 128, half - 1024, 32, H200)
    with pytest.raises(Infeasible, match="bytes of shared memory of all resident blocks") as refused:
        check_blocks_per_sm(2, 128, half, 32, H200)
    assert refused.value.excess == pytest.approx(2048 / H200.smem_bytes_per_sm)


def test_what_fits_exactly_fits() -> None:
    check_blocks_per_sm(1, 1024, H200.smem_bytes_per_sm - 1024, 64, H200)
