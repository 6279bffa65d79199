"""Problems with their counts, and the reason why each is part of the workload."""

from __future__ import annotations

import pytest

from qconv import Conv2d, FusedBlock, FusedConv2d
from qconv.tuner.workload import Place, Refused, Workload

ONE, TWO, THREE = Conv2d(1, 6, 6, 8, 16, 1, 1), Conv2d(1, 6, 6, 16, 16, 3, 3, pad=1), Conv2d(1, 6, 6, 16, 8, 1, 1)
PAIR, BLOCK = FusedConv2d(TWO, THREE), FusedBlock(ONE, TWO, THREE)


def test_a_layer_counts_what_the_network_computes() -> None:
    """Being part of a chain as well does not add to its count."""
    workload = Workload.of(
        "net", [Place("f", PAIR, "fusion"), Place("a", TWO), Place("b", TWO), Place("g", PAIR, "fusion")]
    )
    found = {entry.problem: (entry.role, entry.count, entry.places) for entry in workload.entries}
    assert found == {
        TWO: ("layer", 2, ("a", "b")),
        THREE: ("part", 2, ("f", "g")),
        PAIR: ("fusion", 2, ("f", "g")),
    }
    assert [entry.problem for entry in workload.layers] == [TWO]


def test_the_parts_of_the_parts_come_first() -> None:
    workload = Workload.of("net", [Place("block", BLOCK)])
    assert [entry.problem for entry in workload.entries] == [ONE, TWO, THREE, PAIR, BLOCK]
    assert [entry.role for entry in workload.entries] == ["part", "part", "part", "part", "layer"]


def test_nothing_to_tune_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="net has no convolution to tune; the first of 1 that are none, a: too large"):
        Workload.of("net", [], [Refused("a", "too large")])


def test_an_entry_names_its_layers_in_few_words() -> None:
    entries = Workload.of("net", [Place("a", ONE), Place("b", TWO), Place("c", TWO), Place("d", TWO)]).entries
    assert [str(entry) for entry in entries] == ["a", "b and 2 more"]
