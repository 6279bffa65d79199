"""The forming of regions, and their boundaries."""

from __future__ import annotations

from dataclasses import replace

import pytest
from integer_model import Model

from qconv.network import Choices, Network, Region, find_regions, fold_sums, read_layer
from qconv.network.run.region import Fusion
from qconv.onnx import Session


def regions(network: Network, sums: bool = True, chains: bool = True) -> tuple[list[str], list[Region]]:
    """Return the names of the layers, and the regions."""
    served = {layer.name: read_layer(layer, network) for layer in network.layers}
    choices = Choices(None if sums else False, None if chains else False, tables=False)
    made, found = find_regions(network, served, choices)
    assert set(found) == {layer.name for layer in made.layers}
    return [layer.name for layer in made.layers], [one for one in found.values() if isinstance(one, Region)]


def read(model: Model, *outputs: str) -> Network:
    return Session(model.made(*outputs), "cpu")._model.network


def spans(region: Region) -> set[tuple[int, int]]:
    return {(one.begin, one.end) for one in region.fusions}


def test_the_ways_through_three_convolutions_and_a_sum() -> None:
    model = Model()
    x = model.input(1, 4, 5, 5)
    one_is, two_is, three_is = (model.numbers() for _ in range(3))
    one = model.conv(x, 4, 8, model.numbers(), one_is)
    two = model.conv(one, 8, 8, one_is, two_is, 3)
    three = model.conv(two, 8, 4, two_is, three_is)
    y = model.add(three, three_is, x, model.numbers(), model.numbers())
    network = read(model, y)
    names, (region,) = regions(network)
    assert names == [y]
    assert (region.inputs, region.y) == ((x,), y)
    assert region.layer.unfolded == network.layers
    assert spans(region) == {(0, 2), (1, 3), (0, 3), (2, 4), (1, 4), (0, 4)}
    assert len(region.fusions) == 6
    assert [spans(each) for each in regions(network, chains=False)[1]] == [{(2, 4)}]
    assert [spans(each) for each in regions(network, sums=False)[1]] == [{(0, 2), (1, 3), (0, 3)}]
    assert regions(network, sums=False, chains=False) == ([one, two, three, y], [])


def test_of_two_convolutions_the_later_one_has_the_sum_behind_it() -> None:
    model = Model()
    x = model.input(1, 4, 5, 5)
    one_is, two_is = model.numbers(), model.numbers()
    one = model.conv(x, 4, 8, model.numbers(), one_is)
    two = model.conv(x, 4, 8, model.numbers(), two_is, 3)
    y = model.add(one, one_is, two, two_is, model.numbers())
    network = read(model, y)
    layers = {layer.name: layer for layer in network.layers}
    for first, last in ((one, two), (two, one)):
        names, (region,) = regions(replace(network, layers=(layers[first], layers[last], layers[y])))
        assert names == [first, y]
        assert [element.layer.name for element in region.elements] == [last, y]
        assert region.inputs == (x, first)


def test_what_two_read_ends_a_region() -> None:
    model = Model()
    x = model.input(1, 4, 5, 5)
    mid_is = model.numbers()
    mid = model.conv(x, 4, 4, model.numbers(), mid_is)
    a = model.conv(mid, 4, 4, mid_is, model.numbers())
    b = model.conv(mid, 4, 4, mid_is, model.numbers())
    assert regions(read(model, a, b))[1] == []
    assert regions(read(model, a, mid))[1] == []


@pytest.mark.parametrize("reads_it_as_well", [True, False])
def test_what_is_added_is_not_what_is_convolved(reads_it_as_well: bool) -> None:
    """A convolution followed by a sum reads two tensors. It continues from the first, unless that is both."""
    model = Model()
    x, mid_is, y_is = model.input(1, 4, 5, 5), model.numbers(), model.numbers()
    mid = model.conv(x, 4, 4, model.numbers(), mid_is)
    own = model.conv(mid if reads_it_as_well else model.input(1, 4, 5, 5), 4, 4, mid_is, y_is)
    network = read(model, y := model.add(own, y_is, mid, mid_is, model.numbers()))
    layers = {layer.name: layer for layer in network.layers}
    network = replace(network, layers=(layers[mid], layers[own], layers[y]))
    network, served = fold_sums(network, {layer.name: read_layer(layer, network) for layer in network.layers})
    assert set(served) == {mid, own}
    assert network.only_consumer(mid) == served[own].layer
    assert find_regions(network, served, Choices())[1] == served


def test_equal_shapes_are_added() -> None:
    model = Model()
    x, residual = model.input(2, 4, 5, 5), model.input(2, 8, 5, 5)
    own_is = model.numbers()
    own = model.conv(x, 4, 8, model.numbers(), own_is)
    y = model.add(own, own_is, residual, model.numbers(), model.numbers())
    _, (region,) = regions(read(model, y))
    (fusion,) = region.fusions
    assert isinstance(fusion, Fusion)
    shapes = {x: (2, 4, 5, 5), residual: (2, 8, 5, 5), y: (2, 8, 5, 5)}
    assert fusion.problem(shapes).outputs[0].shape == (2, 5, 5, 8)
    with pytest.raises(ValueError, match="they must be equal"):
        fusion.problem({**shapes, residual: (2, 1, 5, 5)})
