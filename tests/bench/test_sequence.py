"""The convolutions of a network in one sequence, on the CPU device."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from current import is_current

from qconv.device import open_device

# b and c are depthwise and 1x1 in a row; d reads c's output.
LAYERS = """model,layer,N,C,H,W,K,R,S,stride_h,stride_w,pad_h,pad_w,dil_h,dil_w,groups,OH,OW,kind,macs,bias
tiny,a,1,16,6,6,32,1,1,1,1,0,0,1,1,1,6,6,pw,1,0
tiny,b,1,32,6,6,32,3,3,1,1,1,1,1,1,32,6,6,dw,1,0
tiny,c,1,32,6,6,16,1,1,1,1,0,0,1,1,1,6,6,pw,1,0
tiny,d,1,16,6,6,16,3,3,1,1,1,1,1,1,1,6,6,dense,1,0
"""
FIRST = "model,layer1,layer2,kind1,kind2,act1,between,N,C,H,W,K1,R1,S1,stride1,pad1,dil1,groups1"
PAIRS = f"""{FIRST},K2,R2,S2,stride2,pad2,dil2,groups2
tiny,b,c,dw,pw,ReLU6,none,1,32,6,6,32,3,3,1,1,1,32,16,1,1,1,0,1,1
tiny,c,d,pw,dense,ReLU6,none,1,32,6,6,16,1,1,1,0,1,1,16,3,3,1,1,1,1
"""


@pytest.fixture
def lists(tmp_path: Path) -> list[str]:
    for name, text in (("layers.csv", LAYERS), ("pairs.csv", PAIRS)):
        (tmp_path / name).write_text(text)
    return [str(tmp_path / name) for name in ("layers.csv", "pairs.csv")]


def test_a_pair_is_looked_up_at_once_and_every_convolution_counts_once(lists: list[str]) -> None:
    from sequence import deployed, links, pairs_of
    from workload import read

    layers = read(Path(lists[0]), batch=2, quantized=deployed)
    network = links(
        [layer.name for layer in layers], [layer.problem for layer in layers], pairs_of(Path(lists[1]), "^dw.pw$"), 2
    )
    assert [link.name for link in network] == ["tiny/a", "tiny/b+c", "tiny/d"]
    assert sum(link.convolutions for link in network) == 4
    assert [link.problem.outputs[0].shape for link in network] == [(2, 6, 6, 32), (2, 6, 6, 16), (2, 6, 6, 16)]


@pytest.mark.slow
def test_a_sequence_is_timed_both_ways(lists: list[str], tmp_path: Path) -> None:
    from sequence import main

    main([*lists, "--batch", "2", "--device", "cpu", "--out", str(tmp_path), "--commit", "c0ffee"])
    document = json.loads((tmp_path / "sequence.json").read_text())
    (row,) = document["rows"]
    assert document["commit"] == "c0ffee"
    assert row["verified"] is True
    assert row["convolutions"] == 4
    assert is_current(row, "cpu")
    # The CPU device may compute the pair by one kernel or two.
    assert row["launches"] in (3, 4)
    assert set(row["times_us"]) == {"overlapping", "one after the other"}
    # Uniformly distributed bytes have a standard deviation of 74.
    assert row["standard_deviation"]["least"] > 40
    assert row["images_per_s"] == pytest.approx(2e6 / row["time_us"])


@pytest.mark.slow
def test_what_one_writes_the_next_reads(lists: list[str]) -> None:
    """After one run, the last output is that of the chained oracles, with the packed scales."""
    from sequence import captured, choices_of, deployed, links, unfused, verified
    from workload import read

    from qconv.ops import registry

    layers = read(Path(lists[0]), batch=2, quantized=deployed)
    network = links([layer.name for layer in layers], [layer.problem for layer in layers], {}, 2)
    device = open_device("cpu")
    choices = choices_of(network, device, None)
    assert unfused(network, choices) == network
    ways = captured(network, verified(choices, device), device)
    for run in ways.runs.values():
        run()
    y = None
    for at, link in enumerate(network):
        drawn = registry.draw(link.problem, 1)
        x, w = drawn.arrays
        rolled = registry.Sample((x if y is None else y, np.roll(w, at)), drawn.parameters | ways.scales[at])
        (y,) = registry.compute(link.problem, rolled)
    assert (np.asarray(device.download(ways.outputs[-1])) == y).all()
