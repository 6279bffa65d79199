"""The problems of neighbouring layers: those that a network looks up, in one line of JSON."""

from __future__ import annotations

import json

import pytest

from qconv import Conv2d, Quantization
from qconv.instances.load.building import Place
from qconv.instances.load.expected import Expectations
from qconv.instances.load.neighbours import Neighbours
from qconv.problem.chain import chain_of
from qconv.targets.target import target

H200 = Place("NVIDIA H200", target("sm_90a"))
SMALL = Conv2d(1, 14, 14, 64, 64, 1, 1)
# One kernel saves a small part of the time of these.
LARGE = Conv2d(64, 28, 28, 512, 512, 3, 3, pad=1)
SUM = Conv2d(1, 14, 14, 64, 64, 1, 1, quantization=Quantization(residual="int8"))
SEVERAL = Neighbours(
    (SMALL, SMALL, LARGE, LARGE), ((SUM, 0), (chain_of([SMALL, SMALL]), 0), (chain_of([LARGE, LARGE]), 2))
)


def test_a_chain_is_chosen_where_it_is_promising() -> None:
    found = list(SEVERAL.chosen(Expectations(H200)))
    assert found == [*SEVERAL.problems, SUM, chain_of([SMALL, SMALL])]


def test_a_network_that_is_to_have_them_has_all_chains() -> None:
    every = Neighbours(SEVERAL.problems, SEVERAL.fused, any_chain=True)
    assert list(every.chosen(Expectations(H200))) == list(every.every)


@pytest.mark.parametrize("any_chain", [False, True])
def test_they_are_the_same_after_a_journey(any_chain: bool) -> None:
    sent = Neighbours(SEVERAL.problems, SEVERAL.fused, any_chain)
    assert Neighbours.from_dict(json.loads(json.dumps(sent.as_dict()))) == sent
