"""The partition of a network into segments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qconv.network import Layer, Network, partition
from qconv.network.run.partition import Segment


def network_of(edges: dict[str, tuple[str, ...]], outputs: tuple[str, ...]) -> Network:
    """Return a network from layer -> inputs; a layer's only output is its name in capitals."""
    layers = tuple(Layer(name, "Op", reads, (name.upper(),)) for name, reads in edges.items())
    return Network(("X",), outputs, layers, {}, {})


def names(segments: tuple[Segment, ...]) -> list[tuple[bool, str]]:
    return [(segment.served, "".join(layer.name for layer in segment.layers)) for segment in segments]


def test_layers_of_one_kind_run_together() -> None:
    network = network_of({"a": ("X",), "b": ("A",), "c": ("B",), "d": ("C",)}, ("D",))
    assert names(partition(network, {"b", "c"})) == [(False, "a"), (True, "bc"), (False, "d")]


def test_a_segment_waits_for_nothing_that_waits_for_it() -> None:
    """d reads a and c, which waits for a: if a and d were one segment, it and c would wait for each other."""
    network = network_of({"a": ("X",), "c": ("A",), "d": ("A", "C")}, ("D",))
    segments = partition(network, {"c"})
    assert names(segments) == [(False, "a"), (True, "c"), (False, "d")]
    made: set[str] = {"X"}
    for segment in segments:
        assert set(segment.inputs) <= made
        made |= set(segment.outputs)


def test_constants_are_no_inputs() -> None:
    network = network_of({"a": ("X", "W"), "b": ("A", "W")}, ("B",))
    segments = partition(replace(network, constants={"W": np.zeros(3)}), {"a"})
    assert [segment.inputs for segment in segments] == [("X",), ("A",)]


def test_branches_of_one_level_are_one_segment() -> None:
    network = network_of({"a": ("X",), "b": ("X",), "c": ("A",), "d": ("B",), "e": ("C", "D")}, ("E",))
    assert names(partition(network, {"a", "b"})) == [(True, "ab"), (False, "cde")]


def test_what_leaves_is_what_others_read_or_the_caller() -> None:
    network = network_of({"a": ("X",), "b": ("A",), "c": ("B",)}, ("A", "C"))
    first, second = partition(network, {"c"})
    assert (first.inputs, first.outputs) == (("X",), ("A", "B"))
    assert (second.inputs, second.outputs) == (("B",), ("C",))


def test_what_a_graph_within_a_layer_reads_comes_before_it() -> None:
    loop = Layer("loop", "Loop", ("X",), ("L",), captured=("A",))
    network = Network(("X",), ("L",), (Layer("a", "Op", ("X",), ("A",)), loop), {}, {})
    assert names(partition(network, {"a"})) == [(True, "a"), (False, "loop")]
