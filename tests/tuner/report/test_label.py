"""A problem's key as words."""

from __future__ import annotations

from qconv import Conv2d, parse
from qconv.tuner.report.label import label_of

LAYER = Conv2d(1, 28, 28, 64, 64, 3, 3, pad=1)


def test_a_label_leaves_out_the_usual_types_only() -> None:
    assert label_of(LAYER) == "conv2d n=1 h=28 w=28 c=64 k=64 r=3 s=3 pad=1,1,1,1"
    unsigned = parse(str(LAYER).replace("x_type=int8", "x_type=uint8"))
    assert label_of(unsigned).endswith(" x_type=uint8 w_type=int8 out_type=int8")
