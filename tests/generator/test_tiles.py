"""The number of resident blocks per SM, by the shared memory of each."""

from __future__ import annotations

import pytest

from qconv import Conv2d, generator
from qconv.errors import Infeasible
from qconv.generator.tiles import check_blocks_per_sm
from qconv.targets.target import TARGETS

H200 = TARGETS["sm_90a"]


def test_every_block_takes_a_kilobyte_beside_its_own() -> None:
    """The driver reserves it."""
    half = H200.smem_bytes_per_sm // 2
    check_blocks_per_sm(2, 128, half - 1024, 32, H200)
    with pytest.raises(Infeasible, match="bytes of shared memory of all resident blocks") as refused:
        check_blocks_per_sm(2, 128, half, 32, H200)
    assert refused.value.excess == pytest.approx(2048 / H200.smem_bytes_per_sm)


@pytest.mark.parametrize(("family", "channels", "groups"), [("stem", 4, 1), ("direct", 16, 4)])
def test_where_an_output_would_be_is_a_number_of_31_bits(family: str, channels: int, groups: int) -> None:
    """In an image of nearly 2^31 outputs, the indices of tiles past its last row would overflow."""
    for rows, is_served in ((16000, True), (32756, False)):
        problem = Conv2d(1, rows, 65532 // channels, channels, channels, 3, 3, pad=1, groups=groups)
        plans, rejected = generator.space(problem, H200, likely=True)
        assert (family in {plan.config.family for plan in plans}) == is_served
        reasons = [one.reason for one in rejected if one.config.family == family]
        assert any("outputs of whole tiles" in reason for reason in reasons) != is_served


def test_what_fits_exactly_fits() -> None:
    check_blocks_per_sm(1, 1024, H200.smem_bytes_per_sm - 1024, 64, H200)
