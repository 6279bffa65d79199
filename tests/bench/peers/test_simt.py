"""The project's own peer, which needs neither a GPU nor PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from peers import Case, prepare

from qconv import Conv2d
from qconv.device import open_device
from qconv.ops import registry
from qconv.tuner.measure.protocol import protocol_for

PROBLEM = Conv2d(2, 6, 5, 8, 12, 3, 3, pad=(1, 0, 1, 2), stride=(1, 2))


@pytest.mark.slow
def test_the_simt_peer_must_give_our_output() -> None:
    device, drawn = open_device("cpu"), registry.draw(PROBLEM, 1)
    (want,) = registry.compute(PROBLEM, drawn)
    case = Case(PROBLEM, drawn, want, device, protocol_for(device))
    ready, missing = prepare(["simt"], case)
    assert ready["simt"].facts["origin"] == "default"
    assert missing == {}
    ready, missing = prepare(["simt"], Case(PROBLEM, drawn, np.zeros_like(want), device, protocol_for(device)))
    assert ready == {}
    assert "not ours" in missing["simt"]
